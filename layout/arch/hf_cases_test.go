package arch

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// hfCase is a record of testdata/hf_cases.json.
type hfCase struct {
	ID     string
	Inputs struct {
		Model  struct{ Name string }
		Config hfObject `json:"hf_config"`
	}
	Observed struct {
		Total float64 `json:"total_params_b"`
	}
}

func hfCases(t *testing.T) map[string]hfCase {
	t.Helper()
	data, err := os.ReadFile("testdata/hf_cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []hfCase }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	m := map[string]hfCase{}
	for _, c := range file.Cases {
		m[c.ID] = c
	}
	return m
}

// TestHFCases: the public configurations that misled tools, with the answer a planner should give. refused is the key
// under which the case as written is refused; change then makes it a whole configuration.
func TestHFCases(t *testing.T) {
	cases := hfCases(t)
	nano := catalogueHF("nemotron-3-nano")
	covered := map[string]bool{}
	for _, tt := range []struct {
		id, why string
		refused string
		wrong   string // what is wrong with the case itself
		change  func(o hfObject) hfObject
		check   func(t *testing.T, m *Model, imp *Import)
	}{
		{id: "hf-001", why: "intermediate_size is the experts' width; all layers are MoE", check: func(t *testing.T, m *Model, _ *Import) {
			if m.MoE.FFNHiddenSize != 14336 || countMoE(m) != 32 {
				t.Errorf("%+v", m.MoE)
			}
		}},
		{id: "hf-003", why: "head_dim is not hidden/heads; intermediate_size is not used", check: func(t *testing.T, m *Model, _ *Import) {
			if m.KVChannels != 128 || countMoE(m) != 48 {
				t.Errorf("%d, %d", m.KVChannels, countMoE(m))
			}
		}},
		{id: "hf-005", why: "latent attention has its own head sizes; the MTP layer comes on top; the checkpoint's type is ignored", check: func(t *testing.T, m *Model, imp *Import) {
			if m.MLA == nil || m.MTPNumLayers != 1 || countMoE(m) != 58 {
				t.Errorf("%+v", m)
			}
			// The case says about 11.5 billion: a MoE layer, a projection of 2h x h, and norms. Megatron-LM shares the
			// embedding that the published checkpoint repeats.
			n, _ := m.LayerParameters(m.MTPLayers()[0])
			if mtp := float64(n) + 2*7168*7168; mtp < 11.4e9 || mtp > 11.7e9 {
				t.Errorf("MTP adds %.2f billion", mtp/1e9)
			}
			if !slices.ContainsFunc(imp.Ignored, func(n HFNote) bool { return n.Key == "quantization_config" }) {
				t.Error("quantization_config is not named")
			}
		}},
		{id: "hf-006", why: "q_lora_rank null: a direct projection; two shared experts are one MLP of 2816", check: func(t *testing.T, m *Model, _ *Import) {
			if m.MLA.QLoraRank != 0 || m.MoE.SharedFFNSize != 2816 {
				t.Errorf("%+v %+v", m.MLA, m.MoE)
			}
		}},
		{
			id: "hf-008", why: "intermediate_size is the experts' width; heads x head_dim is not hidden_size; biases; top-k spelled twice",
			refused: "layer_types", wrong: "it lists two of 36 layer_types",
			change: func(o hfObject) hfObject {
				return with(o, "layer_types", slices.Repeat([]string{"sliding_attention", "full_attention"}, 18))
			},
			check: func(t *testing.T, m *Model, _ *Import) {
				if !m.LinearBias || m.SoftmaxType != "learnable" || m.NumAttentionHeads*m.KVChannels == m.HiddenSize || m.SlidingWindow.Window != 128 {
					t.Errorf("%+v", m)
				}
			},
		},
		{id: "hf-009", why: "everything is in text_config; the tie is not given; the vision tower is left out by name", check: func(t *testing.T, m *Model, imp *Import) {
			want, _ := Lookup("qwen3-30b-a3b")
			total, _ := m.Parameters()
			wantTotal, _ := want.Parameters()
			if m.TiedEmbeddings || total != wantTotal {
				t.Errorf("%d parameters, want %d", total, wantTotal)
			}
			if !slices.ContainsFunc(imp.Ignored, func(n HFNote) bool { return n.Key == "vision_config" && strings.Contains(n.Reason, "not counted") }) {
				t.Errorf("%+v", imp.Ignored)
			}
		}},
		{
			id: "hf-011", why: "found in text_config, and then refused: Gemma 3 is not among the architectures", refused: "model_type",
			wrong: "its expected answer, \"same resolver\", holds for the lookup; layers and heads alone make no model",
		},
		{id: "hf-013", why: "MTP under another name inside text_config; a vocabulary of 248320", check: func(t *testing.T, m *Model, imp *Import) {
			if m.MTPNumLayers != 1 || m.VocabSize != 248320 || m.LinearAttention.Freq != 4 || !m.AttentionOutputGate {
				t.Errorf("%+v", m)
			}
			if !slices.ContainsFunc(imp.Assumed, func(n HFNote) bool { return n.Key == "linear_num_value_heads" }) {
				t.Errorf("the sizes of linear attention are not in the case and not assumed: %+v", imp.Assumed)
			}
			// Qwen3.5-35B-A3B, by scr-011.
			if total, active := m.Parameters(); math.Abs(float64(total)/35e9-1) > .05 || math.Abs(float64(active)/3e9-1) > .3 {
				t.Errorf("%d, %d", total, active)
			}
		}},
		{
			id: "hf-015", why: "the number of layers is that of the list", refused: "layers_block_type",
			wrong: "its list and its pattern are two different models, and it has no sizes",
			change: func(o hfObject) hfObject {
				return with(nano, "hybrid_override_pattern", "delete", "layers_block_type", o["layers_block_type"])
			},
			check: func(t *testing.T, m *Model, _ *Import) {
				if m.NumLayers != 3 || m.HybridLayerPattern != "ME*" {
					t.Errorf("%d %s", m.NumLayers, m.HybridLayerPattern)
				}
			},
		},
		{id: "hf-017", why: "every second layer is MoE, with a shared expert that no key names; dense layers have their own width", check: func(t *testing.T, m *Model, _ *Import) {
			if countMoE(m) != 24 || m.MoE.SharedFFNSize != 8192 || m.FFNHiddenSize != 16384 {
				t.Errorf("%+v", m)
			}
			scout := with(hfCases(t)["hf-017"].Inputs.Config)
			text := with(hfObject(scout["text_config"].(map[string]any)), "interleave_moe_layer_step", 1, "num_local_experts", 16)
			s, _, err := FromHF(strings.NewReader(with(scout, "text_config", text).String()), "scout")
			if err != nil || countMoE(s) != 48 {
				t.Errorf("step 1: %v", err)
			}
		}},
		{id: "hf-018", why: "intermediate_size is the experts' width; half of each head rotates", check: func(t *testing.T, m *Model, _ *Import) {
			if countMoE(m) != 62 || m.NumAttentionHeads*m.KVChannels != 6144 {
				t.Errorf("%+v", m)
			}
			want, _ := Lookup("minimax-m2.5")
			if total, _ := m.Parameters(); total != *want.RecordedTotal {
				t.Errorf("%d", total)
			}
		}},
		{
			id: "hf-021", why: "one number of experts a layer cannot be represented: refused, so that EP arithmetic is never wrong", refused: "architectures",
			wrong:  "it is a note, not a configuration: nothing says what model it is",
			change: func(o hfObject) hfObject { return with(catalogueHF("qwen3-30b-a3b"), "num_experts", o["num_experts"]) },
		},
		{
			id: "hf-022", why: "four spellings of the number of experts, and a contradiction between two of them", refused: "architectures",
			wrong: "it lists spellings, not a configuration",
			change: func(o hfObject) hfObject {
				return with(catalogueHF("qwen3-30b-a3b"), "num_experts", "delete", "n_routed_experts", 128)
			},
			check: func(t *testing.T, m *Model, _ *Import) {
				for _, alias := range hfCases(t)["hf-022"].Inputs.Config["aliases"].([]any) {
					o := with(catalogueHF("qwen3-30b-a3b"), "num_experts", "delete", alias.(string), 128)
					if m, _, err := FromHF(strings.NewReader(o.String()), "x"); err != nil || m.MoE.NumExperts != 128 {
						t.Errorf("%v: %v", alias, err)
					}
					if alias == "num_experts" {
						continue
					}
					if _, _, err := FromHF(strings.NewReader(with(o, "num_experts", 64).String()), "x"); err == nil || !strings.Contains(err.Error(), "contradicts") {
						t.Errorf("%v beside num_experts: %v", alias, err)
					}
				}
			},
		},
	} {
		t.Run(tt.id, func(t *testing.T) {
			covered[tt.id] = true
			c, ok := cases[tt.id]
			if !ok {
				t.Fatal("no such case")
			}
			o := c.Inputs.Config
			if tt.refused != "" {
				_, _, err := FromHF(strings.NewReader(o.String()), tt.id)
				var e *HFError
				if !errors.As(err, &e) || e.Key != tt.refused || tt.wrong == "" {
					t.Errorf("%v, want a refusal of %s", err, tt.refused)
				}
				if tt.change == nil {
					return
				}
				o = tt.change(o)
			}
			m, imp, err := FromHF(strings.NewReader(o.String()), tt.id)
			if tt.check == nil {
				var e *HFError
				if !errors.As(err, &e) || e.Key != "num_experts" {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			tt.check(t, m, imp)
			if want := c.Observed.Total; want > 0 {
				total, _ := m.Parameters()
				if math.Abs(float64(total)/1e9-want) > 0.001 {
					t.Errorf("%.3f billion parameters, the case says %.3f", float64(total)/1e9, want)
				}
			}
		})
	}
	for id := range cases {
		if !covered[id] {
			t.Errorf("%s has no answer here", id)
		}
	}
}

func countMoE(m *Model) int {
	n := 0
	for _, l := range m.Layers() {
		if l.Feedforward == MoEMLP {
			n++
		}
	}
	return n
}
