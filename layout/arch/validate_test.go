package arch

import (
	"strings"
	"testing"
)

// TestValidateNames: what makes no sense is refused by the name of the size; the bounds keep every count inside an int64.
func TestValidateNames(t *testing.T) {
	for _, c := range []struct {
		reason, id, names string
		change            func(*Model)
	}{
		{"a size that is missing", "qwen3-8b", "hidden_size 0", func(m *Model) { m.HiddenSize = 0 }},
		{"a size whose products would overflow", "qwen3-8b", "ffn_hidden_size 1048576", func(m *Model) { m.FFNHiddenSize = 1 << 20 }},
		{"each size fits, all of them together do not", "deepseek-v3", "parameters", func(m *Model) {
			m.HiddenSize, m.MoE.NumExperts, m.MoE.FFNHiddenSize, m.MoE.TopK = 1<<19, 1<<19, 1<<19, 1<<19
		}},
		{"learned positions have a table", "qwen3-8b", "max_position_embeddings 0", func(m *Model) { m.LearnedPositions, m.MaxPositionEmbeddings = true, 0 }},
		{"without them nobody asks", "qwen3-8b", "", func(m *Model) { m.MaxPositionEmbeddings = 0 }},
		{"neither kind of model", "qwen3-8b", `kind "bert"`, func(m *Model) { m.Kind = "bert" }},
		{"a pattern of another length", "nemotron-3-super", "num_layers 3", func(m *Model) { m.NumLayers = 3 }},
		{"a letter that is no layer", "nemotron-3-super", "'X' at 2", func(m *Model) { m.HybridLayerPattern, m.NumLayers = "MX", 2 }},
		{"Mamba layers without sizes", "nemotron-3-super", "Mamba", func(m *Model) { m.Mamba = nil }},
		{"a layer of experts without experts", "nemotron-3-super", "experts", func(m *Model) { m.MoE = nil }},
		{"as many MTP depths as layers are supported", "deepseek-v3", "", func(m *Model) { m.MTPNumLayers = MaxLayers }},
		{"and not one more", "deepseek-v3", "mtp_num_layers 16385 of 1 layers each", func(m *Model) { m.MTPNumLayers = MaxLayers + 1 }},
		{"a hybrid's patterns are written out depth by depth", "nemotron-3-super", "mtp_num_layers 8193 of 2 layers each", func(m *Model) { m.MTPNumLayers = MaxLayers/2 + 1 }},
	} {
		found, err := Lookup(c.id)
		if err != nil {
			t.Fatal(err)
		}
		m := *found
		if m.MoE != nil {
			moe := *m.MoE
			m.MoE = &moe
		}
		c.change(&m)
		err = m.Validate()
		if c.names == "" && err != nil || c.names != "" && (err == nil || !strings.Contains(err.Error(), c.names)) {
			t.Errorf("%s: %v, want %q", c.reason, err, c.names)
		}
	}
}
