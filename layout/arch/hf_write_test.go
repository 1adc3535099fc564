package arch

import (
	"encoding/json"
)

// hfObject is a configuration under construction.
type hfObject map[string]any

func (o hfObject) String() string {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// hfOf writes a catalogue model as Hugging Face does, with that family's own names and oddities.
func hfOf(m *Model) hfObject {
	o := hfObject{
		"architectures": []string{m.Architecture}, "hidden_size": m.HiddenSize, "num_hidden_layers": m.NumLayers,
		"num_attention_heads": m.NumAttentionHeads, "num_key_value_heads": m.NumQueryGroups, "vocab_size": m.VocabSize,
		"tie_word_embeddings": m.TiedEmbeddings, "hidden_act": "silu", "torch_dtype": "bfloat16", "use_cache": true,
		"initializer_range": 0.02, "bos_token_id": 1, "transformers_version": "4.57.0", "rope_scaling": nil, "sliding_window": nil,
		"head_dim": m.KVChannels, "attention_bias": false,
	}
	if m.MaxPositionEmbeddings > 0 {
		o["max_position_embeddings"] = m.MaxPositionEmbeddings
	}
	set := func(pairs ...any) {
		for i := 0; i < len(pairs); i += 2 {
			o[pairs[i].(string)] = pairs[i+1]
		}
	}
	e := m.MoE
	if e != nil {
		set("num_experts_per_tok", e.TopK, "moe_intermediate_size", e.FFNHiddenSize, "intermediate_size", m.FFNHiddenSize)
		if e.AuxLossCoeff > 0 {
			set("router_aux_loss_coef", e.AuxLossCoeff)
		}
	} else {
		set("intermediate_size", m.FFNHiddenSize)
	}
	firstDense := func() int {
		n := 0
		for _, l := range m.Layers() {
			if l.Feedforward == DenseMLP {
				n++
			}
		}
		return n
	}
	switch m.Architecture {
	case "LlamaForCausalLM":
		delete(o, "head_dim") // older files have none
		set("mlp_bias", false, "rope_theta", 500000.0, "rope_scaling", hfObject{"rope_type": "llama3", "factor": 8.0})
	case "Qwen3ForCausalLM":
		set("use_sliding_window", false, "max_window_layers", 64)
	case "MixtralForCausalLM":
		delete(o, "moe_intermediate_size")
		delete(o, "head_dim")
		set("num_local_experts", e.NumExperts, "intermediate_size", e.FFNHiddenSize)
	case "Qwen2MoeForCausalLM":
		delete(o, "attention_bias")
		set("num_experts", e.NumExperts, "shared_expert_intermediate_size", e.SharedFFNSize, "norm_topk_prob", !e.RouterPreSoftmax,
			"decoder_sparse_step", 1, "mlp_only_layers", []int{}, "use_sliding_window", false, "sliding_window", 65536, "max_window_layers", 28)
	case "Qwen3MoeForCausalLM":
		set("num_experts", e.NumExperts, "norm_topk_prob", !e.RouterPreSoftmax, "decoder_sparse_step", 1, "mlp_only_layers", []int{})
	case "Qwen3NextForCausalLM":
		a := m.LinearAttention
		kinds := make([]string, m.NumLayers)
		for i := range kinds {
			kinds[i] = "linear_attention"
			if (i+1)%a.Freq == 0 {
				kinds[i] = "full_attention"
			}
		}
		set("num_experts", e.NumExperts, "norm_topk_prob", true, "shared_expert_intermediate_size", e.SharedFFNSize, "layer_types", kinds,
			"linear_conv_kernel_dim", a.ConvKernelDim, "linear_key_head_dim", a.KeyHeadDim, "linear_value_head_dim", a.ValueHeadDim,
			"linear_num_key_heads", a.NumKeyHeads, "linear_num_value_heads", a.NumValueHeads, "mtp_num_hidden_layers", m.MTPNumLayers,
			"partial_rotary_factor", 0.25, "mlp_only_layers", nil)
	case "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM":
		a := m.MLA
		delete(o, "head_dim")
		set("n_routed_experts", e.NumExperts, "n_shared_experts", e.SharedFFNSize/e.FFNHiddenSize, "first_k_dense_replace", firstDense(),
			"moe_layer_freq", 1, "q_lora_rank", nil, "kv_lora_rank", a.KVLoraRank, "qk_nope_head_dim", a.QKHeadDim,
			"qk_rope_head_dim", a.QKPosEmbHeadDim, "v_head_dim", a.VHeadDim, "scoring_func", e.RouterScoreFunction,
			"routed_scaling_factor", e.RouterScalingFactor, "norm_topk_prob", true, "ep_size", 1,
			"num_nextn_predict_layers", m.MTPNumLayers, "n_group", max(1, e.RouterNumGroups), "topk_group", max(1, e.RouterGroupTopK))
		if a.QLoraRank > 0 {
			set("q_lora_rank", a.QLoraRank)
		}
		set("topk_method", "noaux_tc")
		if m.Architecture == "DeepseekV2ForCausalLM" {
			delete(o, "num_nextn_predict_layers")
			set("topk_method", "greedy")
			if e.RouterNumGroups > 0 {
				set("topk_method", "group_limited_greedy")
			}
		} else {
			set("quantization_config", hfObject{"quant_method": "fp8", "weight_block_size": []int{128, 128}})
		}
	case "Glm4MoeForCausalLM":
		set("n_routed_experts", e.NumExperts, "n_shared_experts", 1, "first_k_dense_replace", firstDense(), "use_qk_norm", m.QKNorm != NoQKNorm,
			"attention_bias", m.QKVBias, "routed_scaling_factor", e.RouterScalingFactor, "n_group", 1, "topk_group", 1, "norm_topk_prob", true,
			"num_nextn_predict_layers", m.MTPNumLayers, "partial_rotary_factor", 0.5)
	case "GptOssForCausalLM":
		delete(o, "moe_intermediate_size")
		kinds := make([]string, m.NumLayers)
		for i := range kinds {
			kinds[i] = []string{"sliding_attention", "full_attention"}[i%2]
		}
		set("num_local_experts", e.NumExperts, "experts_per_token", e.TopK, "intermediate_size", e.FFNHiddenSize, "attention_bias", true,
			"sliding_window", m.SlidingWindow.Window, "layer_types", kinds, "swiglu_limit", 7.0, "initial_context_length", 4096,
			"rope_theta", 150000, "rope_scaling", hfObject{"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false, "original_max_position_embeddings": 4096})
	case "Llama4ForConditionalGeneration":
		delete(o, "moe_intermediate_size")
		step := 1
		if e.LayerFreq != "1" {
			step = 2
		}
		set("num_local_experts", e.NumExperts, "intermediate_size", e.FFNHiddenSize, "intermediate_size_mlp", m.FFNHiddenSize,
			"interleave_moe_layer_step", step, "use_qk_norm", m.QKNorm == L2QKNorm, "attention_chunk_size", 8192, "no_rope_layers", []int{1, 1, 1, 0})
		delete(o, "architectures")
		return hfObject{"architectures": []string{m.Architecture}, "text_config": o, "vision_config": hfObject{"hidden_size": 1408}, "model_type": "llama4"}
	case "NemotronHForCausalLM":
		delete(o, "hidden_act")
		delete(o, "num_hidden_layers") // as in the published files
		set("hybrid_override_pattern", m.HybridLayerPattern, "mlp_hidden_act", "relu2", "n_routed_experts", e.NumExperts, "n_shared_experts", 1,
			"moe_shared_expert_intermediate_size", e.SharedFFNSize, "moe_latent_size", e.LatentSize, "n_group", 1, "topk_group", 1,
			"routed_scaling_factor", e.RouterScalingFactor, "norm_topk_prob", true, "mamba_num_heads", m.Mamba.NumHeads,
			"mamba_head_dim", m.Mamba.HeadDim, "ssm_state_size", m.Mamba.StateDim, "n_groups", m.Mamba.NumGroups, "conv_kernel", m.Mamba.ConvKernel,
			"num_nextn_predict_layers", m.MTPNumLayers, "mtp_hybrid_override_pattern", m.MTPHybridPattern, "use_conv_bias", true, "use_bias", false)
	case "OlmoeForCausalLM":
		delete(o, "moe_intermediate_size")
		delete(o, "head_dim")
		set("num_experts", e.NumExperts, "intermediate_size", e.FFNHiddenSize, "norm_topk_prob", false, "clip_qkv", nil)
	case "MiniMaxM2ForCausalLM":
		delete(o, "moe_intermediate_size")
		ones := make([]int, m.NumLayers)
		for i := range ones {
			ones[i] = 1
		}
		set("num_local_experts", e.NumExperts, "intermediate_size", e.FFNHiddenSize, "scoring_func", "sigmoid", "use_routing_bias", true,
			"use_qk_norm", true, "qk_norm_type", "per_layer", "rotary_dim", 64, "shared_intermediate_size", 0, "attn_type_list", ones,
			"use_mtp", true, "num_mtp_modules", 3, "mtp_transformer_layers", 1)
	case "BailingMoeV2ForCausalLM":
		delete(o, "attention_bias")
		set("num_experts", e.NumExperts, "num_shared_experts", 1, "first_k_dense_replace", firstDense(), "use_qk_norm", true, "use_qkv_bias", false,
			"use_bias", false, "score_function", "sigmoid", "moe_router_enable_expert_bias", true, "num_nextn_predict_layers", 0, "norm_topk_prob", true)
		if e.RouterNumGroups > 0 {
			set("n_group", e.RouterNumGroups, "topk_group", e.RouterGroupTopK, "routed_scaling_factor", e.RouterScalingFactor)
		}
	}
	return o
}
