package megatron

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/moeplan/moeplan/layout"
)

// Example is a launch that breaks a rule, and the change after which it just does not. The tests run every one.
type Example struct {
	// Base is the model that the launch trains, in words; Breaks and Holds are what is said besides, flags written out.
	Base   string   `json:"base"`
	Breaks []string `json:"breaks"`
	Holds  []string `json:"holds"`
	Reason string   `json:"reason"` // why the one breaks it and the other does not
}

// baseWords say what the bases of the cases are.
var baseWords = map[byte]string{
	'D': "a dense model of 8 layers, 8 heads, hidden size 256, sequence 64, global batch 64, on 8 GPUs",
	'E': "a model of 8 layers with 8 experts, top-2, hidden size 256, sequence 64, global batch 64, on 8 GPUs",
	'M': "a dense model of 8 layers with latent attention, hidden size 256, sequence 64, global batch 64, on 8 GPUs",
	'H': "a hybrid model of two Mamba and two attention layers, hidden size 256, on 8 GPUs",
}

// Examples returns the examples of a rule, at least one for each of Rules but the parser's.
func Examples(id layout.RuleID) (out []Example) {
	for i := range ruleCases {
		if c := &ruleCases[i]; c.rule == id {
			out = append(out, Example{baseWords[c.breaks[0]], inWords(c.breaks[1:]), inWords(c.holds), c.reason})
		}
	}
	return out
}

// inWords writes the words of a case out, a flag with its values as one.
func inWords(words string) (out []string) {
	flag := false // the last one takes values
	for _, w := range strings.Fields(words) {
		short := shortWord.FindStringSubmatch(w)
		name, value, assigned := strings.Cut(w, "=")
		at := len(out)
		switch {
		case strings.HasPrefix(w, "~"):
			out = append(out, "without "+w[1:])
		case strings.HasPrefix(w, "--"):
			out = append(out, w)
		case w[0] == '@':
			out = append(out, w[1:]+" GPUs")
		case short != nil && shortWords[short[1]] != "":
			out = append(out, shortWords[short[1]]+" "+short[2])
		case name == "te" && assigned:
			out = append(out, "Transformer Engine "+value)
		case name == "torch" && assigned:
			out = append(out, "PyTorch "+value)
		case name == "sm" && assigned:
			out = append(out, "compute capability "+value)
		case name == "rel" && assigned:
			out = append(out, "Megatron-LM "+value)
		case assigned && value == "" && strings.ToUpper(name) == name:
			out = append(out, name+" not set")
		case assigned && strings.ToUpper(name) == name && len(name) > 2:
			out = append(out, w)
		case flag:
			out[at-1] += " " + w
			continue
		default:
			out = append(out, w)
		}
		flag = strings.HasPrefix(w, "--")
	}
	return out
}

// ruleCase is a command line that breaks a rule, and what makes it just not break it.
type ruleCase struct {
	rule layout.RuleID
	// breaks are words after a base: D dense, E experts, M latent attention, H hybrid. Short words stand for flags (shortWords);
	// "~--flag" takes one out; NAME=value sets a variable, NAME= unsets it; @16 is the world; te, torch, sm and rel the software.
	breaks string
	holds  string // words that follow: a repeated flag takes its last value
	reason string // why the one breaks and the other does not
}

var bases = func() map[byte]string {
	dense := "--num-layers 8 --hidden-size 256 --ffn-hidden-size 512 --num-attention-heads 8 --swiglu --normalization RMSNorm --disable-bias-linear " +
		"--untie-embeddings-and-output-weights --position-embedding-type rope --no-rope-fusion --seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 " +
		"--global-batch-size 64 --vocab-size 1000 --bf16 --attention-dropout 0.0 --hidden-dropout 0.0 --use-distributed-optimizer"
	return map[byte]string{
		'D': dense,
		'E': dense + " --num-experts 8 --moe-ffn-hidden-size 128 --moe-router-topk 2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall",
		'M': dense + " --multi-latent-attention --kv-lora-rank 32 --q-lora-rank 32 --qk-head-dim 16 --qk-pos-emb-head-dim 16 --v-head-dim 16",
		'H': strings.Replace(dense, "--num-layers 8 ", "", 1) + " --hybrid-layer-pattern M*M* --mamba-num-heads 8 --mamba-num-groups 2",
	}
}()

// shortWords are flags whose value follows at once: tp2.
var shortWords = map[string]string{"tp": "--tensor-model-parallel-size", "cp": "--context-parallel-size", "pp": "--pipeline-model-parallel-size",
	"ep": "--expert-model-parallel-size", "etp": "--expert-tensor-parallel-size", "L": "--num-layers", "gbs": "--global-batch-size", "mbs": "--micro-batch-size",
	"seq": "--seq-length", "pos": "--max-position-embeddings", "vs": virtualStagesFlag, "lpvs": perStageFlag, "first": "--decoder-first-pipeline-num-layers",
	"last": "--decoder-last-pipeline-num-layers", "inst": "--num-distributed-optimizer-instances", "shards": "--tensor-parallel-num-weight-shards",
	"heads": "--num-attention-heads", "mtp": "--mtp-num-layers"}

var shortWord = regexp.MustCompile(`^([a-zL]+)(-?\d+)$`)

// readCase is the launch that the words of a case stand for.
func readCase(words string) (argv []string, world int, env map[string]string, release Release, o CheckSettings, err error) {
	world, env = 8, map[string]string{connections: "1"}
	args, err := SplitArgs(strings.Fields(bases[words[0]]))
	if err != nil {
		return nil, 0, nil, Main, o, err
	}
	current := ""
	for _, w := range strings.Fields(words[1:]) {
		short := shortWord.FindStringSubmatch(w)
		name, value, assigned := strings.Cut(w, "=")
		switch {
		case strings.HasPrefix(w, "~"):
			args.Remove(w[1:])
		case strings.HasPrefix(w, "--"):
			args.Set(w)
			current = w
		case w[0] == '@':
			world, _ = strconv.Atoi(w[1:])
		case short != nil && shortWords[short[1]] != "":
			args.Set(shortWords[short[1]], short[2])
		case name == "te" && assigned:
			o.TransformerEngine = value
		case name == "torch" && assigned:
			o.PyTorch = value
		case name == "sm" && assigned:
			o.ComputeCapability, _ = strconv.Atoi(value)
		case name == "rel" && assigned:
			release = mustRelease(value)
		case assigned && strings.ToUpper(name) == name && len(name) > 2:
			if delete(env, name); value != "" {
				env[name] = value
			}
		default:
			values, _ := args.Get(current)
			args.Set(current, append(slices.Clone(values), w)...)
		}
	}
	return args.Argv(), world, env, release, o, nil
}
