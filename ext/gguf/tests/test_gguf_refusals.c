/* Models that are not written as GGUF. */
#include "checkpoint/weights.h"
#include "gguf/gguf_config_write.h"
#include "gguf/gguf_save.h"
#include "gguf/tests/gguf_values.h"
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

/* ---- files that lie ---- */

enum { AFTER_TYPE = 4, AFTER_COUNT = 16 };

/* Reads the configuration of a model's file in which `bytes` bytes behind a key have another value:
 * behind its type, or behind the count of a list. */
static Status read_lie(const char *shape, const char *key, int behind, uint32_t number,
                       size_t bytes) {
  Model *m = small_model(shape, NULL, 1);
  Config c;
  Buf file = {0};
  OK(gguf_save(m, NULL, tmp("lie"), GGML_F32));
  OK(file_read(tmp("lie"), 0, &file));
  char *at = memmem(file.data, file.len, key, strlen(key));
  CHECK(at != NULL);
  if (at) memcpy(at + strlen(key) + behind, &number, bytes);
  OK(file_replace(tmp("lie"), file.data, file.len));
  buf_free(&file);
  model_release(m);
  return weights_config(&c, tmp("lie"));
}

#define DEEPSEEK3 "{\"model_type\":\"deepseek_v3\"," DEEPSEEK "}"
#define SMALL_GEMMA4                                                                               \
  "{\"model_type\":\"gemma4_text\"," GEMMA4                                                        \
  "],\"use_double_wide_mlp\":true,\"num_key_value_heads\":2,"                                      \
  "\"num_global_key_value_heads\":4,\"attention_k_eq_v\":true,\"head_dim\":16,"                    \
  "\"global_head_dim\":16}"

TEST(keys_of_latents_that_lie_are_refused) {
  OK(read_lie(DEEPSEEK3, "expert_gating_func", AFTER_TYPE, 2, 4));
  REFUSED(read_lie(DEEPSEEK3, "expert_gating_func", AFTER_TYPE, 1, 4), GRPO_EFORMAT,
          "'deepseek2.expert_gating_func' = 1 is not computed");
  REFUSED(read_lie(DEEPSEEK3, "key_length_mla", AFTER_TYPE, 8, 4), GRPO_EFORMAT,
          "= 8 must be more than rope.dimension_count = 8");
  REFUSED(read_lie(DEEPSEEK3, "kv_lora_rank", AFTER_TYPE, 0, 4), GRPO_EFORMAT, "kv_lora_rank");
  REFUSED(read_lie(DEEPSEEK3, "expert_group_count", AFTER_TYPE, 3, 4), GRPO_EFORMAT,
          "equal groups");
}

TEST(keys_of_gemma_4_that_lie_are_refused) {
  OK(read_lie(SMALL_GEMMA4, "head_count_kv", AFTER_COUNT, 4, 4));
  REFUSED(read_lie(SMALL_GEMMA4, "head_count_kv", AFTER_COUNT, 2, 4), GRPO_EFORMAT,
          "unlike others of its kind");
  REFUSED(read_lie(SMALL_GEMMA4, "head_count_kv", AFTER_COUNT - 8, 2, 4), GRPO_EFORMAT, "");
  REFUSED(read_lie(SMALL_GEMMA4, "gemma4.feed_forward_length", AFTER_COUNT, 95, 4), GRPO_EFORMAT,
          "feed_forward_length' = ");
  REFUSED(read_lie(SMALL_GEMMA4, "block_count", AFTER_TYPE, 4, 4), GRPO_EFORMAT,
          "must say for each of 4 layers");
  REFUSED(read_lie(SMALL_GEMMA4, "key_length_swa", AFTER_TYPE, 0, 4), GRPO_EFORMAT, "head_dim");
}

/* Granite 4 has models without rotary positions. */
TEST(granite_without_positions_is_refused) {
  Config c;
  GgufMeta meta = {0};
  GgufWriter *w = NULL;
  const float zeros[64] = {0};
  GgufEntry e = {.name = "token_embd.weight", .ndim = 2, .dim = {101, 64}};
  config_of(&c, "{\"model_type\":\"granite\"," COMMON ",\"tie_word_embeddings\":true}");
  gguf_put_string(&meta, "general.architecture", "granite", 7);
  gguf_config_write(&c, gguf_arch_of("granite"), &meta);
  gguf_put_bool(&meta, "granite.rope.scaling.finetuned", false);
  REQUIRE(gguf_writer_open(&w, tmp("granite"), &meta, 1, &e));
  for (int i = 0; i < 101; i++) OK(gguf_writer_put(w, zeros, 64));
  OK(gguf_writer_commit(w));
  gguf_meta_free(&meta);
  REFUSED(weights_config(&c, tmp("granite")), GRPO_EFORMAT, "there are no rotary positions");
}
