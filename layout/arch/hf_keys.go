package arch

import (
	"slices"
	"strings"
)

// inertKeys change neither shapes nor what a layer saves.
var inertKeys = []struct{ reason, keys string }{
	{"how the checkpoint is stored, not how the model is trained", `torch_dtype dtype quantization_config compression_config kv_cache_scheme
		_quantization_method pretraining_tp weight_block_size pretrained_config_archive_map`},
	{"a tower in front of the language model is not counted", `vision_config audio_config speech_config vision_start_token_id vision_end_token_id
		image_token_id image_token_index video_token_id boi_token_index eoi_token_index vision_token_id audio_token_id mm_tokens_per_image
		vision_feature_layer vision_feature_select_strategy projector_hidden_act multimodal_projector_bias deepstack_visual_indexes`},
	{"about this file or its code", `architectures model_type _name_or_path transformers_version auto_map _commit_hash name_or_path _attn_implementation
		_attn_implementation_autoset attn_implementation attn_implementation_autoset is_encoder_decoder return_dict torchscript unsloth_fixed
		unsloth_version tokenizer_class processor_class rms_norm_type transformers.js_config`},
	{"for generation", `bos_token_id eos_token_id pad_token_id sep_token_id decoder_start_token_id use_cache output_attentions output_hidden_states
		output_router_logits temperature top_p top_k max_length min_length do_sample num_beams cache_implementation num_logits_to_keep
		num_return_sequences keys_to_ignore_at_inference id2label label2id problem_type`},
	{"for training runs, not part of the shape", `initializer_range initializer_cutoff_factor router_jitter_noise attention_dropout hidden_dropout
		embd_pdrop resid_pdrop attn_pdrop embedding_dropout hidden_dropout_prob dropout output_dropout use_return_dict aux_loss_alpha
		router_aux_loss_coef router_z_loss_coef seq_aux moe_z_loss_coef ep_size tp_size router_bias_update_speed router_dtype init_std
		rescale_prenorm_residual residual_in_fp32 time_step_floor time_step_limit time_step_max time_step_min time_step_rank chunk_size
		mamba_chunk_size mamba_ssm_cache_dtype use_mamba_kernels mamba_ssm_dtype z_loss_coeff load_balance_coeff router_ignore_padding_tokens
		norm_head norm_softmax moe_mamba`},
}

var inertReason = func() map[string]string {
	m := map[string]string{}
	for _, group := range inertKeys {
		for key := range strings.FieldsSeq(group.keys) {
			m[key] = group.reason
		}
	}
	return m
}()

func inert(key string) string { return inertReason[key] }

// structuralWords are parts of names of keys that say something about shapes, wherever they stand in the name.
var structuralWords = strings.Fields(`size dim layer head expert rank lora ffn mlp inter hidden attn attention window norm bias moe dense shared
	block pattern state conv group vocab embed position rope rotary kv num_ n_ mamba ssm gate mtp nextn latent proj width depth sparse`)

func structural(key string) bool {
	key = strings.ToLower(key)
	return slices.ContainsFunc(structuralWords, func(w string) bool { return strings.Contains(key, w) })
}
