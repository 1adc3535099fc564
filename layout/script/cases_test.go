package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/moeplan/moeplan/folding"
	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
	"github.com/moeplan/moeplan/layout/megatron"
	"github.com/moeplan/moeplan/layout/script"
)

// publicCase is a record of testdata/cases.json.
type publicCase struct {
	ID      string
	Kind    string
	Summary string
	Inputs  struct {
		Model   struct{ Name string }
		Cluster struct {
			GPUs    int
			PerNode int `json:"gpus_per_node"`
		}
		Layout map[string]any
		Batch  struct {
			Micro  int `json:"micro_batch"`
			Global int `json:"global_batch"`
			Seq    int `json:"seq_len"`
		}
		MaxTokens int `json:"max_tokens_per_gpu"`
	}
	Derived struct{ DP, EDP int } `json:"derived_check"`
}

func publicCases(t *testing.T) map[string]publicCase {
	t.Helper()
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []publicCase }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	m := map[string]publicCase{}
	for _, c := range file.Cases {
		m[c.ID] = c
	}
	return m
}

// answer reads a file as check would: launch, arguments, both meshes, legality.
type answer struct {
	script   *script.Script
	command  *script.Command
	resolved *megatron.Resolved
	layout   layout.Layout
	errors   []string // rules of severity error
}

func judge(t *testing.T, name, text string, opts script.Options, more ...string) answer {
	t.Helper()
	s, err := script.Read(context.Background(), name, strings.NewReader(text), opts)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{script: s, command: s.Training()}
	if a.command == nil {
		t.Fatalf("no training in %+v", s)
	}
	settings, err := megatron.Parse(append(ownFlags(a.command.Megatron), more...), megatron.Main)
	if err != nil {
		t.Fatal(err)
	}
	if a.resolved, err = megatron.Resolve(settings, a.command.World.N, a.command.Env); err != nil {
		t.Fatal(err)
	}
	model, err := megatron.Model(a.resolved)
	if err != nil {
		t.Fatal(err)
	}
	if a.layout, err = megatron.Layout(a.resolved); err != nil {
		t.Fatal(err)
	}
	for _, v := range layout.Check(model, &a.layout) {
		if v.Severity == layout.Error {
			a.errors = append(a.errors, string(v.Rule)+": "+v.Message)
		}
	}
	return a
}

// ownFlags leaves out the flags that a front end adds to Megatron-LM's (slime's --rollout-..., --actor-...).
func ownFlags(args []string) []string {
	var out []string
	keep := true
	for _, a := range args {
		if strings.HasPrefix(a, "--") {
			name, _, _ := strings.Cut(a, "=")
			_, err := megatron.LookupFlag(name, megatron.Main)
			keep = err == nil
		}
		if keep {
			out = append(out, a)
		}
	}
	return out
}

// slime is a launch in the manner of slime's examples: a model file that is sourced, arrays of flags, ray job submit.
const slime = `#!/bin/bash
# for rerun the task
pkill -9 sglang
sleep 3
ray stop --force
set -ex
export PYTHONBUFFERED=16
NVLINK_COUNT=$(nvidia-smi | grep -o "NVLink" | wc -l)
if [ "$NVLINK_COUNT" -gt 0 ]; then HAS_NVLINK=1; else HAS_NVLINK=0; fi
SCRIPT_DIR="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" &>/dev/null && pwd)"
source "${SCRIPT_DIR}/models/model.sh"
CKPT_ARGS=(
   --hf-checkpoint $BASE_DIR/model
   --load $BASE_DIR/model_slime/
   --save-interval 20
)
ROLLOUT_ARGS=(--num-rollout 3000 --rollout-batch-size 128 --n-samples-per-prompt 8 --balance-data)
PERF_ARGS=(
   %s
   # --micro-batch-size 1
   --use-dynamic-batch-size
   --max-tokens-per-gpu %d
)
OPTIMIZER_ARGS=(
   --optimizer adam
   --optimizer-cpu-offload
   --overlap-cpu-optimizer-d2h-h2d
   --use-precision-aware-optimizer
)
RUNTIME_ENV_JSON="{\"env_vars\": {\"CUDA_DEVICE_MAX_CONNECTIONS\": \"1\", \"NCCL_NVLS_ENABLE\": \"${HAS_NVLINK}\"}}"
ray start --head --node-ip-address ${MASTER_ADDR} --num-gpus 8 &
ray job submit --address="http://127.0.0.1:8265" \
   --runtime-env-json="${RUNTIME_ENV_JSON}" \
   -- python3 train.py \
   --actor-num-nodes %d \
   --actor-num-gpus-per-node %d \
   --colocate \
   ${MODEL_ARGS[@]} \
   ${CKPT_ARGS[@]} \
   ${ROLLOUT_ARGS[@]} \
   ${OPTIMIZER_ARGS[@]} \
   ${PERF_ARGS[@]}
`

// layoutFlags writes a case's layout as a script would.
func layoutFlags(c publicCase) string {
	var words []string
	for _, f := range [][2]string{
		{"tp", "--tensor-model-parallel-size"}, {"pp", "--pipeline-model-parallel-size"}, {"cp", "--context-parallel-size"},
		{"ep", "--expert-model-parallel-size"}, {"etp", "--expert-tensor-parallel-size"}, {"vpp", "--num-virtual-stages-per-pipeline-rank"},
		{"last", "--decoder-last-pipeline-num-layers"}, {"first", "--decoder-first-pipeline-num-layers"},
		{"pp_layout", "--pipeline-model-parallel-layout"},
	} {
		if v, ok := c.Inputs.Layout[f[0]]; ok && (f[0] != "vpp" || c.Inputs.Layout["pp_layout"] == nil && v != 1.0) {
			words = append(words, fmt.Sprintf("%s %q", f[1], fmt.Sprint(v)))
		}
	}
	if c.Inputs.Layout["tp"] != 1.0 {
		words = append(words, "--sequence-parallel")
	}
	return strings.Join(append(words, "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"), "\n   ")
}

func modelFile(flags []string) string {
	quoted := make([]string, len(flags))
	for i, f := range flags {
		quoted[i] = megatron.Quote(f)
	}
	return "MODEL_ARGS=(\n  " + strings.Join(quoted, "\n  ") + "\n)\n"
}

// qwen35 is Qwen3.5-35B-A3B, which the catalogue does not have, with the sizes of scr-011 and hf-013.
var qwen35 = strings.Fields(`--num-layers 40 --hidden-size 2048 --ffn-hidden-size 512 --num-attention-heads 16 --kv-channels 256
	--group-query-attention --num-query-groups 2 --normalization RMSNorm --swiglu --disable-bias-linear --qk-layernorm
	--untie-embeddings-and-output-weights --position-embedding-type rope --vocab-size 248320 --num-experts 256
	--moe-ffn-hidden-size 512 --moe-router-topk 8 --moe-shared-expert-intermediate-size 512 --moe-grouped-gemm
	--attention-dropout 0.0 --hidden-dropout 0.0 --max-position-embeddings 32768`)

// TestSlimeCases: scr-004, 006, 007, 008, 010, 011. Read through arrays, a sourced file and ray, the launch has the
// world and the meshes that the case says, and is legal.
func TestSlimeCases(t *testing.T) {
	cases := publicCases(t)
	for _, tt := range []struct{ id, model, note string }{
		{"scr-004", "kimi-k2", ""},
		{"scr-006", "moonlight-16b-a3b", ""},
		{"scr-007", "qwen3-235b-a22b", ""},
		{"scr-008", "qwen3-235b-a22b", "the case adds a memory verdict, which is not the reader's"},
		{"scr-010", "qwen3-next-80b-a3b", ""},
		{"scr-011", "", ""},
	} {
		t.Run(tt.id, func(t *testing.T) {
			c := cases[tt.id]
			flags := qwen35
			if tt.model != "" {
				m, err := arch.Lookup(tt.model)
				if err != nil {
					t.Fatal(err)
				}
				flags = m.MegatronFlags
			}
			in := c.Inputs
			text := fmt.Sprintf(slime, layoutFlags(c), in.MaxTokens, in.Cluster.GPUs/in.Cluster.PerNode, in.Cluster.PerNode)
			sources := fstest.MapFS{"scripts/models/model.sh": {Data: []byte(modelFile(flags))}}
			// Dynamic batches have no micro-batch size; the checks need one.
			a := judge(t, "scripts/run.sh", text, script.Options{Sources: sources, Set: map[string]string{"BASE_DIR": "/m"}},
				"--micro-batch-size", "1", "--global-batch-size", "1024", "--seq-length", "8192", "--bf16", "--use-distributed-optimizer",
				"--moe-token-dispatcher-type", "alltoall", "--max-position-embeddings", "163840")
			if a.command.World.N != in.Cluster.GPUs || a.command.Model != "/m/model" || a.command.Program != "train.py" {
				t.Errorf("%+v", a.command)
			}
			if a.resolved.DP != c.Derived.DP || a.resolved.EDP != c.Derived.EDP {
				t.Errorf("DP %d EDP %d, want %d and %d", a.resolved.DP, a.resolved.EDP, c.Derived.DP, c.Derived.EDP)
			}
			if len(a.errors) > 0 {
				t.Errorf("illegal: %v", a.errors)
			}
			if len(a.script.Warnings) > 0 {
				t.Errorf("warnings %+v", a.script.Warnings)
			}
		})
	}
}

// benchmark is a launch in the manner of Megatron-MoE-ModelZoo: sizes come as variables in front of one line, a script
// puts the command together as a string, arguments are handed through.
const benchmark = `#!/bin/bash
set -euxo pipefail
TP=${TP:-1}; PP=${PP:-8}; EP=${EP:-64}; CP=${CP:-1}; VPP=${VPP:-1}; MBS=${MBS:-1}; GBS=${GBS:-8192}; SEQ_LEN=${SEQ_LEN:-4096}
PRETRAIN=${PRETRAIN:-0}
TRAINING_PARAMS="--tensor-model-parallel-size ${TP} --pipeline-model-parallel-size ${PP} --expert-model-parallel-size ${EP}"
TRAINING_PARAMS="$TRAINING_PARAMS --context-parallel-size ${CP} --micro-batch-size ${MBS} --global-batch-size ${GBS}"
TRAINING_PARAMS="$TRAINING_PARAMS --seq-length ${SEQ_LEN} --expert-tensor-parallel-size 1 --use-distributed-optimizer --bf16"
if [[ ${TP} -gt 1 ]]; then TRAINING_PARAMS="$TRAINING_PARAMS --sequence-parallel"; fi
while read -r line; do TRAINING_PARAMS="$TRAINING_PARAMS $line"; done < model_configs/${MODEL}.txt
TRAINING_PARAMS="$TRAINING_PARAMS $@"
TRAINING_CMD="python pretrain_gpt.py $TRAINING_PARAMS"
TIMESTAMP=$(date '+%y%m%d_%H%M%S')
cat > job.sbatch <<EOF
never read
EOF
srun -N ${NNODES} --ntasks-per-node 8 --container-image ${IMAGE:-none} bash -c "
  nvidia-smi
  cd /workspace/Megatron-LM
  ${TRAINING_CMD}" |& tee logs/${TIMESTAMP}.log
`

// TestModelZooCases: scr-013 and scr-014.
func TestModelZooCases(t *testing.T) {
	cases := publicCases(t)
	m, err := arch.Lookup("deepseek-v3")
	if err != nil {
		t.Fatal(err)
	}
	var model strings.Builder
	for i, f := range m.MegatronFlags {
		if i > 0 && strings.HasPrefix(f, "--") {
			model.WriteByte('\n')
		}
		if strings.ContainsAny(f, "([*") {
			f = "'" + f + "'" // the line goes through bash -c
		}
		model.WriteString(f + " ")
	}
	model.WriteByte('\n')
	sources := fstest.MapFS{
		"sbatch_benchmarking.sh":        {Data: []byte(benchmark)},
		"model_configs/DeepSeek-V3.txt": {Data: []byte(model.String())},
	}
	for _, tt := range []struct{ id, line, note string }{
		{
			"scr-013", `MODEL=DeepSeek-V3 PP=8 VPP=4 TP=1 EP=32 NNODES=32 GBS=8192 bash ./sbatch_benchmarking.sh --recompute-granularity selective --recompute-modules mla_up_proj moe mlp layernorm --optimizer-cpu-offload --optimizer-offload-fraction 1.0 --use-precision-aware-optimizer --moe-token-dispatcher-type alltoall --pipeline-model-parallel-layout "'Et*2|(tt|)*22t|(tt|)*7mL'" --max-position-embeddings 4096`,
			"61 t in 32 stages",
		},
		{
			"scr-014", `MODEL=DeepSeek-V3 PP=8 TP=32 EP=32 NNODES=32 GBS=480 SEQ_LEN=131072 bash ./sbatch_benchmarking.sh --moe-token-dispatcher-type alltoall --pipeline-model-parallel-layout "'Et*2|(tt|)*22t|(tt|)*7mL'" --max-position-embeddings 131072`,
			"TP over four nodes is slow on purpose, not illegal",
		},
	} {
		t.Run(tt.id, func(t *testing.T) {
			c := cases[tt.id]
			a := judge(t, "run_deepseek_v3_h100.sh", tt.line, script.Options{Sources: sources})
			if a.command.World.N != 256 || a.resolved.DP != c.Derived.DP || a.resolved.EDP != c.Derived.EDP {
				t.Errorf("world %+v, DP %d EDP %d, want %d and %d", a.command.World, a.resolved.DP, a.resolved.EDP, c.Derived.DP, c.Derived.EDP)
			}
			if len(a.errors) > 0 {
				t.Errorf("illegal: %v (%s)", a.errors, tt.note)
			}
			for _, w := range a.script.Warnings {
				if w.Kind != script.ScriptDefault {
					t.Errorf("%+v", w)
				}
			}
			if a.layout.VPP != 4 || a.layout.Split.NumLayers() != 61 {
				t.Errorf("%v", &a.layout)
			}
		})
	}
}

// TestFakeCases: the fake-pg cases that are launch scripts. The others are about the command that is written, which is
// layout/megatron's: fpg-004 (no FSDP check on old cores), fpg-005 (flex becomes alltoall), fpg-008 (snapshot flags);
// fpg-009 is a rival's output format.
func TestFakeCases(t *testing.T) {
	cases := publicCases(t)
	m, err := arch.Lookup("deepseek-v3")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("fpg-002 and fpg-003", func(t *testing.T) {
		c := cases["fpg-003"]
		text := modelFile(m.MegatronFlags) + `export WORLD_SIZE=1024 RANK=0 LOCAL_RANK=0
export CUDA_DEVICE_MAX_CONNECTIONS=1
python pretrain_gpt.py --fake-process-group --mock-data --tokenizer-type NullTokenizer --train-iters 3 "${MODEL_ARGS[@]}" \
  ` + strings.ReplaceAll(layoutFlags(c), "\n", " ") + ` --micro-batch-size 1 --global-batch-size 8192 --seq-length 4096 \
  --max-position-embeddings 4096 --bf16 --moe-token-dispatcher-type alltoall --mtp-num-layers 0 --use-distributed-optimizer`
		text = strings.Replace(text, "--mtp-num-layers 0 ", "", 1)
		// The case's string has no m, so its model runs without the MTP layer.
		text = strings.Replace(text, "--mtp-num-layers\n  1\n", "", 1)
		a := judge(t, "fake.sh", text, script.Options{})
		if a.command.World.N != 1024 || a.command.World.From != "$WORLD_SIZE" || a.resolved.DP != 32 || a.resolved.EDP != 1 {
			t.Errorf("%+v DP %d EDP %d", a.command.World, a.resolved.DP, a.resolved.EDP)
		}
		if a.layout.VPP != 2 || a.layout.Split.NumLayers() != 61 || len(a.errors) > 0 {
			t.Errorf("%v: %v", &a.layout, a.errors)
		}
	})
	t.Run("fpg-006", func(t *testing.T) {
		c := cases["fpg-006"]
		var words []string
		for _, w := range strings.Fields(layoutFlags(c)) {
			if name, ok := strings.CutPrefix(w, "--"); ok {
				w = "--" + strings.ReplaceAll(name, "-", "_")
			}
			words = append(words, w)
		}
		text := "NNODES=30 NPROC_PER_NODE=8 megatron sft --model Qwen/hidden --global_batch_size 64 " + strings.Join(words, " ")
		text = strings.Replace(text, "--sequence_parallel", "--sequence_parallel true", 1)
		a := judge(t, "swift.sh", text, script.Options{}, "--num-layers", "60", "--hidden-size", "4096", "--num-attention-heads", "64",
			"--num-experts", "128", "--seq-length", "8192", "--max-position-embeddings", "8192", "--vocab-size", "151936",
			"--disable-bias-linear", "--position-embedding-type", "rope")
		if a.command.Dialect != script.Swift || a.command.World.N != 240 || a.resolved.DP != 1 || a.resolved.EDP != 1 || len(a.errors) > 0 {
			t.Errorf("%+v, DP %d EDP %d, %v", a.command, a.resolved.DP, a.resolved.EDP, a.errors)
		}
	})
	t.Run("fpg-011", func(t *testing.T) {
		// Megatron-Bridge has no such option; its launch reads as arguments that layout/megatron can write for a fake run.
		s, err := script.ReadArgs("argv", strings.Fields("model.tensor_model_parallel_size=2 model.fake_process_group=true"))
		if err != nil || s.Commands[0].Dialect != script.Bridge || s.Commands[0].Unmapped[0].Key != "model.fake_process_group" {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// TestOtherScriptCases: those that are no script.
func TestOtherScriptCases(t *testing.T) {
	refused := func(id, name, text string, want script.Dialect) {
		_, err := script.Read(context.Background(), name, strings.NewReader(text), script.Options{})
		var e *script.UnsupportedError
		if !errors.As(err, &e) || e.Dialect != want {
			t.Errorf("%s: %v", id, err)
		}
	}
	// The case calls an importer optional. The table's layer counts include embedding and loss (96 for 94), and its rows
	// are defaults that its own scripts override: it is named, not read.
	refused("scr-012", "runtime.conf", "Qwen3-235B-A22B 2 8 32 1 4 1 256 96 alltoall true 32 00:20:00 0 4096 Slimpajama\n", script.RuntimeConf)
	// Run names are hints at best: the case's own thread (ill-006) is about a name that contradicts the arguments. Neither
	// form is read as a layout; both are refused as "nothing in it is known".
	refused("scr-021", "name", "bf16_2nodes_tp1_pp2_cp1_vp24_ep2_etp1_1mbs_512gbs\n", script.Unknown)
	refused("scr-024", "name", "PP2DP2EP1TP8\n", script.Unknown)
	for _, id := range []string{"bf16_2nodes_tp1_pp2_cp1_vp24_ep2_etp1_1mbs_512gbs", "PP2DP2EP1TP8"} {
		if s, err := script.ReadArgs(id, []string{id}); err != nil || s.Training() != nil || s.Commands[0].Dialect != script.Unknown {
			t.Errorf("%s: %+v, %v", id, s, err)
		}
	}
	// scr-022: dotted keys, and a PP that is overridden takes the recipe's layout string with it.
	s, err := script.ReadArgs("argv", strings.Fields("torchrun --nproc_per_node 8 scripts/performance/run_script.py -vp 1 model.pipeline_model_parallel_size=4"))
	if err != nil || strings.Join(s.Commands[0].Megatron, " ") != "--pipeline-model-parallel-size 4" ||
		!slices.ContainsFunc(s.Commands[0].Unmapped, func(u script.Unmapped) bool { return u.Key == "model.pipeline_model_parallel_layout" }) {
		t.Errorf("scr-022: %+v, %v", s, err)
	}
	// scr-023 is a list of constraints: package layout's. scr-025 is about a checkpoint converter's host memory: out of scope.
}

// TestEveryCaseIsCovered: a case that is added needs an answer.
func TestEveryCaseIsCovered(t *testing.T) {
	covered := strings.Fields(`scr-004 scr-006 scr-007 scr-008 scr-010 scr-011 scr-012 scr-013 scr-014 scr-021 scr-022 scr-023 scr-024 scr-025
		fpg-002 fpg-003 fpg-004 fpg-005 fpg-006 fpg-008 fpg-009 fpg-011`)
	for id := range publicCases(t) {
		if !slices.Contains(covered, id) {
			t.Errorf("%s has no answer here", id)
		}
	}
}

// TestFieldsAreFlags: what a translation writes is a flag of Megatron-LM.
func TestFieldsAreFlags(t *testing.T) {
	for _, flag := range script.FieldFlags() {
		if _, err := megatron.LookupFlag(flag, megatron.Main); err != nil {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// TestReadsWhatWeWrite: the check scripts that layout/megatron writes are read back as the runs they were made from.
func TestReadsWhatWeWrite(t *testing.T) {
	for _, m := range arch.All() {
		l := &layout.Layout{
			Degrees:        folding.Degrees{World: 64, TP: 2, CP: 1, PP: 2, EP: 1, ETP: 1},
			MicroBatchSize: 1, GlobalBatchSize: 256, SeqLength: 4096, SequenceParallel: true, Dispatcher: layout.AllToAll,
		}
		l.VPP = 1
		l.Split = layout.BalancedSplit(m, 2, 1)
		c, err := megatron.CheckCommand(l, m, megatron.CheckOptions{})
		if err != nil {
			t.Errorf("%s: %v", m.ID, err)
			continue
		}
		s, err := script.Read(context.Background(), "check.sh", strings.NewReader(c.Script()), script.Options{})
		if err != nil || len(s.Commands) != len(c.Runs) || len(s.Warnings) > 0 {
			t.Errorf("%s: %+v, %v", m.ID, s, err)
			continue
		}
		for i, run := range c.Runs {
			got := s.Commands[i]
			if want := run.Argv[2:]; !slices.Equal(got.Args, want) || got.Program != run.Argv[1] || got.World.N != 64 {
				t.Errorf("%s: run %d\ngot  %q %v\nwant %q", m.ID, i, got.Args, got.World, want)
			}
			for _, v := range run.Env {
				if got.Env[v.Name] != v.Value {
					t.Errorf("%s: run %d: %s=%q, want %q", m.ID, i, v.Name, got.Env[v.Name], v.Value)
				}
			}
		}
	}
}
