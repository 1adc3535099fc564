package arch

// readOlmoe: intermediate_size is the experts' width; query and key norms span all heads.
func readOlmoe(c *hfConfig, m *Model) {
	c.decoder(m)
	c.grouped(m)
	c.silu()
	c.qkvBias(m, true, "attention_bias")
	m.QKNorm = FullDimQKNorm
	c.refuse("clipping of queries, keys and values has no flag", "clip_qkv")
	e := c.experts(m)
	e.FFNHiddenSize = c.must("moe_ffn_hidden_size", "intermediate_size")
	m.FFNHiddenSize = e.FFNHiddenSize
	e.RouterPreSoftmax = !c.boolean("router_pre_softmax is its contrary", false, "norm_topk_prob")
	c.auxLoss(e, "seq_aux_loss", 0.01)
}

// readMiniMaxM2: intermediate_size is the experts' width; part of each head rotates; MTP modules are not mapped.
func readMiniMaxM2(c *hfConfig, m *Model) {
	c.decoder(m)
	c.grouped(m)
	c.silu()
	c.qkvBias(m, true, "attention_bias")
	if c.boolean("qk_norm", true, "use_qk_norm") {
		m.QKNorm = FullDimQKNorm
		if c.text("qk_norm", "per_layer", "qk_norm_type") == "per_layer" {
			m.QKNorm = FullDimQKNormPerLayer
		}
	}
	e := c.experts(m)
	e.FFNHiddenSize = c.must("moe_ffn_hidden_size", "intermediate_size")
	m.FFNHiddenSize = e.FFNHiddenSize
	c.refuse("a shared expert is not read for MiniMax-M2", "shared_intermediate_size")
	c.scoreFunction(e, "sigmoid")
	e.RouterExpertBias = c.boolean("moe_router_enable_expert_bias", true, "use_routing_bias")
	c.auxLoss(e, "aux_loss", 0.001)
	if n := c.optional("rotary_percent", "rotary_dim"); n > 0 && m.KVChannels > 0 {
		c.rope.percent = float64(n) / float64(m.KVChannels)
	}
	if kinds, full, ok := c.get("attn_type_list"); ok {
		list, isList := kinds.([]any)
		if !isList {
			c.fail(full, "%s is not a list", textOf(kinds))
		}
		for _, k := range list {
			if n, ok := whole(k); !ok || n != 1 {
				c.fail(full, "linear attention layers are not read for MiniMax-M2")
			}
		}
		c.note(full, kinds, "full attention everywhere")
	}
	c.skip("Megatron-Bridge does not map MiniMax's MTP modules: not counted", "use_mtp", "num_mtp_modules", "mtp_transformer_layers",
		"num_nextn_predict_layers", "mtp_num_hidden_layers")
	c.skip("no part of this layer's shape", "layernorm_full_attention_beta", "layernorm_linear_attention_beta", "layernorm_mlp_beta",
		"layernorm_full_attention_alpha", "layernorm_linear_attention_alpha", "layernorm_mlp_alpha", "shared_moe_mode", "postnorm")
}
