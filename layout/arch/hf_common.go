package arch

import (
	"encoding/json"
	"strconv"
)

// decoder reads what every architecture has.
func (c *hfConfig) decoder(m *Model) {
	m.NumLayers = c.must("num_layers", "num_hidden_layers", "n_layer", "num_layers", "n_layers")
	c.shape(m)
}

// shape is decoder without the number of layers.
func (c *hfConfig) shape(m *Model) {
	m.HiddenSize = c.must("hidden_size", "hidden_size")
	m.NumAttentionHeads = c.must("num_attention_heads", "num_attention_heads")
	m.VocabSize = c.must("vocab_size", "vocab_size")
	m.MaxPositionEmbeddings = c.optional("max_position_embeddings", "max_position_embeddings")
	if v, full, ok := c.first("rms_norm_eps", "layer_norm_epsilon", "norm_eps"); ok {
		n, isNumber := v.(json.Number)
		if !isNumber {
			c.fail(full, "%s is not a number", textOf(v))
		}
		c.eps = n.String()
		c.note(full, v, "norm_epsilon")
	}
	if _, _, ok := c.first("tie_word_embeddings"); ok {
		m.TiedEmbeddings = c.boolean("tied_embeddings", false, "tie_word_embeddings")
	} else {
		c.assume("tied_embeddings", false, "not given; untied in all architectures that are read here")
	}
	c.readRope()
}

// grouped reads the sizes of grouped-query attention.
func (c *hfConfig) grouped(m *Model) {
	m.NumQueryGroups = c.or("num_query_groups", m.NumAttentionHeads, "not given: as many as attention heads", "num_key_value_heads")
	if n, ok := c.integer("kv_channels", "head_dim", "attention_head_dim"); ok && n > 0 {
		m.KVChannels = n
		return
	}
	if c.err != nil || m.NumAttentionHeads < 1 {
		return
	}
	if m.HiddenSize%m.NumAttentionHeads != 0 {
		c.fail("head_dim", "missing, and hidden_size %d is no multiple of %d heads", m.HiddenSize, m.NumAttentionHeads)
		return
	}
	m.KVChannels = m.HiddenSize / m.NumAttentionHeads
	c.assume("kv_channels", m.KVChannels, "head_dim is not given: hidden_size / num_attention_heads")
}

// silu checks that the activation is the gated one that all these models share.
func (c *hfConfig) silu() {
	if act := c.text("activation", "silu", "hidden_act", "hidden_activation"); act != "silu" && act != "swish" {
		c.fail("hidden_act", "%q: only silu (swiglu) is read for %s", act, c.imported.Architecture)
	}
}

// qkvBias reads a bias on queries, keys and values. Hugging Face's attention_bias also gives the output projection one in
// most architectures, which Megatron-LM has only together with biases everywhere.
func (c *hfConfig) qkvBias(m *Model, output bool, keys ...string) {
	m.QKVBias = c.boolean("qkv_bias", false, keys...)
	if m.QKVBias && output {
		c.fail(keys[0], "true: a bias on the output projection alone cannot be represented")
	}
}

// fullAttention refuses windows, unless every layer is said to attend to everything.
func (c *hfConfig) fullAttention() {
	if kinds, ok := c.texts("layer kinds", "layer_types"); ok {
		for _, k := range kinds {
			if k != "full_attention" {
				c.fail("layer_types", "%q layers are not read for %s", k, c.imported.Architecture)
				return
			}
		}
		c.skip("every layer is full_attention", "sliding_window", "use_sliding_window", "max_window_layers")
		return
	}
	if v, full, ok := c.get("use_sliding_window"); ok && v == false {
		c.ignore(full, v, "off")
		c.skip("use_sliding_window is false", "sliding_window", "max_window_layers")
		return
	}
	c.refuse("windowed attention on some layers is not read for this architecture", "use_sliding_window")
	c.refuse("windowed attention is not read for this architecture", "sliding_window")
	c.skip("without use_sliding_window it has no effect", "max_window_layers")
}

// mtp reads the number of multi-token-prediction layers under any of its names, in either group.
func (c *hfConfig) mtp(m *Model) {
	m.MTPNumLayers = c.optional("mtp_num_layers", "num_nextn_predict_layers", "mtp_num_hidden_layers", "mtp_num_layers")
	c.skip("Megatron-LM shares the embeddings of MTP layers", "mtp_use_dedicated_embeddings")
}

// experts starts the MoE part: how many, how many per token, under any of their names.
func (c *hfConfig) experts(m *Model) *MoE {
	e := &MoE{RouterScoreFunction: "softmax", LoadBalancing: "aux_loss", AuxLossCoeff: 0.001, LayerFreq: "1"}
	e.NumExperts = c.must("num_experts", "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
	e.TopK = c.must("moe_router_topk", "num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_topk")
	m.MoE = e
	return e
}

// auxLoss notes how balance is kept; config.json files name a coefficient only.
func (c *hfConfig) auxLoss(e *MoE, kind string, coeff float64) {
	e.LoadBalancing = kind
	e.AuxLossCoeff = c.float("moe_aux_loss_coeff", coeff, "aux_loss_alpha", "router_aux_loss_coef")
	if kind == "none" {
		e.AuxLossCoeff = 0
	}
}

// dense reads the width of dense MLP layers. Where no layer is dense it may be missing.
func (c *hfConfig) dense(m *Model) {
	some := true
	if m.MoE != nil {
		some = false
		if list, err := m.MoE.LayerFreq.Expand(m.NumLayers); err == nil {
			for _, moe := range list {
				some = some || !moe
			}
		}
	}
	if some {
		m.FFNHiddenSize = c.must("ffn_hidden_size", "intermediate_size")
		return
	}
	if m.FFNHiddenSize = c.optional("ffn_hidden_size (no layer is dense)", "intermediate_size"); m.FFNHiddenSize == 0 && c.err == nil {
		m.FFNHiddenSize = m.MoE.FFNHiddenSize
		c.assume("ffn_hidden_size", m.FFNHiddenSize, "not given; no layer is dense, so it has no effect")
	}
}

// leadingDense is first_k_dense_replace with moe_layer_freq: layer i is MoE from the k-th on, if i is a multiple of freq.
func (c *hfConfig) leadingDense(m *Model) {
	k := c.or("leading dense layers", 0, "first_k_dense_replace is not given", "first_k_dense_replace")
	freq := 1
	if v, full, ok := c.get("moe_layer_freq"); ok {
		if list, isList := v.([]any); isList {
			c.note(full, v, "moe_layer_freq")
			c.frequencyList(m, full, list)
			return
		}
		freq, _ = c.integer("moe_layer_freq", "moe_layer_freq")
		if freq < 1 {
			c.fail(full, "%s is below 1", textOf(v))
			return
		}
	}
	if c.err != nil {
		return
	}
	if k > m.NumLayers {
		c.fail("first_k_dense_replace", "%d is more than the %d layers", k, m.NumLayers)
		return
	}
	c.frequency(m, func(i int) bool { return i >= k && i%freq == 0 })
}

// frequencyList is an explicit list of zeros and ones.
func (c *hfConfig) frequencyList(m *Model, full string, list []any) {
	if len(list) != m.NumLayers {
		c.fail(full, "%d entries for %d layers", len(list), m.NumLayers)
		return
	}
	for _, v := range list {
		if n, ok := whole(v); !ok || n > 1 {
			c.fail(full, "%s is neither 0 nor 1", textOf(v))
			return
		}
	}
	c.frequency(m, func(i int) bool { n, _ := whole(list[i]); return n == 1 })
}

// frequency writes which layers are MoE in the shortest form that --moe-layer-freq has.
func (c *hfConfig) frequency(m *Model, moe func(i int) bool) {
	if c.err != nil || m.NumLayers < 1 || m.NumLayers > MaxLayers {
		return
	}
	digit := func(i int) byte {
		if moe(i) {
			return '1'
		}
		return '0'
	}
	m.MoE.LayerFreq = layerFreqOf(m.NumLayers, digit)
}

func layerFreqOf(n int, digit func(int) byte) LayerFreq {
	// A short period: [0,1] * 24.
	for period := 2; period <= 8 && period < n; period++ {
		if n%period != 0 || !periodic(n, period, digit) || uniform(period, digit) {
			continue
		}
		text := "(["
		for i := range period {
			if i > 0 {
				text += ","
			}
			text += string(digit(i))
		}
		return LayerFreq(text + "]*" + strconv.Itoa(n/period) + ")")
	}
	if uniform(n, digit) && digit(0) == '1' {
		return "1"
	}
	// Runs: [0]*3 + [1]*58.
	text, start := "(", 0
	for i := 1; i <= n; i++ {
		if i < n && digit(i) == digit(start) {
			continue
		}
		if start > 0 {
			text += "+"
		}
		text += "[" + string(digit(start)) + "]*" + strconv.Itoa(i-start)
		start = i
	}
	return LayerFreq(text + ")")
}

func periodic(n, period int, digit func(int) byte) bool {
	for i := period; i < n; i++ {
		if digit(i) != digit(i-period) {
			return false
		}
	}
	return true
}

func uniform(n int, digit func(int) byte) bool {
	for i := 1; i < n; i++ {
		if digit(i) != digit(0) {
			return false
		}
	}
	return true
}
