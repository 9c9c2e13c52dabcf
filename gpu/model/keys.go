package model

import (
	"slices"
	"strconv"
)

// ignorable are the keys that cannot change the logits of a forward pass.
var ignorable = set(
	// where the file comes from
	"_name_or_path", "_commit_hash", "_attn_implementation", "_attn_implementation_autoset", "auto_map",
	"transformers_version", "unsloth_version", "unsloth_fixed", "tokenizer_class", "prefix", "name_or_path",
	// token ids
	"bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id", "cls_token_id", "mask_token_id",
	"decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id", "bad_words_ids", "suppress_tokens",
	"begin_suppress_tokens",
	// training
	"attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "classifier_dropout",
	"router_aux_loss_coef", "router_jitter_noise", "aux_loss_alpha", "seq_aux", "gradient_checkpointing", "ep_size",
	"pretraining_tp", "use_cache", "use_bfloat16", "output_router_logits", "output_attentions",
	"output_hidden_states", "return_dict", "return_dict_in_generate", "output_scores", "torchscript", "remove_invalid_values",
	// generation
	"max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty",
	"temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size",
	"encoder_no_repeat_ngram_size", "num_return_sequences", "exponential_decay_length_penalty",
	// classification heads, encoders
	"id2label", "label2id", "num_labels", "problem_type", "finetuning_task", "task_specific_params",
	"chunk_size_feed_forward", "pruned_heads", "tie_encoder_decoder", "cross_attention_hidden_size",
)

// neutral lists, for features that no engine has, the values under which the feature does nothing.
var neutral = map[string][]string{
	"attn_logit_softcapping":          {"null"},
	"final_logit_softcapping":         {"null"},
	"query_pre_attn_scalar":           {"null"},
	"attention_multiplier":            {"null"},
	"embedding_multiplier":            {"1"},
	"residual_multiplier":             {"1"},
	"logits_scaling":                  {"1"},
	"logit_scale":                     {"1"},
	"partial_rotary_factor":           {"1"},
	"rotary_pct":                      {"1"},
	"clip_qkv":                        {"null"},
	"use_qk_norm":                     {"false"},
	"qk_layernorm":                    {"false"},
	"use_mrope":                       {"false"},
	"attention_bias":                  {"false"},
	"mlp_bias":                        {"false"},
	"attention_chunk_size":            {"null"},
	"no_rope_layers":                  {"null"},
	"sliding_window":                  {"null"},
	"use_sliding_window":              {"false"},
	"quantization_config":             {"null"},
	"is_encoder_decoder":              {"false"},
	"add_cross_attention":             {"false"},
	"is_decoder":                      {"false"},
	"num_nextn_predict_layers":        {"0"},
	"n_shared_experts":                {"0"},
	"shared_expert_intermediate_size": {"0"},
}

// isNeutral compares numbers by value, so that 1, 1.0 and 1e0 are the same.
func isNeutral(key, raw string) bool {
	if f, err := strconv.ParseFloat(raw, 64); err == nil {
		raw = strconv.FormatFloat(f, 'g', -1, 64)
	}
	return slices.Contains(neutral[key], raw)
}

func set(keys ...string) map[string]bool {
	m := make(map[string]bool, len(keys))
	for _, k := range keys {
		m[k] = true
	}
	return m
}
