package arch

import "strings"

// readNemotronH: one letter a layer. The number of layers is that of the letters; num_hidden_layers may be missing.
func readNemotronH(c *hfConfig, m *Model) {
	m.Kind, m.Launcher = Hybrid, "pretrain_hybrid.py"
	m.HybridLayerPattern = c.pattern("hybrid_override_pattern", "layers_block_type")
	m.NumLayers = len(m.HybridLayerPattern)
	if n, ok := c.integer("num_layers", "num_hidden_layers"); ok && n != m.NumLayers {
		c.fail("num_hidden_layers", "%d, but the layer pattern has %d", n, m.NumLayers)
	}
	c.shape(m)
	c.grouped(m)
	m.Activation = SquaredReLU
	if act := c.text("activation", "relu2", "mlp_hidden_act"); act != "relu2" {
		c.fail("mlp_hidden_act", "%q is not read for Nemotron-H", act)
	}
	c.refuse("biases are not read for Nemotron-H", "attention_bias", "mlp_bias", "use_bias", "mamba_proj_bias")
	c.refuse("windowed attention is not read for Nemotron-H", "sliding_window")
	c.skip("Megatron-LM's convolution has its bias", "use_conv_bias")
	c.skip("the Mamba mixer's own", "mamba_hidden_act", "hidden_act", "expand", "norm_eps", "rms_norm_eps", "intermediate_size_mlp", "mamba_d_ssm")
	has := func(letter string) bool { return strings.Contains(m.HybridLayerPattern, letter) }
	if has("M") {
		m.Mamba = &Mamba{
			NumHeads: c.must("mamba_num_heads", "mamba_num_heads"), HeadDim: c.must("mamba_head_dim", "mamba_head_dim"),
			StateDim: c.must("mamba_state_dim", "ssm_state_size", "mamba_d_state"), NumGroups: c.must("mamba_num_groups", "n_groups", "mamba_n_groups"),
			ConvKernel: c.or("mamba conv kernel", 4, "not given: the mixer's default", "conv_kernel", "mamba_d_conv"),
		}
	} else {
		c.skip("the pattern has no Mamba layer", "mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups", "conv_kernel")
	}
	if has("E") {
		c.nemotronExperts(m)
	}
	m.FFNHiddenSize = c.optional("ffn_hidden_size", "intermediate_size")
	if m.FFNHiddenSize == 0 && m.MoE != nil && !has("-") {
		m.FFNHiddenSize = m.MoE.FFNHiddenSize
	}
	c.mtp(m)
	m.MTPHybridPattern = c.givenPattern("mtp_hybrid_override_pattern", "mtp_layers_block_type")
	if m.MTPHybridPattern == "" && m.MTPNumLayers > 0 {
		c.fail("mtp_hybrid_override_pattern", "missing, and there are MTP layers")
	}
	c.more = append(c.more, "--use-fused-weighted-squared-relu")
}

func (c *hfConfig) nemotronExperts(m *Model) {
	e := c.experts(m)
	e.FFNHiddenSize = c.must("moe_ffn_hidden_size", "moe_intermediate_size")
	e.SharedFFNSize = c.optional("moe_shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")
	if n, ok := c.integer("number of shared experts", "n_shared_experts"); ok {
		if n > maxSize {
			c.fail("n_shared_experts", "%d is too many", n)
			return
		}
		e.SharedFFNSize *= n
	}
	e.LatentSize = c.optional("moe_latent_size", "moe_latent_size")
	e.RouterScoreFunction, e.RouterExpertBias = "sigmoid", true
	e.RouterScalingFactor = c.float("moe_router_topk_scaling_factor", 0, "routed_scaling_factor")
	c.routerGroups(e)
	c.auxLoss(e, "seq_aux_loss", 0.0001)
	c.skip("Megatron-LM normalises with the score function", "norm_topk_prob")
	c.skip("overlap and implementation", "moe_shared_expert_overlap")
}

// pattern reads the layers as letters or as a list of names; where both are given they must agree.
func (c *hfConfig) pattern(letters, names string) string {
	p := c.givenPattern(letters, names)
	if p == "" && c.err == nil {
		c.fail(letters, "missing, and %s too: the layers cannot be guessed", names)
	}
	return p
}

// givenPattern is pattern where there may be none.
func (c *hfConfig) givenPattern(letters, names string) string {
	text := c.text("hybrid_layer_pattern", "", letters)
	list, listed := c.texts("hybrid_layer_pattern", names)
	if c.err != nil {
		return ""
	}
	for i := range len(text) {
		if !strings.ContainsRune("M*E-", rune(text[i])) {
			c.fail(letters, "%q at %d is none of M * E -", text[i:i+1], i+1)
			return ""
		}
	}
	if listed {
		letterOf := map[string]byte{"mamba": 'M', "attention": '*', "moe": 'E', "mlp": '-'}
		built := make([]byte, len(list))
		for i, k := range list {
			if built[i] = letterOf[k]; built[i] == 0 {
				c.fail(names, "layer %d is %q; mamba, attention, moe and mlp are read", i, shortText(k))
				return ""
			}
		}
		if text != "" && text != string(built) {
			c.fail(names, "%d layers %s contradict %s, which has %d: %s", len(built), shortText(string(built)), letters, len(text), shortText(text))
			return ""
		}
		text = string(built)
	}
	if len(text) > MaxLayers {
		c.fail(letters, "more than %d layers", MaxLayers)
		return ""
	}
	return text
}
