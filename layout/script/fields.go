package script

import (
	"strings"
)

// spelling says how Megatron-LM's command line spells a field of its configuration.
type spelling struct {
	flag string
	kind spellingKind
}

type spellingKind uint8

const (
	takesValue spellingKind = iota
	takesList               // several words
	takesFreq               // an integer, or a list as one word: --moe-layer-freq
	whenTrue                // present if true
	whenFalse               // present if false
	noEffect                // changes neither layout nor memory
)

// fields maps the configuration fields that the dialects share to Megatron-LM flags. A field that is not here and whose
// flag is its name with dashes is in sameName. Sources: layout-rules.md section 3.1 (renamed by metadata) and
// megatron-flags.json at NVIDIA/Megatron-LM@d98e8a64dd; the field names are those of ModelParallelConfig,
// TransformerConfig, DistributedDataParallelConfig and OptimizerConfig there.
var fields = withSameNames(map[string]spelling{
	"num_moe_experts":                      {"--num-experts", takesValue},
	"layernorm_epsilon":                    {"--norm-epsilon", takesValue},
	"layernorm_zero_centered_gamma":        {"--apply-layernorm-1p", whenTrue},
	"add_bias_linear":                      {"--disable-bias-linear", whenFalse},
	"gated_linear_unit":                    {"--swiglu", whenTrue},
	"share_embeddings_and_output_weights":  {"--untie-embeddings-and-output-weights", whenFalse},
	"tie_word_embeddings":                  {"--untie-embeddings-and-output-weights", whenFalse},
	"virtual_pipeline_model_parallel_size": {"--num-virtual-stages-per-pipeline-rank", takesValue},
	"num_layers_in_first_pipeline_stage":   {"--decoder-first-pipeline-num-layers", takesValue},
	"num_layers_in_last_pipeline_stage":    {"--decoder-last-pipeline-num-layers", takesValue},
	"microbatch_group_size_per_vp_stage":   {"--microbatch-group-size-per-virtual-pipeline-stage", takesValue},
	"fp8":                                  {"--fp8-format", takesValue},
	"fp8_param":                            {"--fp8-param-gather", whenTrue},
	"fp4":                                  {"--fp4-format", takesValue},
	"grad_reduce_in_fp32":                  {"--accumulate-allreduce-grads-in-fp32", whenTrue},
	"average_in_collective":                {"--ddp-average-in-collective", whenTrue},
	"bucket_size":                          {"--ddp-bucket-size", takesValue},
	"sequence_length":                      {"--seq-length", takesValue},
	"overlap_p2p_comm":                     {"--no-overlap-p2p-communication", whenFalse},
	"gradient_accumulation_fusion":         {"--no-gradient-accumulation-fusion", whenFalse},
	"masked_softmax_fusion":                {"--no-masked-softmax-fusion", whenFalse},
	"bias_dropout_fusion":                  {"--no-bias-dropout-fusion", whenFalse},
	"bias_activation_fusion":               {"--no-bias-swiglu-fusion", whenFalse},
	"apply_rope_fusion":                    {"--no-rope-fusion", whenFalse},
	"align_grad_reduce":                    {"--no-align-grad-reduce", whenFalse},
	"align_param_gather":                   {"--no-align-param-gather", whenFalse},
	"use_gloo_process_groups":              {"--disable-gloo-process-groups", whenFalse},
	"moe_layer_freq":                       {"--moe-layer-freq", takesFreq},
	"linear_attention_freq":                {"--linear-attention-freq", takesFreq},
	"window_attn_skip_freq":                {"--window-attn-skip-freq", takesFreq},
	"window_size":                          {"--window-size", takesValue},
	"cuda_graph_scope":                     {"--cuda-graph-scope", takesList},
	"recompute_modules":                    {"--recompute-modules", takesList},
	"offload_modules":                      {"--offload-modules", takesList},
	"cuda_graph_modules":                   {"--cuda-graph-modules", takesList},
	"cp_comm_type":                         {"--cp-comm-type", takesList},
	"hierarchical_context_parallel_sizes":  {"--hierarchical-context-parallel-sizes", takesList},
	"moe_router_load_balancing_type":       {"--moe-router-load-balancing-type", takesList},
	"moe_aux_loss_coeff":                   {"--moe-aux-loss-coeff", takesList},
	"cpu_offloading":                       {"", noEffect}, // cpu_offloading_num_layers says it
	"check_for_nan_in_grad":                {"", noEffect},
	"check_for_nan_in_loss":                {"", noEffect},
	"variable_seq_lengths":                 {"", noEffect},
	"manual_gc":                            {"", noEffect},
	"manual_gc_interval":                   {"", noEffect},
	"log_interval":                         {"", noEffect},
	"seed":                                 {"", noEffect},
	"lr":                                   {"--lr", takesValue},
	"min_lr":                               {"--min-lr", takesValue},
})

// sameName lists fields whose flag is the field's name with dashes: those with a value, then those without.
var sameName = map[spellingKind]string{
	takesValue: `tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size expert_model_parallel_size
		expert_tensor_parallel_size num_layers_per_virtual_pipeline_stage num_virtual_stages_per_pipeline_rank
		decoder_first_pipeline_num_layers decoder_last_pipeline_num_layers pipeline_model_parallel_layout
		micro_batch_size global_batch_size seq_length train_iters max_position_embeddings num_distributed_optimizer_instances
		num_layers hidden_size ffn_hidden_size num_attention_heads num_query_groups kv_channels num_experts vocab_size
		padded_vocab_size make_vocab_size_divisible_by normalization norm_epsilon position_embedding_type rotary_base
		rotary_percent attention_dropout hidden_dropout softmax_type attention_backend transformer_impl
		moe_ffn_hidden_size moe_router_topk moe_shared_expert_intermediate_size moe_token_dispatcher_type
		moe_flex_dispatcher_backend moe_router_dtype moe_router_score_function moe_router_num_groups moe_router_group_topk
		moe_router_topk_scaling_factor moe_router_bias_update_rate moe_expert_capacity_factor moe_token_drop_policy
		moe_latent_size mtp_num_layers mtp_loss_scaling_factor q_lora_rank kv_lora_rank qk_head_dim qk_pos_emb_head_dim
		v_head_dim recompute_granularity recompute_method recompute_num_layers fp8_format fp8_recipe fp4_recipe
		main_grads_dtype main_params_dtype exp_avg_dtype exp_avg_sq_dtype optimizer optimizer_offload_fraction
		cpu_offloading_num_layers data_parallel_sharding_strategy cuda_graph_impl cuda_graph_warmup_steps
		cross_entropy_fusion_impl hybrid_layer_pattern mamba_num_heads mamba_head_dim mamba_state_dim mamba_num_groups
		min_offloaded_tensor_size activation_offload_fraction ddp_bucket_size ddp_num_buckets`,
	whenTrue: `sequence_parallel use_distributed_optimizer overlap_grad_reduce overlap_param_gather
		overlap_param_gather_with_optimizer_step account_for_embedding_in_pipeline_split account_for_loss_in_pipeline_split
		group_query_attention multi_latent_attention swiglu squared_relu quick_geglu add_qkv_bias disable_bias_linear
		qk_layernorm qk_l2_norm untie_embeddings_and_output_weights attention_output_gate bf16 fp16 fp8_param_gather
		use_precision_aware_optimizer optimizer_cpu_offload overlap_cpu_optimizer_d2h_h2d grad_reduce_in_bf16
		accumulate_allreduce_grads_in_fp32 moe_grouped_gemm moe_permute_fusion moe_shared_expert_overlap
		moe_shared_expert_gate moe_router_pre_softmax moe_router_enable_expert_bias moe_router_fusion moe_enable_deepep
		moe_router_force_load_balancing moe_pad_expert_input_to_capacity overlap_moe_expert_parallel_comm
		delay_wgrad_compute tp_comm_overlap cross_entropy_loss_fusion calculate_per_token_loss use_megatron_fsdp
		use_torch_fsdp2 fine_grained_activation_offloading distribute_saved_activations recompute_activations
		mtp_use_repeated_layer defer_embedding_wgrad_compute use_tp_pp_dp_mapping no_initialization
		no_gradient_accumulation_fusion no_masked_softmax_fusion no_bias_dropout_fusion no_bias_swiglu_fusion no_rope_fusion
		reuse_grad_buf_for_mxfp8_param_ag use_transformer_engine_op_fuser enable_cuda_graph external_cuda_graph`,
}

func withSameNames(fields map[string]spelling) map[string]spelling {
	for kind, names := range sameName {
		for name := range strings.FieldsSeq(names) {
			if _, ok := fields[name]; !ok {
				fields[name] = spelling{"--" + strings.ReplaceAll(name, "_", "-"), kind}
			}
		}
	}
	return fields
}

// spell writes one field. It reports false for a field that is not in the table or a value that does not fit it.
// null and None stand for "not given".
func spell(field, value string) ([]string, bool) {
	s, ok := fields[field]
	if !ok {
		return nil, false
	}
	value = unquote(value)
	if s.kind == noEffect || isNull(value) {
		return nil, true
	}
	switch s.kind {
	case whenTrue, whenFalse:
		b, ok := boolean(value)
		if !ok {
			return nil, false
		}
		if b == (s.kind == whenTrue) {
			return []string{s.flag}, true
		}
		return nil, true
	case takesList:
		items, ok := listItems(value)
		if !ok || len(items) == 0 {
			return nil, ok
		}
		return append([]string{s.flag}, items...), true
	case takesFreq:
		return []string{s.flag, strings.ReplaceAll(value, " ", "")}, true
	}
	if field == "num_query_groups" {
		return []string{"--group-query-attention", s.flag, value}, true
	}
	return []string{s.flag, dtype(value)}, true
}

// dtype shortens PyTorch's names, which configurations use where the command line has its own.
func dtype(value string) string {
	switch value {
	case "torch.bfloat16", "bfloat16":
		return "bf16"
	case "torch.float16", "float16":
		return "fp16"
	case "torch.float32", "float32":
		return "fp32"
	case "torch.uint8":
		return "fp8"
	}
	return value
}

func isNull(v string) bool { return v == "" || v == "null" || v == "None" || v == "~" }

func boolean(v string) (value, ok bool) {
	switch strings.ToLower(v) {
	case "true", "yes", "on", "1":
		return true, true
	case "false", "no", "off", "0":
		return false, true
	}
	return false, false
}

func unquote(v string) string {
	if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
		return v[1 : len(v)-1]
	}
	return v
}

// listItems reads [a,b], a,b and a.
func listItems(v string) ([]string, bool) {
	if strings.HasPrefix(v, "[") != strings.HasSuffix(v, "]") {
		return nil, false
	}
	v = strings.TrimSuffix(strings.TrimPrefix(v, "["), "]")
	var items []string
	for item := range strings.SplitSeq(v, ",") {
		if item = unquote(strings.TrimSpace(item)); item != "" {
			items = append(items, item)
		}
	}
	return items, true
}
