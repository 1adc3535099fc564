package launch

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moeplan/moeplan/layout"
	"github.com/moeplan/moeplan/layout/arch"
)

type savedCase struct {
	Record, Group, Vocab, World int
	Variant, Dtype              string
	Argv                        []string
	Total                       int64
	ByModule                    map[string]int64 `json:"by_module"`
}

// place says in which module of the local spec a named tensor was recorded, and what the CPU of the recording keeps
// instead of the GPU's kernel.
type place struct {
	module string
	as     func(c *cpu, bytes int64) int64 // nil: the same bytes
}

// cpu is what the recording's kernels need to know.
type cpu struct {
	w, ts, heads, kvHeads, tokens int64
	layerNorm                     bool
}

// norm is what a norm on the CPU keeps of an input of so many bytes: LayerNorm its input and two statistics in the
// parameters' type; the decomposed RMSNorm an fp32 copy of the input, an fp32 deviation and the normalised output.
func (c *cpu) norm(bytes, rows int64) int64 {
	if c.layerNorm {
		return bytes + 2*c.w*rows
	}
	return 4*bytes/c.w + 4*rows + bytes
}

func nothing(*cpu, int64) int64 { return 0 } // counted with its norm

// places maps memmodel's names to the recorded modules. Dropout masks are one byte an element on the GPU, a scaled mask in
// the activation's type on the CPU.
var places = map[string]place{
	"layer input":                    {"input_layernorm", func(c *cpu, b int64) int64 { return c.norm(b, c.ts) }},
	"input norm statistics":          {"input_layernorm", nothing},
	"linear_qkv input (norm output)": {"self_attention.linear_qkv", nil},
	"query and key before their norm": {"self_attention.qk_layernorm", func(c *cpu, b int64) int64 {
		return c.norm(b, c.tokens*(c.heads+c.kvHeads))
	}},
	"query and key norm statistics":         {"self_attention.qk_layernorm", nothing},
	"query":                                 {"self_attention.core_attention", nil},
	"key and value":                         {"self_attention.core_attention", nil},
	"key":                                   {"self_attention.core_attention", nil},
	"value":                                 {"self_attention.core_attention", nil},
	"attention softmax":                     {"self_attention.core_attention.scale_mask_softmax", nil},
	"attention probabilities after dropout": {"self_attention.core_attention", nil},
	"attention dropout mask":                {"self_attention.core_attention.attention_dropout", func(c *cpu, b int64) int64 { return c.w * b }},
	"attention output":                      {"self_attention.linear_proj", nil},
	"attention dropout-add mask":            {"", func(c *cpu, b int64) int64 { return c.w * b }},
	"down projections' input (norm output)": {"self_attention.down_proj", nil},
	"query latent":                          {"self_attention.linear_q_up_proj", nil},
	"key-value latent with rotary key":      {"self_attention.linear_kv_up_proj", nil},
	"rotary key gathered over TP":           {"", nothing}, // the unfused rotary embedding keeps only its angles
	"post-attention residual":               {"pre_mlp_layernorm", func(c *cpu, b int64) int64 { return c.norm(b, c.ts) }},
	"MLP norm statistics":                   {"pre_mlp_layernorm", nothing},
	"pre-MLP norm statistics":               {"pre_mlp_layernorm", nothing},
	"fc1 input (norm output)":               {"mlp.linear_fc1", nil},
	"fc1 output":                            {"mlp", nil},
	"fc2 input (activation output)":         {"mlp.linear_fc2", nil},
	"MLP dropout-add mask":                  {"", func(c *cpu, b int64) int64 { return c.w * b }},
	"MoE dropout-add mask":                  {"", func(c *cpu, b int64) int64 { return c.w * b }},
	"pre-MLP norm output":                   {"mlp.router and shared fc1", nil},
	"expert fc1 input (dispatched tokens)":  {"mlp.experts.linear_fc1", nil},
	"expert fc1 output":                     {"mlp.experts", nil},
	"unfused expert activation":             {"mlp.experts", nil},
	"permuted probabilities":                {"mlp.experts", func(c *cpu, b int64) int64 { return b / 4 * c.w }},
	"expert fc2 input (activation output)":  {"mlp.experts.linear_fc2", nil},
	"shared expert fc1 output":              {"mlp.shared_experts", nil},
	"shared expert fc2 input":               {"mlp.shared_experts.linear_fc2", nil},
}

// notCompared are tensors whose recorded counterparts are index maps and tables of the router, which memmodel counts as a
// whole by a fitted constant.
var notCompared = []string{"router", "routing map of the gathered tokens", "permutation map", "chunk sort maps"}

var localExpert = regexp.MustCompile(`experts\.local_experts\.\d+`)

// recordedLayer sums the recorded bytes of one layer by the names above.
func recordedLayer(c *savedCase, layer int, moe bool) map[string]int64 {
	out := map[string]int64{}
	prefix := fmt.Sprintf("decoder.layers.%d", layer)
	for module, bytes := range c.ByModule {
		rest, ok := strings.CutPrefix(module, prefix)
		if !ok || rest != "" && rest[0] != '.' {
			continue
		}
		rest = localExpert.ReplaceAllString(strings.TrimPrefix(rest, "."), "experts")
		switch rest {
		case "self_attention": // cosines and sines of the rotary embedding, the same for all layers on a GPU
			continue
		case "self_attention.q_layernorm", "self_attention.k_layernorm":
			rest = "self_attention.qk_layernorm"
		case "self_attention.linear_q_down_proj", "self_attention.linear_kv_down_proj":
			rest = "self_attention.down_proj"
		case "mlp.shared_experts.linear_fc1":
			rest = "mlp.router and shared fc1"
		case "mlp.router":
			continue
		case "mlp":
			if moe {
				continue
			}
		}
		out[rest] += bytes
	}
	return out
}

// savedCases reads the recording, with the arguments that all its runs have.
func savedCases(t *testing.T) ([]string, []savedCase) {
	var file struct {
		Header struct {
			BaseArgs []string `json:"base_args"`
		}
		Cases []savedCase
	}
	load(t, "activations.json.gz", &file)
	return file.Header.BaseArgs, file.Cases
}

// argvOf leaves out --no-masked-softmax-fusion: the CPU's softmax stays in bf16, as the fused kernel does.
func argvOf(base []string, c *savedCase) []string {
	return slices.DeleteFunc(slices.Concat(base, c.Argv), func(w string) bool { return w == "--no-masked-softmax-fusion" })
}

func cpuOf(m *arch.Model, l *layout.Layout) cpu {
	k := cpu{w: 2, tokens: int64(l.SeqLength * l.MicroBatchSize), heads: int64(m.NumAttentionHeads / l.TP),
		kvHeads: int64(max(1, m.NumQueryGroups/l.TP)), layerNorm: m.Normalization == arch.LayerNorm}
	k.ts = k.tokens
	if l.SequenceParallel {
		k.ts /= int64(l.TP)
	}
	return k
}

// TestSavedTensors compares what autograd really kept of each layer of 34 small models under the local spec, in bf16 and
// without recompute, with the tensors that memmodel names, module by module and byte for byte.
func TestSavedTensors(t *testing.T) {
	base, all := savedCases(t)
	cases, modules := 0, 0
	for _, c := range all {
		if c.Variant != "none" || c.Dtype != "bfloat16" {
			continue
		}
		cases++
		s, e, _ := setUp(t, c.World, c.Vocab, argvOf(base, &c)...)
		m, l := s.Model, &s.Layout
		k := cpuOf(m, l)
		for i, layer := range m.Layers() {
			moe := layer.Feedforward == arch.MoEMLP
			want := recordedLayer(&c, i, moe)
			got := map[string]int64{}
			for _, x := range e.LayerTensors(l, layer) {
				if slices.Contains(notCompared, x.Name) {
					continue
				}
				p, ok := places[x.Name]
				if !ok {
					t.Fatalf("record %d: no module for %q", c.Record, x.Name)
				}
				bytes := x.Bytes
				if p.as != nil {
					bytes = p.as(&k, bytes)
				}
				got[p.module] += bytes
			}
			if moe && want["mlp.router and shared fc1"] == 0 {
				delete(got, "mlp.router and shared fc1") // recorded under the router, with its tables
			}
			if m.QKNorm == arch.PerHeadQKNorm && k.layerNorm && k.heads == k.kvHeads {
				// Q and K before their norms are views of linear_qkv's output, which V keeps as a whole: one storage, recorded
				// where it was seen first.
				const norms, core = "self_attention.qk_layernorm", "self_attention.core_attention"
				got[core] += got[norms] - 2*k.w*k.tokens*k.heads*int64(m.KVChannels)
				want[core] += want[norms]
				delete(got, norms)
				delete(want, norms)
			}
			for _, module := range slices.Sorted(maps.Keys(want)) {
				modules++
				if got[module] != want[module] {
					t.Errorf("record %d layer %d %s: %d bytes, recorded %d (%s)", c.Record, i, module, got[module], want[module], strings.Join(c.Argv, " "))
				}
			}
			for module := range got {
				if _, ok := want[module]; !ok && got[module] > 0 {
					t.Errorf("record %d layer %d %s: %d bytes, recorded nothing", c.Record, i, module, got[module])
				}
			}
		}
	}
	t.Logf("%d models, %d modules", cases, modules)
}
