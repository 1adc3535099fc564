package arch

import "fmt"

// Bounds that keep every count inside int64: no single tensor can overflow with sizes up to maxSize, and
// maxParameters (over a million times the largest model) bounds what layers and experts multiply them to.
// Real sizes end near 53,000 (an FFN), 260,000 (a vocabulary) and 10,000,000 (positions).
const (
	maxSize       = 1 << 19
	maxTable      = 1 << 30 // rows of an embedding or position table
	maxParameters = 1e18
)

// Validate reports the first reason why the shape makes no sense on its own: a missing or absurd size, a
// layer pattern that cannot be read, a layer kind whose sizes are not given. It says nothing about whether
// Megatron accepts the model on some mesh.
func (m *Model) Validate() error {
	if err := m.validateSizes(); err != nil {
		return fmt.Errorf("model %q: %w", m.ID, err)
	}
	layers, err := m.layers()
	if err != nil {
		return fmt.Errorf("model %q: %w", m.ID, err)
	}
	if m.Kind == Hybrid {
		if m.NumLayers != len(layers) {
			return fmt.Errorf("model %q: num_layers %d, but the hybrid layer pattern has %d letters", m.ID, m.NumLayers, len(layers))
		}
	}
	if m.MTPNumLayers > 0 {
		depth := 1 // layers: a GPT model's has the kind of the last decoder layer
		if m.Kind == Hybrid {
			mtp, err := m.patternLayers(m.MTPHybridPattern)
			if err != nil {
				return fmt.Errorf("model %q: MTP: %w", m.ID, err)
			}
			depth = len(mtp)
			layers = append(layers, mtp...)
		}
		if m.MTPNumLayers > MaxLayers/depth { // patterns write every depth out
			return fmt.Errorf("model %q: mtp_num_layers %d of %d layers each: at most %d layers in all are supported", m.ID, m.MTPNumLayers, depth, MaxLayers)
		}
	}
	for _, l := range layers {
		if err := m.validateLayer(l); err != nil {
			return fmt.Errorf("model %q: %w", m.ID, err)
		}
	}
	if n := m.roughly(layers); n > maxParameters {
		return fmt.Errorf("model %q: about %.0e parameters", m.ID, n)
	}
	return nil
}

// roughly is the number of parameters in floating point, which cannot overflow.
func (m *Model) roughly(layers []Layer) float64 {
	n := float64(m.outside())
	for _, l := range layers {
		if l.Feedforward == MoEMLP {
			each, rest := m.moeParameters()
			n += float64(max(m.MoE.NumExperts, m.MoE.TopK))*float64(each) + float64(rest)
			l.Feedforward = NoFeedforward
		}
		t, _ := m.LayerParameters(l)
		n += float64(t)
	}
	return n
}

func (m *Model) validateSizes() error {
	if m.Kind != GPT && m.Kind != Hybrid {
		return fmt.Errorf("kind %q is neither %q nor %q", m.Kind, GPT, Hybrid)
	}
	positions := 0
	if m.LearnedPositions {
		positions = 1
	}
	tables := []size{{"vocab_size", m.VocabSize, 1}, {"max_position_embeddings", m.MaxPositionEmbeddings, positions}}
	if err := checkSizes(tables, maxTable); err != nil {
		return err
	}
	sizes := []size{
		{"hidden_size", m.HiddenSize, 1},
		{"num_attention_heads", m.NumAttentionHeads, 1},
		{"make_vocab_size_divisible_by", m.MakeVocabSizeDivisibleBy, 0},
		{"mtp_num_layers", m.MTPNumLayers, 0},
	}
	if e := m.MoE; e != nil {
		sizes = append(sizes,
			size{"num_experts", e.NumExperts, 1},
			size{"moe_router_topk", e.TopK, 1},
			size{"moe_ffn_hidden_size", e.FFNHiddenSize, 1},
			size{"moe_shared_expert_intermediate_size", e.SharedFFNSize, 0},
			size{"moe_latent_size", e.LatentSize, 0})
	}
	if w := m.SlidingWindow; w != nil {
		sizes = append(sizes, size{"window", w.Window, 0}, size{"window_attn_skip_freq", w.SkipFreq, 0})
	}
	return checkSizes(sizes, maxSize)
}

// validateLayer checks the sizes that a layer's kind needs.
func (m *Model) validateLayer(l Layer) error {
	var sizes []size
	switch l.Mixer {
	case GQA:
		sizes = []size{{"num_query_groups", m.NumQueryGroups, 1}, {"kv_channels", m.KVChannels, 1}}
	case MLAttention:
		a := m.MLA
		sizes = []size{
			{"q_lora_rank", a.QLoraRank, 0}, {"kv_lora_rank", a.KVLoraRank, 1}, {"qk_head_dim", a.QKHeadDim, 1},
			{"qk_pos_emb_head_dim", a.QKPosEmbHeadDim, 0}, {"v_head_dim", a.VHeadDim, 1},
		}
	case GatedDeltaNet:
		a := m.LinearAttention
		if a == nil {
			return fmt.Errorf("a gated delta net layer without linear attention sizes")
		}
		sizes = []size{
			{"linear_key_head_dim", a.KeyHeadDim, 1}, {"linear_value_head_dim", a.ValueHeadDim, 1},
			{"linear_num_key_heads", a.NumKeyHeads, 1}, {"linear_num_value_heads", a.NumValueHeads, 1},
			{"linear_conv_kernel_dim", a.ConvKernelDim, 1},
		}
	case MambaMixer:
		a := m.Mamba
		if a == nil {
			return fmt.Errorf("a Mamba layer without Mamba sizes")
		}
		sizes = []size{
			{"mamba_num_heads", a.NumHeads, 1}, {"mamba_head_dim", a.HeadDim, 1}, {"mamba_state_dim", a.StateDim, 1},
			{"mamba_num_groups", a.NumGroups, 1}, {"mamba conv kernel", a.ConvKernel, 1},
		}
	}
	switch l.Feedforward {
	case DenseMLP:
		sizes = append(sizes, size{"ffn_hidden_size", m.FFNHiddenSize, 1})
	case MoEMLP:
		if m.MoE == nil {
			return fmt.Errorf("an MoE layer without experts")
		}
	}
	return checkSizes(sizes, maxSize)
}

// size is a named size with the smallest value that makes sense.
type size struct {
	name       string
	value, min int
}

func checkSizes(sizes []size, largest int) error {
	for _, s := range sizes {
		if s.value < s.min || s.value > largest {
			return fmt.Errorf("%s %d is not between %d and %d", s.name, s.value, s.min, largest)
		}
	}
	return nil
}
