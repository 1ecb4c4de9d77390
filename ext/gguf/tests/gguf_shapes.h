/* gguf_shapes.h - a small model of each family that GGUF files hold. */
#ifndef GRPO_TESTS_GGUF_SHAPES_H
#define GRPO_TESTS_GGUF_SHAPES_H

static const struct {
  const char *name, *shape;
} shapes[] = {
    {"gpt2", "{\"model_type\":\"gpt2\",\"vocab_size\":97,\"n_embd\":48,\"n_layer\":2,\"n_head\":3,"
             "\"n_positions\":80,\"initializer_range\":0.2}"},
#define COMMON                                                                                     \
  "\"vocab_size\":101,\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":2,"        \
  "\"num_attention_heads\":4,\"max_position_embeddings\":96,\"initializer_range\":0.2,"            \
  "\"rms_norm_eps\":1e-6"
#define YARN                                                                                       \
  "{\"rope_type\":\"yarn\",\"factor\":7.3,\"original_max_position_embeddings\":16,"                \
  "\"beta_fast\":2.1,\"beta_slow\":0.3,\"attention_factor\":1.23"
#define GROUPED ",\"num_key_value_heads\":2,\"head_dim\":16"
    {"llama", "{\"model_type\":\"llama\"," COMMON GROUPED ",\"tie_word_embeddings\":true,"
              "\"rope_theta\":500000.0,\"eos_token_id\":[3,4,5],\"bos_token_id\":1}"},
    {"llama3", "{\"model_type\":\"llama\"," COMMON GROUPED ",\"attention_bias\":true,"
               "\"mlp_bias\":true,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":7.3,"
               "\"low_freq_factor\":1.1,\"high_freq_factor\":3.7,"
               "\"original_max_position_embeddings\":32}}"},
    {"linear", "{\"model_type\":\"llama\"," COMMON ",\"rope_scaling\":{\"rope_type\":\"linear\","
               "\"factor\":2.5}}"},
    {"mistral", "{\"model_type\":\"mistral\"," COMMON GROUPED ",\"sliding_window\":6}"},
    {"qwen2", "{\"model_type\":\"qwen2\"," COMMON GROUPED ",\"rope_theta\":1000000.0}"},
    {"qwen3", "{\"model_type\":\"qwen3\"," COMMON ",\"num_key_value_heads\":2,\"head_dim\":32,"
              "\"tie_word_embeddings\":true}"},
    {"phi3", "{\"model_type\":\"phi3\"," COMMON ",\"num_key_value_heads\":2,"
             "\"original_max_position_embeddings\":48,\"sliding_window\":null,"
             "\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1,1.1,1.2,1.3,1.4,1.5,1.6,"
             "1.7],\"long_factor\":[1,2,3,4,5,6,7,8]}}"},
    {"gemma2", "{\"model_type\":\"gemma2\"," COMMON GROUPED ",\"query_pre_attn_scalar\":24,"
               "\"sliding_window\":6,\"attn_logit_softcapping\":30.0}"},
    {"gemma3", "{\"model_type\":\"gemma3_text\"," COMMON GROUPED ",\"query_pre_attn_scalar\":16,"
               "\"sliding_window\":6,\"sliding_window_pattern\":2}"},
    {"smollm3", "{\"model_type\":\"smollm3\"," COMMON GROUPED ",\"num_hidden_layers\":5,"
                "\"tie_word_embeddings\":true,\"attention_bias\":true}"},
    {"granite", "{\"model_type\":\"granite\"," COMMON ",\"num_key_value_heads\":2,"
                "\"embedding_multiplier\":1.75,\"attention_multiplier\":0.2,"
                "\"residual_multiplier\":0.6,\"logits_scaling\":1.3,\"mlp_bias\":true}"},
    {"olmo2", "{\"model_type\":\"olmo2\"," COMMON ",\"num_key_value_heads\":2}"},
    {"olmo3", "{\"model_type\":\"olmo3\"," COMMON ",\"sliding_window\":6,\"layer_types\":"
              "[\"sliding_attention\",\"full_attention\"],\"rope_scaling\":" YARN "}}"},
    {"ministral3", "{\"model_type\":\"ministral3\"," COMMON GROUPED ",\"rope_theta\":100.0,"
                   "\"rope_parameters\":" YARN ",\"llama_4_scaling_beta\":0.3}}"},
    {"seed_oss", "{\"model_type\":\"seed_oss\"," COMMON GROUPED "}"},
    {"exaone4", "{\"model_type\":\"exaone4\"," COMMON ",\"sliding_window\":null}"},
    {"hunyuan", "{\"model_type\":\"hunyuan_v1_dense\"," COMMON GROUPED ",\"rope_scaling\":"
                "{\"rope_type\":\"dynamic\",\"alpha\":50.5}}"},
    {"ernie4_5", "{\"model_type\":\"ernie4_5\"," COMMON GROUPED "}"},
    {"glm4", "{\"model_type\":\"glm4\"," COMMON GROUPED ",\"partial_rotary_factor\":0.25}"},
    {"starcoder2", "{\"model_type\":\"starcoder2\"," COMMON ",\"num_key_value_heads\":2,"
                   "\"sliding_window\":6}"},
    {"stablelm", "{\"model_type\":\"stablelm\"," COMMON ",\"num_key_value_heads\":4,"
                 "\"use_qkv_bias\":true}"},
    {"stablelm parallel", "{\"model_type\":\"stablelm\"," COMMON ",\"num_key_value_heads\":4,"
                          "\"use_parallel_residual\":true}"},
    {"nemotron", "{\"model_type\":\"nemotron\"," COMMON GROUPED ",\"mlp_bias\":true}"},
    {"cohere2", "{\"model_type\":\"cohere2\"," COMMON ",\"num_key_value_heads\":2,"
                "\"sliding_window\":6,\"sliding_window_pattern\":2,\"logit_scale\":0.7}"},
    {"arcee", "{\"model_type\":\"arcee\"," COMMON GROUPED "}"},
    {"phi", "{\"model_type\":\"phi\"," COMMON "}"},
#define MIXED ",\"num_experts\":5,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32}"
    {"qwen3_moe", "{\"norm_topk_prob\":true,\"model_type\":\"qwen3_moe\"," COMMON GROUPED MIXED},
    {"olmoe", "{\"model_type\":\"olmoe\"," COMMON MIXED},
    {"gpt_neox", "{\"model_type\":\"gpt_neox\"," COMMON ",\"rotary_pct\":0.5}"},
    {"qwen3_5", "{\"model_type\":\"qwen3_5_text\"," COMMON GROUPED ",\"num_hidden_layers\":5,"
                "\"full_attention_interval\":2,\"linear_num_key_heads\":2,"
                "\"linear_num_value_heads\":6,\"linear_key_head_dim\":10,"
                "\"linear_value_head_dim\":10,\"partial_rotary_factor\":0.5}"},
    {"lfm2", "{\"model_type\":\"lfm2\"," COMMON GROUPED ",\"num_hidden_layers\":3,"
             "\"full_attn_idxs\":[0,2],\"block_auto_adjust_ff_dim\":false}"},
#define LOCAL ",\"num_local_experts\":5,\"num_experts_per_tok\":2}"
    {"mixtral", "{\"model_type\":\"mixtral\"," COMMON GROUPED LOCAL},
    {"granitemoe",
     "{\"embedding_multiplier\":1.75,\"attention_multiplier\":0.2,"
     "\"residual_multiplier\":0.6,\"logits_scaling\":1.3,\"tie_word_embeddings\":true,"
     "\"model_type\":\"granitemoe\"," COMMON ",\"num_key_value_heads\":2" LOCAL},
#define SHARED ",\"shared_expert_intermediate_size\":48" MIXED
    {"qwen2_moe", "{\"model_type\":\"qwen2_moe\"," COMMON ",\"num_key_value_heads\":2" SHARED},
    {"gpt_oss", "{\"model_type\":\"gpt_oss\"," COMMON GROUPED ",\"sliding_window\":6,"
                "\"rope_scaling\":" YARN ",\"truncate\":false}" LOCAL},
#define DELTA                                                                                      \
  ",\"num_hidden_layers\":5,\"full_attention_interval\":2,\"linear_num_key_heads\":2,"             \
  "\"linear_num_value_heads\":6,\"linear_key_head_dim\":10,\"linear_value_head_dim\":10,"          \
  "\"partial_rotary_factor\":0.5"
    {"qwen3_5_moe", "{\"model_type\":\"qwen3_5_moe_text\"," COMMON GROUPED DELTA SHARED},
    {"qwen3_next", "{\"model_type\":\"qwen3_next\"," COMMON GROUPED DELTA SHARED},
#define LATENT                                                                                     \
  ",\"kv_lora_rank\":12,\"qk_nope_head_dim\":20,\"qk_rope_head_dim\":8,\"v_head_dim\":14"
    {"deepseek_v2", "{\"model_type\":\"deepseek_v2\"," COMMON LATENT ",\"num_hidden_layers\":26,"
                    "\"q_lora_rank\":null,\"n_routed_experts\":null}"},
    {"deepseek_v3",
     "{\"model_type\":\"deepseek_v3\"," COMMON LATENT ",\"q_lora_rank\":24,\"n_routed_experts\":6,"
     "\"n_shared_experts\":2,\"n_group\":3,\"topk_group\":2,\"first_k_dense_replace\":1,"
     "\"num_experts_per_tok\":3,\"moe_intermediate_size\":32,\"rope_scaling\":{\"rope_type\":"
     "\"yarn\","
     "\"factor\":8,\"original_max_position_embeddings\":12,\"mscale\":1,\"mscale_all_dim\":1}}"},
    {"gemma4",
     "{\"model_type\":\"gemma4_text\"," COMMON GROUPED ",\"num_hidden_layers\":6,"
     "\"global_head_dim\":32,\"sliding_window\":6,\"num_kv_shared_layers\":2,"
     "\"hidden_size_per_layer_input\":8,\"use_double_wide_mlp\":true,\"layer_types\":["
     "\"sliding_attention\",\"full_attention\",\"sliding_attention\",\"full_attention\","
     "\"sliding_attention\",\"full_attention\"],\"rope_parameters\":{\"full_attention\":{"
     "\"rope_type\":\"proportional\",\"partial_rotary_factor\":0.25,\"rope_theta\":5000.0},"
     "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":300.0}}}"},
    {"gemma4 mixture",
     "{\"model_type\":\"gemma4_text\"," COMMON GROUPED ",\"global_head_dim\":44,"
     "\"num_global_key_value_heads\":1,\"attention_k_eq_v\":true,\"sliding_window\":6,"
     "\"hidden_size_per_layer_input\":0,\"enable_moe_block\":true,\"top_k_experts\":2,"
     "\"tie_word_embeddings\":true,\"final_logit_softcapping\":20.0,\"num_experts\":5,"
     "\"moe_intermediate_size\":32,"
     "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"proportional\","
     "\"partial_rotary_factor\":0.6818181818181819,\"rope_theta\":5000.0},\"sliding_attention\":{"
     "\"rope_type\":\"default\",\"rope_theta\":300.0}}}"},
};
enum { NSHAPES = sizeof shapes / sizeof *shapes };

#endif
