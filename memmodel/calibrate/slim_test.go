package calibrate

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout/megatron"
)

// source is a record as the collection holds it.
type source struct {
	ID, Kind, Source, Model, Family, Platform, Environment, Note, Outcome string

	GPUKind   string `json:"gpu_kind"`
	SecondRun bool   `json:"second_run"`
	Listed    bool   `json:"currently_listed"`
	NumGPUs   *int   `json:"num_gpus"`

	Dims, MoE, MLA map[string]any
	Args           map[string]any    `json:"all_memory_relevant_args"`
	EnvVars        map[string]any    `json:"env_vars"`
	FSDP           map[string]any    `json:"fsdp"`
	Measured       map[string]any    `json:"measured_bytes"`
	CPComm         string            `json:"cp_comm_type"`
	Recompute      *json.RawMessage  `json:"recompute"`
	Caveats        []string          `json:"caveats"`
	Raw            map[string]any    `json:"-"`
	_              map[string]string `json:"-"`
}

// collection is the file that the embedded data is made from; it is not part of the repository.
const collection = "/work/shared/data/measured-memory.json"

// TestSlimmed makes the embedded data from the collection where that is at hand, and compares; UPDATE=1 writes it. Each
// record keeps its id, its source, its configuration as a command line and its bytes.
func TestSlimmed(t *testing.T) {
	path := collection
	if p := os.Getenv("MOEPLAN_MEASURED"); p != "" {
		path = p
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("the collection of measurements is not here: %v", err)
	}
	var file struct{ Records []json.RawMessage }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	var out []Record
	for _, raw := range file.Records {
		var s source
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatalf("%s: %v", raw[:80], err)
		}
		if err := json.Unmarshal(raw, &s.Raw); err != nil {
			t.Fatal(err)
		}
		out = append(out, slim(t, &s))
	}
	want, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE") == "1" {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		z.Write(want)
		z.Close()
		if err := os.WriteFile(filepath.Join("data", "measured-memory.json.gz"), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Logf("flags that the newest parser does not know, and how many records have them: %v", left)
	have, err := json.Marshal(Records())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("the embedded measurements are not what the collection makes; run UPDATE=1 go test -run TestSlimmed")
	}
}

func slim(t *testing.T, s *source) Record {
	r := Record{ID: s.ID, Kind: s.Kind, Source: s.Source, Model: s.Model, Family: s.Family, GPU: s.GPUKind, Platform: s.Platform,
		Environment: s.Environment, Listed: s.Listed, SecondRun: s.SecondRun, Caveats: s.Caveats, Note: s.Note}
	if s.NumGPUs != nil {
		r.World = *s.NumGPUs
	}
	r.Env = map[string]string{}
	if cublasConfigured[strings.TrimSuffix(s.Model, "_1node")] {
		r.Env["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
	}
	for k, v := range s.EnvVars {
		r.Env[k] = text(v)
	}
	if s.Outcome != "" && s.Outcome != "ran" {
		r.Note = strings.TrimPrefix(r.Note+"; "+s.Outcome, "; ")
	}
	m := s.Measured
	r.Measured = Measured{AfterStep: whole(m["allocated_current_last"]), Peak: whole(m["max_allocated_before_first_save"]),
		PeakLast: whole(m["max_allocated_last"]), Reserved: whole(m["max_reserved"]), Device: whole(m["device_used"])}
	if r.Measured.Peak == 0 {
		r.Measured.Peak = r.Measured.PeakLast
	}
	for _, name := range []string{"total_estimate", "saved_by_recompute", "saved_by_memory_efficient_permutation", "saved_by_fp8_activations", "saved_by_optimizer_state_offload"} {
		if n := whole(m[name]); n > 0 {
			r.Measured.Other, r.Measured.OtherName = n, name
		}
	}
	switch s.Kind {
	case "megatron-functional-test":
		r.Argv = functionalArgv(t, s)
	case "simumax-b200-real-run":
		r.Argv = simumaxArgv(s)
	default:
		config := map[string]any{}
		for k, v := range s.Raw {
			if v != nil && !slices.Contains([]string{"id", "kind", "source", "model", "family", "gpu_kind", "num_gpus", "measured_bytes", "caveats", "note", "group", "timing", "config_source", "environment"}, k) {
				config[k] = v
			}
		}
		r.Config, _ = json.Marshal(config)
	}
	return r
}

// cublasConfigured are tests outside deterministic mode whose environment sets CUBLAS_WORKSPACE_CONFIG to :4096:8, which
// the collection leaves out (NVIDIA/Megatron-LM@d98e8a64dd tests/functional_tests/test_cases, ENV_VARS of each
// model_config.yaml).
var cublasConfigured = map[string]bool{
	"hybrid/hybrid_mr_mcore_te_tp2_pp1_cp1_dgx_a100_1N8G":                      true,
	"hybrid/hybrid_mr_mcore_te_tp1_pp4_cp1_dgx_a100_1N8G":                      true,
	"moe/gpt3_mcore_cp2_pp2_ep2_te_4experts2parallel_nondeterministic":         true,
	"moe/gpt3_mcore_cp2_pp2_ep2_te_4experts2parallel_nondeterministic_dp_last": true,
	"moe/gpt3_moe_mcore_te_tp2_pp2_ep4_etp1_fine_grained_offloading":           true,
	"hybrid/hybrid_flextron_nightly_tp2_pp1_ep2_dgx_h100_1N8G":                 true,
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}

func whole(v any) int64 {
	f, _ := v.(float64)
	return int64(f)
}

// functionalArgv is the recorded arguments as words, with the padded vocabulary, which they lack. Flags that the
// newest parser no longer knows are left out; none of them decides memory, or the test below names it.
func functionalArgv(t *testing.T, s *source) []string {
	args := map[string]any{}
	for k, v := range s.Args {
		args[k] = v
	}
	for k, v := range s.FSDP { // the sharding strategy stands here alone
		if v != nil {
			args[k] = v
		}
	}
	delete(args, "vocab-size")
	delete(args, "tokenizer-model")
	if len(s.FSDP) > 0 && args["use-megatron-fsdp"] != true {
		delete(args, "data-parallel-sharding-strategy") // ordinary data parallelism: memory-findings.md C14
	}
	var names []string
	for name := range args {
		names = append(names, name)
	}
	sort.Strings(names)
	var argv []string
	for _, name := range names {
		words := []string{"--" + name}
		switch v := args[name]; {
		case v == true:
		case v == false || v == nil:
			continue
		default:
			x := text(v)
			if strings.HasPrefix(x, "[") && !strings.HasPrefix(x, "([") {
				words = append(words, strings.Fields(strings.Trim(x, "[]"))...)
			} else {
				words = append(words, strings.Fields(x)...)
			}
		}
		if _, err := megatron.LookupFlag(words[0], megatron.Main); err != nil {
			left[words[0]]++
			continue
		}
		argv = append(argv, words...)
	}
	return append(argv, "--padded-vocab-size", text(s.Dims["padded_vocab_size"]))
}

// left counts the flags that the newest parser does not know.
var left = map[string]int{}

// simumaxArgv writes a slice of Llama or DeepSeek as the launch scripts of SimuMax's B200 set do.
func simumaxArgv(s *source) []string {
	d := s.Dims
	argv := []string{"--bf16", "--use-distributed-optimizer", "--no-create-attention-mask-in-dataloader",
		"--attention-dropout", "0", "--hidden-dropout", "0", "--swiglu", "--normalization", "RMSNorm", "--position-embedding-type", "rope",
		"--disable-bias-linear", "--untie-embeddings-and-output-weights", "--cross-entropy-loss-fusion", "--cross-entropy-fusion-impl", "te"}
	set := func(flag string, v any) {
		if v != nil {
			argv = append(argv, flag, text(v))
		}
	}
	set("--num-layers", d["num_layers"])
	set("--hidden-size", d["hidden_size"])
	set("--ffn-hidden-size", d["ffn_hidden_size"])
	set("--num-attention-heads", d["num_attention_heads"])
	set("--padded-vocab-size", d["padded_vocab_size"])
	set("--tensor-model-parallel-size", s.Raw["tp"])
	set("--pipeline-model-parallel-size", s.Raw["pp"])
	set("--context-parallel-size", s.Raw["cp"])
	set("--seq-length", s.Raw["seq_len"])
	set("--max-position-embeddings", s.Raw["seq_len"])
	set("--micro-batch-size", s.Raw["mbs"])
	set("--global-batch-size", s.Raw["gbs"])
	if whole(s.Raw["tp"]) > 1 {
		argv = append(argv, "--sequence-parallel")
	}
	if s.CPComm != "" {
		set("--cp-comm-type", s.CPComm)
	}
	if s.MLA == nil {
		argv = append(argv, "--group-query-attention")
		set("--num-query-groups", d["num_query_groups"])
		set("--kv-channels", d["kv_channels"])
	} else {
		argv = append(argv, "--multi-latent-attention", "--qk-layernorm")
		for _, k := range []string{"q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"} {
			set("--"+strings.ReplaceAll(k, "_", "-"), s.MLA[k])
		}
	}
	if m := s.MoE; m != nil {
		dense := int(whole(m["dense_layers"]))
		argv = append(argv, "--moe-grouped-gemm", "--moe-permute-fusion", "--moe-pad-expert-input-to-capacity")
		set("--num-experts", m["num_experts"])
		set("--moe-router-topk", m["topk"])
		set("--moe-ffn-hidden-size", m["moe_ffn_hidden_size"])
		set("--moe-shared-expert-intermediate-size", m["shared_expert_intermediate_size"])
		set("--moe-token-dispatcher-type", m["dispatcher"])
		set("--moe-expert-capacity-factor", m["capacity_factor"])
		set("--expert-model-parallel-size", s.Raw["ep"])
		set("--expert-tensor-parallel-size", s.Raw["etp"])
		set("--moe-layer-freq", fmt.Sprintf("([0]*%d+[1]*%d)", dense, int(whole(d["num_layers"]))-dense))
	}
	return argv
}
