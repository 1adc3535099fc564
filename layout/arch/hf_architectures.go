package arch

import (
	"slices"
	"strings"
)

// hfArchitecture is one entry of the table: what it is called, and how it is read.
type hfArchitecture struct {
	class     string // canonical value of architectures[0]
	others    []string
	types     []string // model_type
	vocabUnit int      // 0: by divisibility
	read      func(c *hfConfig, m *Model)
}

// hfArchitectures are those that are read, from layout-rules.md section 5.2.
var hfArchitectures = []*hfArchitecture{
	{class: "LlamaForCausalLM", types: []string{"llama"}, read: readLlama},
	{class: "Qwen2ForCausalLM", types: []string{"qwen2"}, read: readQwen2},
	{class: "Qwen3ForCausalLM", types: []string{"qwen3"}, read: readQwen3},
	{class: "MixtralForCausalLM", types: []string{"mixtral"}, read: readMixtral},
	{class: "Qwen2MoeForCausalLM", types: []string{"qwen2_moe"}, read: readQwen2Moe},
	{class: "Qwen3MoeForCausalLM", others: []string{"Qwen3VLMoeForConditionalGeneration"}, types: []string{"qwen3_moe", "qwen3_vl_moe", "qwen3_vl_moe_text"}, read: readQwen3Moe},
	{class: "Qwen3NextForCausalLM", types: []string{"qwen3_next"}, read: readQwen3Next},
	{
		class: "Qwen3_5MoeForConditionalGeneration", others: []string{"Qwen3_5MoeForCausalLM"},
		types: []string{"qwen3_5_moe", "qwen3_5_moe_text"}, read: readQwen3Next,
	},
	{class: "DeepseekV2ForCausalLM", types: []string{"deepseek_v2"}, vocabUnit: 3200, read: readDeepseekV2},
	{
		class: "DeepseekV3ForCausalLM", others: []string{"KimiK2ForCausalLM"}, types: []string{"deepseek_v3", "kimi_k2"},
		vocabUnit: 1280, read: readDeepseekV3,
	},
	{class: "Glm4MoeForCausalLM", types: []string{"glm4_moe"}, read: readGlm4Moe},
	{class: "Glm4MoeLiteForCausalLM", types: []string{"glm4_moe_lite"}, read: readDeepseekV3},
	{class: "GptOssForCausalLM", types: []string{"gpt_oss"}, read: readGptOss},
	{class: "Llama4ForConditionalGeneration", others: []string{"Llama4ForCausalLM"}, types: []string{"llama4", "llama4_text"}, read: readLlama4},
	{class: "NemotronHForCausalLM", types: []string{"nemotron_h"}, read: readNemotronH},
	{class: "OlmoeForCausalLM", types: []string{"olmoe"}, read: readOlmoe},
	{class: "MiniMaxM2ForCausalLM", types: []string{"minimax_m2"}, read: readMiniMaxM2},
	{class: "BailingMoeV2ForCausalLM", types: []string{"bailing_moe_v2"}, read: readBailing},
}

// refusedArchitectures are known, with what they have that Model has not.
var refusedArchitectures = map[string]string{
	"glm_moe_dsa": "its sparse attention has an indexer of its own (DSA)", "deepseek_v32": "its sparse attention has an indexer of its own (DSA)",
	"gemma3": "five windowed layers to a full one, norms behind each block and tied embeddings of another scale",
	"gemma2": "norms behind each block and logit caps", "gpt2": "learned positions and biases in its own arrangement",
	"phi3": "windowed attention with fused projections", "qwen2_vl": "a vision tower that is trained with the model",
	"jamba": "Mamba-1 layers", "mistral": "not among the architectures of the reference; its shapes are those of llama",
}

// architecture finds the entry by architectures[0] or model_type, of the wrapper or of its language model.
func (c *hfConfig) architecture() (*hfArchitecture, error) {
	var names []string
	add := func(v any) {
		if s, ok := v.(string); ok && s != "" && !slices.Contains(names, s) {
			names = append(names, s)
		}
	}
	for _, group := range []map[string]any{c.top, c.text} {
		if list, ok := group["architectures"].([]any); ok && len(list) > 0 {
			add(list[0])
		}
		add(group["model_type"])
	}
	if len(names) == 0 {
		return nil, &HFError{Name: c.name, Key: "architectures", Reason: "neither architectures nor model_type says what model this is"}
	}
	for _, n := range names {
		for _, a := range hfArchitectures {
			if a.class == n || slices.Contains(a.others, n) || slices.Contains(a.types, n) {
				return a, nil
			}
		}
	}
	for _, n := range names {
		if why, ok := refusedArchitectures[n]; ok {
			return nil, &HFError{Name: c.name, Key: "model_type", Reason: shortText(n) + " cannot be represented: " + why}
		}
	}
	known := make([]string, len(hfArchitectures))
	for i, a := range hfArchitectures {
		known[i] = strings.TrimSuffix(strings.TrimSuffix(a.class, "ForCausalLM"), "ForConditionalGeneration")
	}
	return nil, &HFError{Name: c.name, Key: "architectures", Reason: shortText(names[0]) + " is not read; those that are: " + strings.Join(known, ", ")}
}

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
