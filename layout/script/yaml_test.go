package script

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestReadYAML(t *testing.T) {
	for _, tt := range []struct{ why, text, want, env, unmapped string }{
		{
			"MODEL_ARGS as Megatron-MoE-ModelZoo has them", `# a comment
ENV_VARS:
  CUDA_DEVICE_MAX_CONNECTIONS: 1
  NVTE_FUSED_ATTN: "1"
TEST_TYPE: regular
MODEL_ARGS:
  # Distributed
  --use-mcore-models: true
  --sequence-parallel: True
  --tensor-model-parallel-size: ${TP}
  --micro-batch-size: 1
  --lr: 1e-5
  --norm-epsilon: 1.0e-06
  --no-save-optim: false
  --swiglu: "true"
  --moe-layer-freq: ([0]*3+[1]*58)
  --recompute-modules: [mla_up_proj, moe, "layernorm"]
  --data-path: ${DATA_PATH:-/data}
  --moe-aux-loss-coeff: 1e-4
  --rampup: 010
`,
			"--use-mcore-models --sequence-parallel --tensor-model-parallel-size 8 --micro-batch-size 1 --lr 1e-5 --norm-epsilon 1.0e-06 --swiglu --moe-layer-freq ([0]*3+[1]*58) --recompute-modules mla_up_proj moe layernorm --data-path /data --moe-aux-loss-coeff 1e-4 --rampup 010",
			"map[CUDA_DEVICE_MAX_CONNECTIONS:1 NVTE_FUSED_ATTN:1]", "TEST_TYPE",
		},
		{
			"a flat file, with underscores", `
num_layers: 94
hidden_size: 4096
num_query_groups: 4
sequence_parallel: true
use_distributed_optimizer: true
overlap_grad_reduce: false
disable_bias_linear: true
moe_layer_freq: "([0]*3+[1]*91)"
recompute_modules:
  - moe_act
  - layernorm
custom_argument: 7
custom_switch: true
other_switch: false
expert_tensor_parallel_size: null
`,
			"--num-layers 94 --hidden-size 4096 --group-query-attention --num-query-groups 4 --sequence-parallel --use-distributed-optimizer --disable-bias-linear --moe-layer-freq ([0]*3+[1]*91) --recompute-modules moe_act layernorm --custom-argument 7 --custom-switch",
			"map[]", "",
		},
		{
			"a flat file of the configuration's own names", `
num_moe_experts: 128
add_bias_linear: false
share_embeddings_and_output_weights: false
gated_linear_unit: true
layernorm_epsilon: 1e-6
num_layers_in_first_pipeline_stage: 11
fp8: hybrid
extra:
  a: 1
`,
			"--num-experts 128 --disable-bias-linear --untie-embeddings-and-output-weights --swiglu --norm-epsilon 1e-6 --decoder-first-pipeline-num-layers 11 --fp8-format hybrid",
			"map[]", "extra",
		},
		{"a second document that is empty", "---\nnum_layers: 2\n---\n", "--num-layers 2", "map[]", ""},
		{"nothing in MODEL_ARGS", "MODEL_ARGS:\nENV_VARS:\n", "", "map[]", ""},
	} {
		t.Run(tt.why, func(t *testing.T) {
			s, err := ReadYAML("conf.yaml", strings.NewReader(tt.text), Options{Set: map[string]string{"TP": "8"}})
			if err != nil {
				t.Fatal(err)
			}
			c := s.Commands[0]
			if got := strings.Join(c.Megatron, " "); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if got := fmt.Sprint(c.Env); got != tt.env {
				t.Errorf("environment %s", got)
			}
			var unmapped []string
			for _, u := range c.Unmapped {
				unmapped = append(unmapped, u.Key)
			}
			if got := strings.Join(unmapped, " "); got != tt.unmapped {
				t.Errorf("unmapped %s", got)
			}
		})
	}
}

func TestYAMLWarnings(t *testing.T) {
	s, err := ReadYAML("conf.yaml", strings.NewReader("MODEL_ARGS:\n  --tensor-model-parallel-size: ${TP}\n"), Options{})
	if err != nil || len(s.Warnings) != 1 || s.Warnings[0].Set != "TP=VALUE" || s.Warnings[0].Line != 2 || s.Warnings[0].Affects[0] != "--tensor-model-parallel-size" {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestYAMLRefusals: what is not plain arguments is an error with its place.
func TestYAMLRefusals(t *testing.T) {
	for _, tt := range []struct{ why, text, want string }{
		{"a key twice", "num_layers: 2\nbf16: true\nnum_layers: 4\n", "conf.yaml:3:1:"},
		{"a key twice in MODEL_ARGS", "MODEL_ARGS:\n  --bf16: true\n  --bf16: true\n", "conf.yaml:3:3:"},
		{"a list as MODEL_ARGS", "MODEL_ARGS:\n  - --bf16\n", "a mapping is expected"},
		{"a list in a list", "num_layers: [[1]]\n", "a list inside a list"},
		{"a mapping as a value", "MODEL_ARGS:\n  --num-layers: {a: 1}\n", "a mapping is not read"},
		{"an anchor", "num_layers: &a 2\nhidden_size: *a\n", "anchor"},
		{"a merge", "base: &b {a: 1}\nnum_layers: 2\nMODEL_ARGS:\n  <<: *b\n", ""},
		{"a tag", "num_layers: !!python/object:os.system x\n", "a tag"},
		{"two documents", "num_layers: 2\n---\nnum_layers: 3\n", "2 documents"},
		{"broken", "num_layers: [1, 2\n", "conf.yaml"},
		{"deep", "num_layers: " + strings.Repeat("[", 1000) + strings.Repeat("]", 1000), "nested too deeply"},
		{"deep by indentation", deepYAML(300), "nested too deeply"},
		{"long", "num_layers: 2\n" + strings.Repeat("# x\n", 1<<17), "more than"},
		{"many keys", "num_layers: 2\n" + manyKeys(6000), "more than 5000 keys"},
		{"aliases of aliases", "num_layers: 2\na: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: &d [*c,*c]\n", "anchor"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			start := time.Now()
			s, err := ReadYAML("conf.yaml", strings.NewReader(tt.text), Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v, %v; want %q", s, err, tt.want)
			}
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	_, err := ReadYAML("x.yaml", strings.NewReader("trainer:\n  a: 1\nmodel:\n  b: 1\n"), Options{})
	var e *UnsupportedError
	if !errors.As(err, &e) || e.Dialect != NeMo {
		t.Errorf("%v", err)
	}
}

func deepYAML(n int) string {
	var b strings.Builder
	b.WriteString("num_layers: 2\na:\n")
	for i := range n {
		b.WriteString(strings.Repeat(" ", i+1) + "a:\n")
	}
	return b.String()
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	return b.String()
}
