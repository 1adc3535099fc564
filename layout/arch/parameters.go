package arch

// Parameters returns how many elements the whole model has, and how many of them one token uses (the same
// with top-k instead of all routed experts). Both are 0 for a model that Validate refuses.
//
// Counted: embedding and output layer with the UNPADDED vocabulary (once if they are tied), learned
// positions, every norm, bias and attention sink, router, shared expert and its gate. Not counted: MTP
// layers and buffers (router expert bias, rope tables). A rank holds other numbers: its vocabulary is
// padded and some tensors are copied (package memmodel).
//
// Query and key norms are counted as Megatron's own layer spec builds them, kv_channels weights each, also
// for the FullDim kinds: their published weights hold (heads+groups-2)*kv_channels more elements a layer,
// which only a custom spec would build.
//
// Sources: megatron/core/models/gpt/gpt_layer_specs.py,
// get_gpt_layer_with_transformer_engine_submodules, and the modules it names.
func (m *Model) Parameters() (total, active int64) {
	if m.Validate() != nil {
		return 0, 0
	}
	total, active = m.outside(), m.outside()
	for _, l := range m.Layers() {
		t, a := m.LayerParameters(l)
		total += t
		active += a
	}
	return total, active
}

// outside counts what is not inside a layer: embedding, output layer, positions, final norm.
func (m *Model) outside() int64 {
	h := int64(m.HiddenSize)
	n := int64(m.VocabSize) * h
	if !m.TiedEmbeddings {
		n *= 2
	}
	if m.LearnedPositions {
		n += int64(m.MaxPositionEmbeddings) * h
	}
	return n + m.norm(m.HiddenSize)
}

// norm counts one norm over width elements: a weight, and with LayerNorm a bias.
func (m *Model) norm(width int) int64 {
	if m.Normalization == LayerNorm {
		return 2 * int64(width)
	}
	return int64(width)
}

// LayerParameters returns the elements of one layer of the given kind, and those that one token uses.
// The model must be one that Validate accepts.
func (m *Model) LayerParameters(l Layer) (total, active int64) {
	switch l.Mixer {
	case GQA:
		total = m.norm(m.HiddenSize) + m.gqaParameters()
	case MLAttention:
		total = m.norm(m.HiddenSize) + m.mlaParameters()
	case GatedDeltaNet:
		total = m.norm(m.HiddenSize) + m.gdnParameters()
	case MambaMixer:
		total = m.norm(m.HiddenSize) + m.mambaParameters()
	}
	switch l.Feedforward {
	case DenseMLP:
		total += m.norm(m.HiddenSize) + m.mlpParameters(m.HiddenSize, m.FFNHiddenSize)
	case MoEMLP:
		total += m.norm(m.HiddenSize)
		active = total
		each, rest := m.moeParameters()
		return total + rest + int64(m.MoE.NumExperts)*each, active + rest + int64(m.MoE.TopK)*each
	}
	return total, total
}

// gqaParameters: megatron/core/transformer/attention.py, SelfAttention.
func (m *Model) gqaParameters() int64 {
	h := int64(m.HiddenSize)
	q := int64(m.NumAttentionHeads) * int64(m.KVChannels)
	kv := int64(m.NumQueryGroups) * int64(m.KVChannels)
	qkv := q + 2*kv
	if m.AttentionOutputGate {
		qkv += q
	}
	n := h*qkv + q*h
	if m.QKVBias || m.LinearBias {
		n += qkv
	}
	n += m.projBiasAndSink()
	switch m.QKNorm {
	case PerHeadQKNorm, FullDimQKNorm, FullDimQKNormPerLayer:
		n += 2 * m.norm(m.KVChannels)
	}
	return n
}

func (m *Model) projBiasAndSink() (n int64) {
	if m.LinearBias {
		n += int64(m.HiddenSize)
	}
	if m.SoftmaxType == "learnable" {
		n += int64(m.NumAttentionHeads)
	}
	return n
}

// mlaParameters: megatron/core/transformer/multi_latent_attention.py, MLASelfAttention. The latent norms
// exist with --qk-layernorm only.
func (m *Model) mlaParameters() int64 {
	a := m.MLA
	h, heads := int64(m.HiddenSize), int64(m.NumAttentionHeads)
	queryDim := heads * int64(a.QKHeadDim+a.QKPosEmbHeadDim)
	kl, ql := int64(a.KVLoraRank), int64(a.QLoraRank)
	n := h*(kl+int64(a.QKPosEmbHeadDim)) + kl*heads*int64(a.QKHeadDim+a.VHeadDim) + heads*int64(a.VHeadDim)*h
	if m.QKNorm == MLALatentNorm {
		n += m.norm(a.KVLoraRank)
	}
	if ql == 0 {
		n += h * queryDim
	} else {
		n += h*ql + ql*queryDim
		if m.QKNorm == MLALatentNorm {
			n += m.norm(a.QLoraRank)
		}
	}
	return n + m.projBiasAndSink()
}

// gdnParameters: megatron/core/ssm/gated_delta_net (common.py, gdn.py, gdn2.py).
func (m *Model) gdnParameters() int64 {
	a := m.LinearAttention
	h := int64(m.HiddenSize)
	qk := int64(a.KeyHeadDim) * int64(a.NumKeyHeads)
	v := int64(a.ValueHeadDim) * int64(a.NumValueHeads)
	gates := 2 * int64(a.NumValueHeads)
	if a.Variant == "gdn2" {
		gates = 2*qk + v
	}
	n := h * (2*qk + 2*v + gates)
	n += (2*qk + v) * int64(a.ConvKernelDim)
	n += 2 * int64(a.NumValueHeads) // A_log and dt_bias
	n += int64(a.ValueHeadDim)      // output norm
	return n + v*h
}

// mambaParameters: megatron/core/ssm/mamba_mixer.py.
func (m *Model) mambaParameters() int64 {
	a := m.Mamba
	h, heads := int64(m.HiddenSize), int64(a.NumHeads)
	inner := heads * int64(a.HeadDim)
	states := 2 * int64(a.NumGroups) * int64(a.StateDim)
	n := h * (2*inner + states + heads)
	n += (inner + states) * int64(a.ConvKernel+1) // weights and bias
	n += 3 * heads                                // dt_bias, A_log, D
	return n + inner + inner*h                    // gated norm, out_proj
}

// mlpParameters counts fc1 and fc2 of one MLP or expert: megatron/core/transformer/mlp.py.
func (m *Model) mlpParameters(width, ffn int) int64 {
	w, f := int64(width), int64(ffn)
	halves := int64(1)
	if m.Activation.Gated() {
		halves = 2
	}
	n := (halves + 1) * f * w
	if m.LinearBias {
		n += halves*f + w
	}
	return n
}

// moeParameters returns the elements of each routed expert, and of what stands beside them: router, latent
// projections, shared expert. megatron/core/transformer/moe: router.py, experts.py, moe_layer.py,
// shared_experts.py (which refuses biases).
func (m *Model) moeParameters() (expert, rest int64) {
	e := m.MoE
	h := int64(m.HiddenSize)
	width := m.HiddenSize
	rest = int64(e.NumExperts) * h
	if m.LinearBias {
		rest += int64(e.NumExperts)
	}
	if e.LatentSize > 0 {
		width = e.LatentSize
		rest += 2 * h * int64(e.LatentSize)
	}
	if e.SharedFFNSize > 0 {
		halves := int64(1)
		if m.Activation.Gated() {
			halves = 2
		}
		rest += (halves + 1) * int64(e.SharedFFNSize) * h
		if e.SharedExpertGate {
			rest += h
		}
	}
	return m.mlpParameters(width, e.FFNHiddenSize), rest
}

// PaddedVocab returns the vocabulary rows that the framework allocates at tensor parallel size tp: the
// vocabulary rounded up to a multiple of MakeVocabSizeDivisibleBy*tp
// (megatron/training/vocab_utils.py, calculate_padded_vocab_size). A MakeVocabSizeDivisibleBy of 0 stands
// for Megatron's default of 128. tp must be at least 1.
func (m *Model) PaddedVocab(tp int) int {
	unit := m.MakeVocabSizeDivisibleBy
	if unit == 0 {
		unit = 128
	}
	unit *= tp
	return (m.VocabSize + unit - 1) / unit * unit
}
