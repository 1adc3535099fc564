package arch

import "slices"

func readQwen2(c *hfConfig, m *Model) {
	c.decoder(m)
	c.grouped(m)
	c.silu()
	c.dense(m)
	m.QKVBias = true
	c.fullAttention()
}

func readQwen3(c *hfConfig, m *Model) {
	c.decoder(m)
	c.grouped(m)
	c.silu()
	c.dense(m)
	m.QKNorm = PerHeadQKNorm
	c.qkvBias(m, true, "attention_bias")
	c.fullAttention()
}

// sparseStep is Qwen's rule: layer i is MoE unless mlp_only_layers has it, if (i+1) is a multiple of decoder_sparse_step.
func (c *hfConfig) sparseStep(m *Model) {
	step := 1
	if v, full, ok := c.get("decoder_sparse_step"); ok {
		step, _ = c.integer("decoder_sparse_step", "decoder_sparse_step")
		if step < 1 && c.err == nil {
			c.fail(full, "%s is below 1", textOf(v))
		}
	}
	only := c.layers("dense layers", "mlp_only_layers", m.NumLayers)
	if c.err == nil {
		c.frequency(m, func(i int) bool { return !only[i] && (i+1)%step == 0 })
	}
}

func readQwen2Moe(c *hfConfig, m *Model) {
	c.decoder(m)
	c.grouped(m)
	c.silu()
	m.QKVBias = c.boolean("qkv_bias", true, "qkv_bias")
	e := c.experts(m)
	e.FFNHiddenSize = c.must("moe_ffn_hidden_size", "moe_intermediate_size")
	e.SharedFFNSize = c.must("moe_shared_expert_intermediate_size", "shared_expert_intermediate_size")
	e.SharedExpertGate = e.SharedFFNSize > 0
	e.RouterPreSoftmax = !c.boolean("router_pre_softmax is its contrary", false, "norm_topk_prob")
	c.auxLoss(e, "aux_loss", 0.001)
	c.sparseStep(m)
	c.dense(m)
	c.fullAttention()
}

func readQwen3Moe(c *hfConfig, m *Model) {
	c.decoder(m)
	c.grouped(m)
	c.silu()
	m.QKNorm = PerHeadQKNorm
	c.qkvBias(m, true, "attention_bias")
	e := c.experts(m)
	e.FFNHiddenSize = c.must("moe_ffn_hidden_size", "moe_intermediate_size")
	e.RouterPreSoftmax = !c.boolean("router_pre_softmax is its contrary", true, "norm_topk_prob")
	c.auxLoss(e, "aux_loss", 0.001)
	c.refuse("Qwen3-MoE has no shared expert", "shared_expert_intermediate_size", "n_shared_experts")
	c.sparseStep(m)
	c.dense(m)
	c.fullAttention()
	c.mtp(m)
}

// readQwen3Next: gated delta nets beside every full_attention_interval-th full attention, an output gate, a shared expert
// with a gate, norms around one. Defaults are Hugging Face's (configuration_qwen3_next.py).
func readQwen3Next(c *hfConfig, m *Model) {
	c.decoder(m)
	c.grouped(m)
	c.silu()
	const class = "not given: the default of Hugging Face's configuration class"
	m.QKNorm = PerHeadQKNorm
	m.AttentionOutputGate = c.boolean("attention_output_gate", true, "attn_output_gate")
	c.qkvBias(m, true, "attention_bias")
	m.LinearAttention = &LinearAttention{
		Variant:       "gdn",
		ConvKernelDim: c.or("linear_conv_kernel_dim", 4, class, "linear_conv_kernel_dim"),
		KeyHeadDim:    c.or("linear_key_head_dim", 128, class, "linear_key_head_dim"),
		ValueHeadDim:  c.or("linear_value_head_dim", 128, class, "linear_value_head_dim"),
		NumKeyHeads:   c.or("linear_num_key_heads", 16, class, "linear_num_key_heads"),
		NumValueHeads: c.or("linear_num_value_heads", 32, class, "linear_num_value_heads"),
		Freq:          c.linearFreq(m, class),
	}
	e := c.experts(m)
	e.FFNHiddenSize = c.must("moe_ffn_hidden_size", "moe_intermediate_size")
	e.SharedFFNSize = c.must("moe_shared_expert_intermediate_size", "shared_expert_intermediate_size")
	e.SharedExpertGate = e.SharedFFNSize > 0
	e.RouterPreSoftmax = !c.boolean("router_pre_softmax is its contrary", true, "norm_topk_prob")
	c.auxLoss(e, "aux_loss", 0.001)
	c.sparseStep(m)
	c.dense(m)
	c.mtp(m)
	c.more = append(c.more, "--apply-layernorm-1p")
}

// linearFreq reads which layers attend in full: by interval, by list, or both if they agree.
func (c *hfConfig) linearFreq(m *Model, class string) int {
	kinds, listed := c.texts("layer kinds", "layer_types")
	freq := 4
	if n, ok := c.integer("linear_attention_freq", "full_attention_interval"); ok {
		freq = n
	} else if listed {
		freq = slices.Index(kinds, "full_attention") + 1
	} else if c.err == nil {
		c.assume("linear_attention_freq", freq, class)
	}
	if freq < 1 && c.err == nil {
		c.fail("full_attention_interval", "%d: without a full attention layer it cannot be represented", freq)
	}
	if !listed || c.err != nil {
		return freq
	}
	if len(kinds) != m.NumLayers {
		c.fail("layer_types", "%d entries for %d layers", len(kinds), m.NumLayers)
		return freq
	}
	for i, k := range kinds {
		want := "linear_attention"
		if (i+1)%freq == 0 {
			want = "full_attention"
		}
		if k != want {
			c.fail("layer_types", "layer %d is %q; only full attention on every %d-th layer can be represented", i, shortText(k), freq)
			return freq
		}
	}
	return freq
}
