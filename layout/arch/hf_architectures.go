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
	for _, group := range []map[string]any{c.top, c.language} {
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
