package arch

import (
	"strconv"
)

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
	switch method := c.text1("group-limited routing", "", "topk_method"); method {
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
	if method := c.text1("moe_router_enable_expert_bias", "noaux_tc", "topk_method"); method != "noaux_tc" {
		c.fail("topk_method", "%q is not read for DeepSeek-V3", method)
	}
	c.auxLoss(e, "seq_aux_loss", 0.0001)
	c.routerGroups(e)
	c.mtp(m)
	c.refuse("its sparse attention has an indexer of its own (DSA)", "index_n_heads", "index_head_dim", "index_topk")
}

func (c *hfConfig) scoreFunction(e *MoE, missing string) {
	e.RouterScoreFunction = c.text1("moe_router_score_function", missing, "scoring_func", "score_function", "moe_router_score_function")
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

// readGptOss: intermediate_size is the experts' width, biases everywhere, a sink per head, every second layer windowed.
func readGptOss(c *hfConfig, m *Model) {
	c.decoder(m)
	c.grouped(m)
	if act := c.text1("activation", "silu", "hidden_act"); act != "silu" {
		c.fail("hidden_act", "%q is not gpt-oss's", act)
	}
	m.Activation, m.LinearBias, m.QKVBias, m.SoftmaxType = QuickGEGLU, true, true, "learnable"
	if !c.boolean("linear_bias", true, "attention_bias") {
		c.fail("attention_bias", "false: gpt-oss has biases everywhere")
	}
	e := c.experts(m)
	e.FFNHiddenSize = c.must("moe_ffn_hidden_size", "intermediate_size")
	m.FFNHiddenSize = e.FFNHiddenSize
	e.LoadBalancing, e.AuxLossCoeff = "none", 0
	if w := c.optional("window", "sliding_window"); w > 0 {
		m.SlidingWindow = slidingWindow(w, 2)
		c.alternating(m)
	}
	limit := c.float("activation_func_clamp_value", 7, "swiglu_limit")
	c.more = append(c.more, "--glu-linear-offset", "1.0", "--activation-func-clamp-value", number(limit), "--no-bias-dropout-fusion", "--no-bias-gelu-fusion")
	c.skip("part of rope_scaling", "initial_context_length")
}

// slidingWindow attends to the token itself and window-1 before it.
func slidingWindow(window, skip int) *SlidingWindow {
	return &SlidingWindow{Window: window, Flag: "--window-size " + strconv.Itoa(window-1) + ",0", SkipFreq: skip}
}

// alternating checks that every second layer is full.
func (c *hfConfig) alternating(m *Model) {
	kinds, ok := c.texts("window_attn_skip_freq", "layer_types")
	if !ok {
		if c.err == nil {
			c.assume("window_attn_skip_freq", 2, "layer_types is not given: every second layer is full")
		}
		return
	}
	if len(kinds) != m.NumLayers {
		c.fail("layer_types", "%d entries for %d layers", len(kinds), m.NumLayers)
		return
	}
	for i, k := range kinds {
		if want := []string{"sliding_attention", "full_attention"}[i%2]; k != want {
			c.fail("layer_types", "layer %d is %q; only a window on every other layer, beginning with the first, can be represented", i, shortText(k))
			return
		}
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
		if c.text1("qk_norm", "per_layer", "qk_norm_type") == "per_layer" {
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
