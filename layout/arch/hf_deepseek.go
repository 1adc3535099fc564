package arch

// latent reads multi-latent attention. q_lora_rank null means that queries are projected directly.
func (c *hfConfig) latent(m *Model) {
	m.MLA = &MLA{
		QLoraRank:       c.optional("q_lora_rank", "q_lora_rank"),
		KVLoraRank:      c.must("kv_lora_rank", "kv_lora_rank"),
		QKHeadDim:       c.must("qk_head_dim", "qk_nope_head_dim"),
		QKPosEmbHeadDim: c.must("qk_pos_emb_head_dim", "qk_rope_head_dim"),
		VHeadDim:        c.must("v_head_dim", "v_head_dim"),
	}
	m.QKNorm = MLALatentNorm
	m.NumQueryGroups, m.KVChannels = m.NumAttentionHeads, m.MLA.QKHeadDim
	c.skip("multi-latent attention has no key-value heads", "num_key_value_heads", "head_dim", "qk_head_dim")
	c.refuse("a bias on latent projections is not read", "attention_bias")
}

// sharedExperts multiplies: all shared experts together are one MLP.
func (c *hfConfig) sharedExperts(m *Model, width int) {
	n := c.or("number of shared experts", 0, "not given: none", "n_shared_experts", "num_shared_experts")
	if n > maxSize {
		c.fail("n_shared_experts", "%d is too many", n)
		return
	}
	m.MoE.SharedFFNSize = n * width
}

func (c *hfConfig) routerGroups(e *MoE) {
	e.RouterNumGroups = c.optional("moe_router_num_groups", "n_group")
	e.RouterGroupTopK = c.optional("moe_router_group_topk", "topk_group")
}

func (c *hfConfig) deepseek(m *Model) *MoE {
	c.decoder(m)
	c.latent(m)
	c.silu()
	e := c.experts(m)
	e.FFNHiddenSize = c.must("moe_ffn_hidden_size", "moe_intermediate_size")
	c.sharedExperts(m, e.FFNHiddenSize)
	e.RouterScalingFactor = c.float("moe_router_topk_scaling_factor", 0, "routed_scaling_factor")
	e.RouterPreSoftmax = true
	c.skip("Megatron-LM normalises with the score function", "norm_topk_prob")
	c.leadingDense(m)
	c.dense(m)
	return e
}

func readDeepseekV2(c *hfConfig, m *Model) {
	e := c.deepseek(m)
	c.scoreFunction(e, "softmax")
	c.auxLoss(e, "seq_aux_loss", 0.001)
	switch method := c.text("group-limited routing", "", "topk_method"); method {
	case "group_limited_greedy":
		c.routerGroups(e)
	case "", "greedy":
		c.skip("routing is greedy over all experts", "n_group", "topk_group")
	default:
		c.fail("topk_method", "%q is not read for DeepSeek-V2", method)
	}
}

func readDeepseekV3(c *hfConfig, m *Model) {
	e := c.deepseek(m)
	c.scoreFunction(e, "sigmoid")
	e.RouterExpertBias = true
	if method := c.text("moe_router_enable_expert_bias", "noaux_tc", "topk_method"); method != "noaux_tc" {
		c.fail("topk_method", "%q is not read for DeepSeek-V3", method)
	}
	c.auxLoss(e, "seq_aux_loss", 0.0001)
	c.routerGroups(e)
	c.mtp(m)
	c.refuse("its sparse attention has an indexer of its own (DSA)", "index_n_heads", "index_head_dim", "index_topk")
}

func (c *hfConfig) scoreFunction(e *MoE, missing string) {
	e.RouterScoreFunction = c.text("moe_router_score_function", missing, "scoring_func", "score_function", "moe_router_score_function")
	if e.RouterScoreFunction != "softmax" && e.RouterScoreFunction != "sigmoid" {
		c.fail("scoring_func", "%q is neither softmax nor sigmoid", e.RouterScoreFunction)
	}
}

// readGlm4Moe: biases on queries, keys and values only; use_qk_norm decides per model.
func readGlm4Moe(c *hfConfig, m *Model) {
	c.decoder(m)
	c.grouped(m)
	c.silu()
	c.qkvBias(m, false, "attention_bias")
	if c.boolean("qk_norm", false, "use_qk_norm") {
		m.QKNorm = PerHeadQKNorm
	}
	e := c.experts(m)
	e.FFNHiddenSize = c.must("moe_ffn_hidden_size", "moe_intermediate_size")
	c.sharedExperts(m, e.FFNHiddenSize)
	c.scoreFunction(e, "sigmoid")
	e.RouterExpertBias = true
	e.RouterScalingFactor = c.float("moe_router_topk_scaling_factor", 0, "routed_scaling_factor")
	c.auxLoss(e, "seq_aux_loss", 0.001)
	c.skip("Megatron-LM normalises with the score function", "norm_topk_prob")
	if groups := c.optional("moe_router_num_groups", "n_group"); groups > 1 {
		e.RouterNumGroups, e.RouterGroupTopK = groups, c.must("moe_router_group_topk", "topk_group")
	} else {
		c.skip("one group is no group", "topk_group")
	}
	c.leadingDense(m)
	c.dense(m)
	c.mtp(m)
}

// readBailing is Ling and Ring 2.0.
func readBailing(c *hfConfig, m *Model) {
	c.decoder(m)
	c.grouped(m)
	c.silu()
	c.qkvBias(m, false, "use_qkv_bias")
	c.refuse("a bias on the output projection alone cannot be represented", "use_bias")
	if c.boolean("qk_norm", false, "use_qk_norm") {
		m.QKNorm = PerHeadQKNorm
	}
	e := c.experts(m)
	e.FFNHiddenSize = c.must("moe_ffn_hidden_size", "moe_intermediate_size")
	if n, ok := c.integer("moe_shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"); ok {
		e.SharedFFNSize = n
		c.skip("moe_shared_expert_intermediate_size is the whole", "num_shared_experts", "n_shared_experts")
	} else {
		c.sharedExperts(m, e.FFNHiddenSize)
	}
	c.scoreFunction(e, "sigmoid")
	e.RouterExpertBias = c.boolean("moe_router_enable_expert_bias", true, "moe_router_enable_expert_bias")
	e.RouterPreSoftmax = true
	e.RouterScalingFactor = c.float("moe_router_topk_scaling_factor", 0, "routed_scaling_factor")
	c.routerGroups(e)
	e.LoadBalancing, e.AuxLossCoeff = "none", 0
	c.skip("Megatron-LM normalises with the score function", "norm_topk_prob")
	c.skip("follows from moe_router_enable_expert_bias", "router_type", "use_rmsnorm")
	c.leadingDense(m)
	c.dense(m)
	c.fullAttention()
	c.mtp(m)
}
