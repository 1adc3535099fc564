package arch

func readLlama(c *hfConfig, m *Model) {
	c.decoder(m)
	c.grouped(m)
	c.silu()
	c.dense(m)
	attention := c.boolean("linear_bias", false, "attention_bias")
	mlp := c.boolean("linear_bias", false, "mlp_bias")
	if attention != mlp {
		c.fail("attention_bias", "%t with mlp_bias %t: Megatron-LM has biases on all linear layers or none", attention, mlp)
	}
	m.LinearBias, m.QKVBias = attention, attention
	c.fullAttention()
}

// readMixtral: intermediate_size is the experts' width and there is no dense layer.
func readMixtral(c *hfConfig, m *Model) {
	c.decoder(m)
	c.grouped(m)
	c.silu()
	e := c.experts(m)
	e.FFNHiddenSize = c.must("moe_ffn_hidden_size", "intermediate_size")
	m.FFNHiddenSize = e.FFNHiddenSize
	c.auxLoss(e, "aux_loss", 0.01)
	if w := c.optional("window", "sliding_window"); w > 0 {
		m.SlidingWindow = slidingWindow(w, 0)
	}
}

// readLlama4: intermediate_size is the width of routed and shared expert, intermediate_size_mlp that of dense layers.
func readLlama4(c *hfConfig, m *Model) {
	c.decoder(m)
	c.grouped(m)
	c.silu()
	c.qkvBias(m, true, "attention_bias")
	if c.boolean("qk_norm", true, "use_qk_norm") {
		m.QKNorm = L2QKNorm
	}
	e := c.experts(m)
	e.FFNHiddenSize = c.must("moe_ffn_hidden_size and the shared expert", "intermediate_size")
	e.SharedFFNSize = e.FFNHiddenSize
	e.RouterScoreFunction, e.RouterScalingFactor = "sigmoid", 1
	c.auxLoss(e, "seq_aux_loss", 0.001)
	step := c.or("interleave_moe_layer_step", 1, "not given: every layer is MoE", "interleave_moe_layer_step")
	if step < 1 && c.err == nil {
		c.fail("interleave_moe_layer_step", "%d is below 1", step)
	}
	if c.err == nil {
		c.frequency(m, func(i int) bool { return (i+1)%step == 0 })
		if list := c.layers("MoE layers", "moe_layers", m.NumLayers); list != nil {
			c.frequency(m, func(i int) bool { return list[i] })
		}
	}
	m.FFNHiddenSize = c.must("ffn_hidden_size", "intermediate_size_mlp")
	c.skip("chunked attention has no Megatron-LM flag; planned as full attention", "attention_chunk_size", "layer_types")
	c.skip("which layers have no positions changes no shape", "no_rope_layers", "no_rope_layer_interval")
	c.skip("a scale at inference", "attn_temperature_tuning", "floor_scale", "attn_scale")
	c.skip("Llama 4 is planned without it", "for_llm_compressor")
	c.more = append(c.more, "--no-rope-freq", "4", "--moe-apply-probs-on-input", "--rotary-interleaved")
}
