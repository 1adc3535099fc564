package arch

import "strconv"

// readGptOss: intermediate_size is the experts' width, biases everywhere, a sink per head, every second layer windowed.
func readGptOss(c *hfConfig, m *Model) {
	c.decoder(m)
	c.grouped(m)
	if act := c.text("activation", "silu", "hidden_act"); act != "silu" {
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
