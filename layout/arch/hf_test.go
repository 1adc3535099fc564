package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestFromHFCatalogue: every catalogue model, written with Hugging Face's names, is read back as the same shape.
func TestFromHFCatalogue(t *testing.T) {
	for _, m := range All() {
		t.Run(m.ID, func(t *testing.T) {
			got, imp, err := FromHF(strings.NewReader(hfOf(m).String()), m.HFID)
			if err != nil {
				t.Fatal(err)
			}
			want := *m
			// What a config.json does not hold.
			want.ID, want.MakeVocabSizeDivisibleBy = got.ID, got.MakeVocabSizeDivisibleBy
			want.MegatronFlags, want.Sources, want.Unverified, want.Notes = got.MegatronFlags, got.Sources, nil, nil
			want.RecordedTotal, want.RecordedActive = nil, nil
			if !reflect.DeepEqual(got.Layers(), m.Layers()) {
				t.Errorf("layers %v, want %v", got.Layers(), m.Layers())
			}
			if want.MoE != nil {
				e := *want.MoE
				e.LayerFreq = got.MoE.LayerFreq // compared above
				if e.AuxLossCoeff == 0 && e.LoadBalancing == "none" {
					e.AuxLossCoeff = got.MoE.AuxLossCoeff
				}
				want.MoE = &e
			}
			if !reflect.DeepEqual(got, &want) {
				t.Errorf("%s", fieldsThatDiffer(got, &want))
			}
			total, active := got.Parameters()
			wantTotal, wantActive := m.Parameters()
			if total != wantTotal || active != wantActive {
				t.Errorf("%d parameters, %d active, want %d and %d", total, active, wantTotal, wantActive)
			}
			for _, n := range imp.Ignored {
				if strings.HasPrefix(n.Reason, "not known") {
					t.Errorf("%s is not known", n.Key)
				}
			}
		})
	}
}

func fieldsThatDiffer(got, want *Model) string {
	var b strings.Builder
	g, w := reflect.ValueOf(*got), reflect.ValueOf(*want)
	for i := range g.NumField() {
		if a, b2 := g.Field(i).Interface(), w.Field(i).Interface(); !reflect.DeepEqual(a, b2) {
			ja, _ := json.Marshal(a)
			jb, _ := json.Marshal(b2)
			fmt.Fprintf(&b, "%s: %s, want %s\n", g.Type().Field(i).Name, ja, jb)
		}
	}
	return b.String()
}

// TestHFFlags: the flags of an import are the catalogue's, but for what a config.json leaves open.
func TestHFFlags(t *testing.T) {
	open := map[string]string{ // not in the configurations that hfOf writes, or not in any
		"--make-vocab-size-divisible-by": "the catalogue has ModelZoo's unit", "--norm-epsilon": "not written", "--rotary-base": "not written",
		"--rotary-percent": "only written with a base", "--rotary-scaling-factor": "not written", "--mscale": "not written", "--mscale-all-dim": "not written",
		"--use-rope-scaling": "not written for Llama 4", "--rope-scaling-factor": "not written for Llama 4", "--mtp-loss-scaling-factor": "with MTP",
		"--attention-output-gate": "order",
	}
	for _, m := range All() {
		got, _, err := FromHF(strings.NewReader(hfOf(m).String()), m.HFID)
		if err != nil {
			t.Error(err)
			continue
		}
		a, b := byFlagName(got.MegatronFlags), byFlagName(m.MegatronFlags)
		for _, set := range []map[string]string{a, b} {
			for flag := range set {
				if _, ok := open[flag]; !ok && a[flag] != b[flag] {
					t.Errorf("%s: %s %q, the catalogue has %q", m.ID, flag, a[flag], b[flag])
				}
			}
		}
	}
}

func byFlagName(args []string) map[string]string {
	m, flag := map[string]string{}, ""
	for _, a := range args {
		if strings.HasPrefix(a, "--") {
			flag = a
			m[flag] += "given"
		} else {
			m[flag] += " " + strings.TrimSuffix(a, ".0")
		}
	}
	return m
}

func with(o hfObject, pairs ...any) hfObject {
	out := hfObject{}
	for k, v := range o {
		out[k] = v
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "delete" {
			delete(out, pairs[i].(string))
		} else {
			out[pairs[i].(string)] = pairs[i+1]
		}
	}
	return out
}

func catalogueHF(id string) hfObject {
	m, err := Lookup(id)
	if err != nil {
		panic(err)
	}
	return hfOf(m)
}

// TestHFRefusals: what cannot be represented is refused under its name.
func TestHFRefusals(t *testing.T) {
	qwen, llama, deepseek, nemotron := catalogueHF("qwen3-30b-a3b"), catalogueHF("llama3.1-8b"), catalogueHF("deepseek-v3"), catalogueHF("nemotron-3-nano")
	next, gpt := catalogueHF("qwen3-next"), catalogueHF("gpt-oss-20b")
	for _, tt := range []struct{ why, text, key, want string }{
		{"no JSON", `{`, "", "not JSON"},
		{"no object", `[1]`, "", "not a JSON object"},
		{"two objects", `{} {}`, "", "there is more"},
		{"a key twice", `{"model_type": "llama", "model_type": "qwen3"}`, "model_type", "given twice"},
		{"a nested key twice", `{"text_config": {"a": 1, "a": 2}}`, "text_config.a", "given twice"},
		{"deep", strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40), "", "nested deeper"},
		{"long", `{"a": "` + strings.Repeat("x", maxHFBytes) + `"}`, "", "more than"},
		{"no architecture", `{"hidden_size": 1}`, "architectures", "what model this is"},
		{"an unknown architecture", `{"architectures": ["FalconForCausalLM"]}`, "architectures", "FalconForCausalLM is not read"},
		{"DSA", `{"model_type": "glm_moe_dsa"}`, "model_type", "indexer"},
		{"DSA as DeepSeek", with(deepseek, "index_topk", 2048).String(), "index_topk", "indexer"},
		{"nothing but a name", `{"model_type": "llama"}`, "num_hidden_layers", "missing"},
		{"no vocabulary", with(llama, "vocab_size", "delete").String(), "vocab_size", "missing"},
		{"a size that is no number", with(llama, "hidden_size", "big").String(), "hidden_size", "not a whole number"},
		{"half a head", with(llama, "num_attention_heads", 1.5).String(), "num_attention_heads", "not a whole number"},
		{"a negative size", with(llama, "intermediate_size", -1).String(), "intermediate_size", "not a whole number"},
		{"a huge size", with(llama, "vocab_size", 1e18).String(), "vocab_size", "not a whole number"},
		{"too many layers", with(llama, "num_hidden_layers", 1<<29).String(), "", "num_layers"},
		{"no head_dim and no quotient", with(llama, "hidden_size", 4097).String(), "head_dim", "no multiple"},
		{"another activation", with(llama, "hidden_act", "gelu").String(), "hidden_act", "only silu"},
		{"a bias on the output projection", with(qwen, "attention_bias", true).String(), "attention_bias", "output projection"},
		{"biases on attention only", with(llama, "attention_bias", true).String(), "attention_bias", "all linear layers or none"},
		{"windows", with(llama, "sliding_window", 4096).String(), "sliding_window", "windowed"},
		{"windows on some layers", with(qwen, "use_sliding_window", true, "sliding_window", 4096).String(), "use_sliding_window", "windowed"},
		{"layer kinds", with(qwen, "layer_types", []string{"sliding_attention"}).String(), "layer_types", "sliding_attention"},
		{"experts per layer", with(qwen, "num_experts", []int{128, 96, 64}).String(), "num_experts", "one value a layer"},
		{"contradicting experts", with(qwen, "num_local_experts", 64).String(), "num_local_experts", "contradicts num_experts"},
		{"contradicting top-k", with(gpt, "experts_per_token", 8).String(), "experts_per_token", "contradicts"},
		{"a shared expert that Qwen3 has not", with(qwen, "n_shared_experts", 1).String(), "n_shared_experts", "no shared expert"},
		{"an unknown size", with(qwen, "residual_hidden_size", 512).String(), "residual_hidden_size", "shape"},
		{"an unknown kind of layer", with(llama, "num_memory_layers", 4).String(), "num_memory_layers", "shape"},
		{"dense layers beyond the last", with(qwen, "mlp_only_layers", []int{48}).String(), "mlp_only_layers", "layers 0 to 47"},
		{"more dense layers than layers", with(deepseek, "first_k_dense_replace", 62).String(), "first_k_dense_replace", "more than"},
		{"sparse step 0", with(qwen, "decoder_sparse_step", 0).String(), "decoder_sparse_step", "below 1"},
		{"a list of the wrong length", with(deepseek, "moe_layer_freq", []int{0, 1}).String(), "moe_layer_freq", "2 entries for 61"},
		{"a list with an entry that is neither", with(deepseek, "moe_layer_freq", append(slices.Repeat([]int{1}, 60), 2)).String(), "moe_layer_freq", "2 is neither 0 nor 1"},
		{"another top-k method", with(deepseek, "topk_method", "greedy").String(), "topk_method", "greedy"},
		{"another score function", with(deepseek, "scoring_func", "tanh").String(), "scoring_func", "tanh"},
		{"linear attention without full", with(next, "layer_types", []string{"linear_attention"}).String(), "full_attention_interval", "without a full attention"},
		{"irregular linear attention", with(next, "full_attention_interval", 3).String(), "layer_types", "every 3-th"},
		{"a short list of kinds", with(gpt, "layer_types", []string{"sliding_attention", "full_attention"}).String(), "layer_types", "2 entries for 24"},
		{"the wrong order of windows", with(gpt, "layer_types", slices.Repeat([]string{"full_attention", "sliding_attention"}, 12)).String(), "layer_types", "beginning with the first"},
		{"an unknown letter", with(nemotron, "hybrid_override_pattern", "MXM").String(), "hybrid_override_pattern", `"X"`},
		{"an unknown block", with(nemotron, "hybrid_override_pattern", "delete", "layers_block_type", []string{"mamba", "conv"}).String(), "layers_block_type", "conv"},
		{"two layer lists", with(nemotron, "layers_block_type", []string{"mamba"}).String(), "layers_block_type", "contradict"},
		{"no layer list", with(nemotron, "hybrid_override_pattern", "delete").String(), "hybrid_override_pattern", "cannot be guessed"},
		{"a count against the list", with(nemotron, "num_hidden_layers", 51).String(), "num_hidden_layers", "52"},
		{"MTP without its layers", with(nemotron, "num_nextn_predict_layers", 1).String(), "mtp_hybrid_override_pattern", "MTP"},
		{"clipped queries", with(catalogueHF("olmoe"), "clip_qkv", 8.0).String(), "clip_qkv", "clipping"},
		{"linear layers in MiniMax", with(catalogueHF("minimax-m2.5"), "attn_type_list", []int{0, 1}).String(), "attn_type_list", "linear attention"},
		{"kinds of attention that are no list", with(catalogueHF("minimax-m2.5"), "attn_type_list", 1).String(), "attn_type_list", "not a list"},
		{"an epsilon that is no number", with(llama, "rms_norm_eps", "1e-5").String(), "rms_norm_eps", "not a number"},
		{"a scale that is no number", with(llama, "rope_scaling", map[string]any{"rope_type": "llama3", "factor": "8"}).String(), "rope_scaling.factor", "not a number"},
		{"a kind of scaling that is no text", with(llama, "rope_scaling", map[string]any{"rope_type": 3}).String(), "rope_scaling.rope_type", "not a text"},
		{"a tie that is no boolean", with(llama, "tie_word_embeddings", "yes").String(), "tie_word_embeddings", "neither true nor false"},
		{"positions that are no group", with(llama, "rope_scaling", 8).String(), "rope_scaling", "group"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			m, _, err := FromHF(strings.NewReader(tt.text), "config.json")
			var e *HFError
			if !errors.As(err, &e) || e.Key != tt.key || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, %v; want %q with %q", m, err, tt.key, tt.want)
			}
		})
	}
}

// TestHFVariants: ways to say the same.
func TestHFVariants(t *testing.T) {
	same := func(why string, a, b hfObject) {
		t.Helper()
		x, _, err1 := FromHF(strings.NewReader(a.String()), "x")
		y, _, err2 := FromHF(strings.NewReader(b.String()), "x")
		if err1 != nil || err2 != nil {
			t.Errorf("%s: %v, %v", why, err1, err2)
		} else if !reflect.DeepEqual(x, y) {
			t.Errorf("%s: %s", why, fieldsThatDiffer(x, y))
		}
	}
	qwen, deepseek, next, maverick := catalogueHF("qwen3-30b-a3b"), catalogueHF("deepseek-v3"), catalogueHF("qwen3-next"), catalogueHF("llama4-maverick")
	for _, alias := range []string{"num_local_experts", "n_routed_experts", "moe_num_experts"} {
		same(alias, qwen, with(qwen, "num_experts", "delete", alias, 128))
		same("both "+alias, qwen, with(qwen, alias, 128))
	}
	for _, alias := range []string{"mtp_num_hidden_layers", "mtp_num_layers"} {
		same(alias, deepseek, with(deepseek, "num_nextn_predict_layers", "delete", alias, 1))
	}
	same("whole floats", qwen, with(qwen, "hidden_size", 2048.0, "vocab_size", 1.51936e5))
	same("null lists", qwen, with(qwen, "mlp_only_layers", nil, "rope_scaling", nil, "sliding_window", nil))
	same("model_type only", qwen, with(qwen, "architectures", "delete", "model_type", "qwen3_moe"))
	same("a list of layers for a count", deepseek, with(deepseek, "moe_layer_freq", append([]int{0, 0, 0}, slices.Repeat([]int{1}, 58)...), "first_k_dense_replace", 3))
	same("an interval for a list", next, with(next, "layer_types", "delete", "full_attention_interval", 4))
	text := maverick["text_config"].(hfObject)
	odd := []int{}
	for i := 1; i < 48; i += 2 {
		odd = append(odd, i)
	}
	same("moe_layers for a step", maverick, with(maverick, "text_config", with(text, "moe_layers", odd)))
	same("a wrapper without its class", maverick, with(maverick, "architectures", "delete"))
	nano := catalogueHF("nemotron-3-nano")
	names := []string{}
	for _, l := range nano["hybrid_override_pattern"].(string) {
		names = append(names, map[rune]string{'M': "mamba", 'E': "moe", '*': "attention", '-': "mlp"}[l])
	}
	same("names of layers for letters", nano, with(nano, "hybrid_override_pattern", "delete", "layers_block_type", names))
	same("both, and a count", nano, with(nano, "layers_block_type", names, "num_hidden_layers", 52))

	// Mixed layers come out layer by layer.
	m, _, err := FromHF(strings.NewReader(with(qwen, "num_hidden_layers", 6, "mlp_only_layers", []int{3}, "decoder_sparse_step", 2).String()), "x")
	if err != nil || m.MoE.LayerFreq != "([0]*1+[1]*1+[0]*3+[1]*1)" || m.FFNHiddenSize != 6144 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestHFImportRecord(t *testing.T) {
	o := with(catalogueHF("qwen3-8b"), "head_dim", "delete", "tie_word_embeddings", "delete", "quantization_config", hfObject{"quant_method": "fp8"}, "sparkle", 3)
	_, imp, err := FromHF(strings.NewReader(o.String()), "Qwen/Qwen3-8B")
	if err != nil {
		t.Fatal(err)
	}
	has := func(notes []HFNote, key, reason string) {
		t.Helper()
		if !slices.ContainsFunc(notes, func(n HFNote) bool { return n.Key == key && strings.Contains(n.Reason, reason) }) {
			t.Errorf("%s is not noted with %q: %+v", key, reason, notes)
		}
	}
	has(imp.Read, "hidden_size", "hidden_size")
	has(imp.Assumed, "kv_channels", "hidden_size / num_attention_heads")
	has(imp.Assumed, "tied_embeddings", "not given")
	has(imp.Assumed, "make_vocab_size_divisible_by", "does not say")
	has(imp.Ignored, "quantization_config", "checkpoint")
	has(imp.Ignored, "sparkle", "not known")
	seen := map[string]bool{}
	for _, n := range slices.Concat(imp.Read, imp.Ignored) {
		seen[n.Key] = true
	}
	for key := range o {
		if !seen[key] && o[key] != nil {
			t.Errorf("%s is not accounted for", key)
		}
	}
	dynamic := with(catalogueHF("qwen3-8b"), "rope_scaling", map[string]any{"type": "dynamic", "factor": 2})
	if _, imp, err = FromHF(strings.NewReader(dynamic.String()), "config.json"); err != nil {
		t.Fatal(err)
	}
	has(imp.Ignored, "rope_scaling", "no Megatron-LM flag scales positions by dynamic")
}

func TestSizeCheck(t *testing.T) {
	for _, m := range All() {
		_, imp, err := FromHF(strings.NewReader(hfOf(m).String()), m.HFID)
		if err != nil {
			t.Error(err)
			continue
		}
		if imp.Size != nil && !imp.Size.Agrees {
			t.Errorf("%s: %s", m.HFID, imp.Size.Message)
		}
	}
	for _, tt := range []struct {
		name          string
		total, active float64
	}{
		{"Qwen/Qwen3-235B-A22B", 235e9, 22e9}, {"Qwen3-30B-A3B-Instruct-2507", 30e9, 3e9}, {"Ling-1T", 1e12, 0}, {"Qwen1.5-MoE-A2.7B", 0, 2.7e9},
		{"Llama-4-Scout-17B-16E-Instruct", 0, 17e9}, {"OLMoE-1B-7B-0924", 7e9, 1e9}, {"Mixtral-8x7B-v0.1", 0, 0}, {"DeepSeek-V3", 0, 0},
		{"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 30e9, 3e9}, {"config.json", 0, 0}, {"qwen3_0.6b", 0.6e9, 0},
	} {
		if total, active, _ := statedSize(tt.name); timesWord().MatchString(tt.name) != (tt.name == "Mixtral-8x7B-v0.1") || !timesWord().MatchString(tt.name) && (total != tt.total || active != tt.active) {
			t.Errorf("%s: %g and %g", tt.name, total, active)
		}
	}
	// The wrong file under a name is found out.
	_, imp, err := FromHF(strings.NewReader(catalogueHF("qwen3-30b-a3b").String()), "Qwen/Qwen3-235B-A22B")
	if err != nil || imp.Size == nil || imp.Size.Agrees || !strings.Contains(imp.Size.Message, "the name says 235 B") {
		t.Errorf("%+v, %v", imp, err)
	}
	_, imp, _ = FromHF(strings.NewReader(with(catalogueHF("qwen3-30b-a3b"), "_name_or_path", "/data/Qwen3-30B-A3B").String()), "config.json")
	if imp.Size == nil || !imp.Size.Agrees {
		t.Errorf("%+v", imp.Size)
	}
}

// TestHFLayerFreq: whatever the layers, the expression says the same.
func TestHFLayerFreq(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.SliceOfN(rapid.Bool(), 1, 120).Draw(t, "layers")
		got, err := layerFreqOf(len(bits), func(i int) byte {
			if bits[i] {
				return '1'
			}
			return '0'
		}).Expand(len(bits))
		if err != nil || !slices.Equal(got, bits) {
			t.Fatalf("%v, %v", got, err)
		}
	})
}

func FuzzFromHF(f *testing.F) {
	for _, m := range All() {
		f.Add(hfOf(m).String())
	}
	f.Add(`{"model_type": "nemotron_h", "hybrid_override_pattern": "M-*E"}`)
	f.Fuzz(func(t *testing.T, text string) {
		m, imp, err := FromHF(strings.NewReader(text), "fuzz-7B")
		if (m == nil) != (err != nil) || (imp == nil) != (err != nil) {
			t.Fatalf("%v, %v, %v", m, imp, err)
		}
		if err == nil && m.Validate() != nil {
			t.Fatal(m.Validate())
		}
	})
}

// TestHFMutations: any value in place of any key of any model is read or refused, never more.
func TestHFMutations(t *testing.T) { rapid.Check(t, hfMutation) }

func FuzzHFMutations(f *testing.F) { f.Fuzz(rapid.MakeFuzz(hfMutation)) }

func hfMutation(t *rapid.T) {
	o := hfOf(rapid.SampledFrom(All()).Draw(t, "model"))
	if text, ok := o["text_config"].(hfObject); ok {
		o = with(text, "model_type", "llama4")
	}
	keys := sortedNames(o)
	keys = append(keys, "layer_types", "mlp_only_layers", "layers_block_type", "moe_layer_freq", "n_shared_experts", "rope_parameters", "full_attention_interval")
	for range rapid.IntRange(1, 3).Draw(t, "how many") {
		value := rapid.SampledFrom([]any{
			nil, true, false, 0, 1, -1, 2, 3, 7, 1 << 20, 1 << 29, 1e300, 0.5, "", "x", "MEM*E-", []any{}, []any{1, 0}, []any{"mamba"}, []any{nil},
			map[string]any{}, map[string]any{"rope_type": "yarn", "factor": "x"},
		}).Draw(t, "value")
		o = with(o, rapid.SampledFrom(keys).Draw(t, "key"), value)
	}
	m, _, err := FromHF(strings.NewReader(o.String()), "x")
	var e *HFError
	if err != nil && !errors.As(err, &e) || err == nil && m.Validate() != nil {
		t.Fatalf("%v, %v", m, err)
	}
}
