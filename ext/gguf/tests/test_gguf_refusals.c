/* Models that are not written as GGUF. */
#include "gguf/gguf_save.h"
#include "model/modeltest.h"
#include "os/file.h"

#define COMMON                                                                                     \
  "\"vocab_size\":101,\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":2,"        \
  "\"num_attention_heads\":4,\"num_key_value_heads\":2"

#define MIXTURE                                                                                    \
  "\"vocab_size\":101,\"hidden_size\":64,\"intermediate_size\":32,\"num_hidden_layers\":2,"        \
  "\"num_attention_heads\":4,\"num_experts\":4,\"num_experts_per_tok\":2"

#define KEY_HEADS MIXTURE ",\"num_key_value_heads\":4"
#define ROUTED    COMMON ",\"head_dim\":16,\"num_local_experts\":4,\"num_experts_per_tok\":2"
#define DEEPSEEK                                                                                   \
  COMMON ",\"kv_lora_rank\":12,\"qk_nope_head_dim\":20,\"qk_rope_head_dim\":8,\"v_head_dim\":14,"  \
         "\"n_routed_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,"          \
         "\"n_group\":1,\"topk_group\":1,\"first_k_dense_replace\":0"
#define GEMMA4                                                                                     \
  COMMON ",\"num_hidden_layers\":3,\"hidden_size_per_layer_input\":0,\"layer_types\":["            \
         "\"full_attention\",\"sliding_attention\",\"full_attention\""

static const char *tmp(const char *name) { return test_path("%s/%s.gguf", test_tmp(), name); }

TEST(latent_attention_of_gpt2_is_refused_by_name) {
  Model *m = small_model(latent_shapes[0], NULL, 1);
  REFUSED(gguf_save(m, NULL, tmp("latent"), GGML_F32), GRPO_EARG, "gpt2_mla");
  model_release(m);
}

static const struct {
  const char *shape, *reason;
} rows[] = {
    {"{\"model_type\":\"smollm3\"," COMMON ",\"no_rope_layers\":[1,0]}", "every fourth layer"},
    {"{\"model_type\":\"olmo2\"," COMMON ",\"tie_word_embeddings\":true}", "output projection"},
    {"{\"model_type\":\"cohere2\"," COMMON ",\"tie_word_embeddings\":false}",
     "no output projection"},
    {"{\"model_type\":\"cohere2\"," COMMON ",\"sliding_window\":6,\"layer_types\":"
     "[\"full_attention\",\"sliding_attention\"]}",
     "each n-th layer"},
    {"{\"model_type\":\"exaone4\"," COMMON ",\"sliding_window\":6}", "64 layers"},
    {"{\"model_type\":\"olmo3\"," COMMON ",\"rope_parameters\":{\"full_attention\":{"
     "\"rope_theta\":5000.0},\"sliding_attention\":{\"rope_theta\":10000.0}}}",
     "one rope_theta"},
    {"{\"model_type\":\"ministral3\"," COMMON ",\"rope_parameters\":"
     "{\"rope_type\":\"yarn\",\"factor\":8"
     ",\"truncate\":false}}",
     "YaRN's ramp"},
    {"{\"model_type\":\"qwen3_5_text\"," COMMON ",\"linear_key_head_dim\":8,"
     "\"linear_value_head_dim\":16}",
     "of one width"},
    {"{\"model_type\":\"qwen3_5_text\"," COMMON ",\"layer_types\":[\"full_attention\","
     "\"linear_attention\"]}",
     "each n-th layer"},
    {"{\"model_type\":\"qwen3_5_text\"," COMMON ",\"attention_bias\":true}", "no biases"},
    {"{\"model_type\":\"qwen3_moe\"," MIXTURE ",\"norm_topk_prob\":false}", "by their sum"},
    {"{\"model_type\":\"olmoe\"," MIXTURE ",\"norm_topk_prob\":true}", "does not divide"},
    {"{\"model_type\":\"olmoe\"," MIXTURE ",\"num_key_value_heads\":2}", "key heads as heads"},
    {"{\"model_type\":\"olmoe\"," MIXTURE ",\"attention_bias\":true}", "no biases"},
    {"{\"model_type\":\"qwen3_moe\"," MIXTURE ",\"mlp_only_layers\":[1]}", "every layer"},
    {"{\"model_type\":\"qwen3_moe\"," MIXTURE ",\"decoder_sparse_step\":2}", "every layer"},
    {"{\"model_type\":\"qwen2_moe\"," KEY_HEADS ",\"norm_topk_prob\":true,"
     "\"shared_expert_intermediate_size\":32}",
     "does not divide"},
    {"{\"model_type\":\"qwen2_moe\"," KEY_HEADS ",\"shared_expert_intermediate_size\":0}",
     "an expert for every token"},
    {"{\"model_type\":\"qwen2_moe\"," KEY_HEADS ",\"head_dim\":8}", "heads of hidden_size"},
    {"{\"model_type\":\"gpt_oss\"," ROUTED ",\"attention_bias\":false}", "wants biases"},
    {"{\"model_type\":\"gpt_oss\"," ROUTED ",\"swiglu_limit\":5}", "swiglu_limit of 7"},
    {"{\"model_type\":\"gpt_oss\"," ROUTED ",\"num_hidden_layers\":3,\"layer_types\":["
     "\"sliding_attention\",\"sliding_attention\",\"full_attention\"]}",
     "first layer"},
    {"{\"model_type\":\"granitemoe\"," ROUTED ",\"attention_bias\":true}", "no biases"},
    {"{\"model_type\":\"qwen3_next\"," MIXTURE ",\"norm_topk_prob\":false,"
     "\"linear_value_head_dim\":128,\"shared_expert_intermediate_size\":32,"
     "\"num_hidden_layers\":4}",
     "by their sum"},
    {"{\"model_type\":\"deepseek_v3\"," DEEPSEEK ",\"n_shared_experts\":0}", "shared experts"},
    {"{\"model_type\":\"deepseek_v3\"," DEEPSEEK ",\"mlp_only_layers\":[1]}", "every layer"},
    {"{\"model_type\":\"deepseek_v3\"," DEEPSEEK ",\"attention_bias\":true}", "no biases"},
    {"{\"model_type\":\"deepseek_v3\"," DEEPSEEK ",\"rope_scaling\":{\"rope_type\":\"yarn\","
     "\"factor\":8,\"mscale\":1,\"mscale_all_dim\":0.5}}",
     "of one value"},
    {"{\"model_type\":\"deepseek_v2\"," DEEPSEEK ",\"n_routed_experts\":null,"
     "\"q_lora_rank\":null}",
     "26 or 27 layers"},
    {"{\"model_type\":\"gemma4_text\"," GEMMA4 "],\"num_kv_shared_layers\":1}",
     "the last two layers"},
    {"{\"model_type\":\"gemma4_text\"," GEMMA4 "],\"attention_bias\":true}", "no biases"},
    {"{\"model_type\":\"gemma4_text\"," GEMMA4 "],\"rope_parameters\":{\"full_attention\":{"
     "\"rope_type\":\"default\",\"rope_theta\":1000}}}",
     "proportional"},
    {"{\"model_type\":\"granitemoehybrid\"," COMMON ",\"num_local_experts\":0,\"layer_types\":["
     "\"attention\",\"attention\"]}",
     "rotary positions"},
    {"{\"model_type\":\"ministral\"," COMMON "}", "'ministral' models as GGUF"},
    {"{\"model_type\":\"opt\",\"vocab_size\":101,\"hidden_size\":64,\"num_attention_heads\":4}",
     "'opt' models as GGUF"},
};

TEST(what_llama_cpp_would_compute_otherwise_is_refused_by_name) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Model *m = small_model(rows[i].shape, NULL, 1);
    REFUSED(gguf_save(m, NULL, tmp("refused"), GGML_F32), GRPO_EARG, rows[i].reason);
    CHECK(!file_exists(tmp("refused")));
    model_release(m);
  }
}
