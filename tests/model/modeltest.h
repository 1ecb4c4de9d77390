/* modeltest.h - what the tests of this layer share: small models, oracles, comparisons. */
#ifndef GRPO_TESTS_MODELTEST_H
#define GRPO_TESTS_MODELTEST_H

#include <stdlib.h>

#include "base/rng.h"
#include "compute.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "model/config_read.h"
#include "model/forward_logits.h"
#include "model/model.h"
#include "os/file.h"
#include "status.h"
#include "testing.h"

/* First line of a test that cannot do without the oracles. */
#define NEEDS_ORACLES                                                                              \
  do {                                                                                             \
    if (test_shared()) break;                                                                      \
    test_skip("GRPO_SHARED is not set: no oracles");                                               \
    return;                                                                                        \
  } while (0)

/* The folders of oracles/models. */
enum { ORACLES = 11 };
static const char *const oracle_names[ORACLES] = {"llama",           "llama_linear_sharded_bf16",
                                                  "smollm_bf16",     "gpt2",
                                                  "qwen2",           "qwen3",
                                                  "mistral_f16",     "mistral_window",
                                                  "gemma2",          "qwen3_newconfig_bf16",
                                                  "gemma3_text_bf16"};

static inline void config_of(Config *c, const char *text) {
  Json *j = NULL;
  OK(json_parse(text, strlen(text), "test", &j));
  OK(config_read(c, j, "test"));
  json_free(j);
}

static const char *const tiny_gpt2 =
    "{\"model_type\":\"gpt2\",\"vocab_size\":97,\"n_embd\":48,\"n_layer\":3,\"n_head\":3,"
    "\"n_positions\":80,\"initializer_range\":0.2}";
static const char *const tiny_llama =
    "{\"model_type\":\"llama\",\"vocab_size\":101,\"hidden_size\":64,\"intermediate_size\":88,"
    "\"num_hidden_layers\":3,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":16,"
    "\"max_position_embeddings\":96,\"initializer_range\":0.2,\"tie_word_embeddings\":true}";
static const char *const biased_llama =
    "{\"model_type\":\"llama\",\"vocab_size\":101,\"hidden_size\":40,\"intermediate_size\":56,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":1,\"head_dim\":12,"
    "\"max_position_embeddings\":96,\"initializer_range\":0.2,\"attention_bias\":true,"
    "\"mlp_bias\":true,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,"
    "\"low_freq_factor\":1,\"high_freq_factor\":4,\"original_max_position_embeddings\":32}}";

#define TINY(type, more)                                                                           \
  "{\"model_type\":\"" type "\",\"vocab_size\":101,\"hidden_size\":64,\"num_hidden_layers\":3,"    \
  "\"intermediate_size\":88,\"num_attention_heads\":4,\"max_position_embeddings\":96,"             \
  "\"initializer_range\":0.2,\"num_key_value_heads\":" more "}"

static const char *const tiny_qwen2 =
    TINY("qwen2", "2,\"use_sliding_window\":true,\"sliding_window\":7,\"max_window_layers\":1");
static const char *const tiny_qwen3 =
    TINY("qwen3", "1,\"head_dim\":24,\"tie_word_embeddings\":true");
static const char *const tiny_mistral = TINY("mistral", "2,\"head_dim\":12,\"sliding_window\":11");
static const char *const tiny_gemma2 =
    TINY("gemma2", "2,\"head_dim\":20,\"sliding_window\":9,\"query_pre_attn_scalar\":24,"
                   "\"attn_logit_softcapping\":2,\"final_logit_softcapping\":3,"
                   "\"torch_dtype\":\"bfloat16\"");
static const char *const tiny_gemma3 =
    TINY("gemma3_text", "1,\"head_dim\":16,\"sliding_window\":13,\"sliding_window_pattern\":3,"
                        "\"rope_local_base_freq\":100,\"query_pre_attn_scalar\":16,"
                        "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}");
static const char *const tiny_phi3 =
    TINY("phi3", "2,\"sliding_window\":21,\"partial_rotary_factor\":0.5,"
                 "\"original_max_position_embeddings\":40,\"rope_scaling\":{\"type\":\"longrope\","
                 "\"short_factor\":[1,1.1,1.2,1.3],\"long_factor\":[1,2,3.5,5]}");

static const char *const tiny_gpt2_mla =
    "{\"model_type\":\"gpt2_mla\",\"vocab_size\":97,\"n_embd\":48,\"n_layer\":3,\"n_head\":3,"
    "\"n_positions\":80,\"initializer_range\":0.2,\"q_lora_rank\":20,\"kv_lora_rank\":24,"
    "\"qk_nope_head_dim\":12,\"qk_rope_head_dim\":6,\"v_head_dim\":14}";
static const char *const tiny_deepseek =
    "{\"model_type\":\"deepseek_v2\",\"vocab_size\":101,\"hidden_size\":64,"
    "\"intermediate_size\":88,\"num_hidden_layers\":2,\"num_attention_heads\":10,"
    "\"max_position_embeddings\":96,\"initializer_range\":0.2,\"attention_bias\":true,"
    "\"q_lora_rank\":null,\"kv_lora_rank\":16,\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":4,"
    "\"v_head_dim\":6,\"first_k_dense_replace\":2,"
    "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2}}";

/* Families of which each has several traits that the ones above do not have. */
static const char *const tiny_olmo3 =
    TINY("olmo3", "2,\"head_dim\":16,\"sliding_window\":9,\"layer_types\":[\"sliding_attention\","
                  "\"full_attention\",\"sliding_attention\"],\"rope_scaling\":{\"rope_type\":"
                  "\"yarn\",\"factor\":4,\"original_max_position_embeddings\":24}");
static const char *const tiny_cohere2 =
    TINY("cohere2", "2,\"head_dim\":16,\"sliding_window\":9,\"sliding_window_pattern\":2,"
                    "\"logit_scale\":0.7");
static const char *const tiny_hunyuan =
    TINY("hunyuan_v1_dense", "2,\"rope_scaling\":{\"type\":\"dynamic\",\"alpha\":50}");
static const char *const tiny_granite =
    TINY("granite", "2,\"embedding_multiplier\":1.7,\"attention_multiplier\":0.2,"
                    "\"residual_multiplier\":0.6,\"logits_scaling\":1.3");
static const char *const tiny_nemotron = TINY("nemotron", "2,\"head_dim\":16");
static const char *const tiny_gpt_neox =
    "{\"model_type\":\"gpt_neox\",\"vocab_size\":101,\"hidden_size\":64,\"num_hidden_layers\":2,"
    "\"intermediate_size\":88,\"num_attention_heads\":4,\"max_position_embeddings\":96,"
    "\"initializer_range\":0.2,\"rotary_pct\":0.25}";
static const char *const tiny_opt =
    "{\"model_type\":\"opt\",\"vocab_size\":101,\"hidden_size\":64,\"num_hidden_layers\":2,"
    "\"ffn_dim\":88,\"num_attention_heads\":4,\"max_position_embeddings\":96,\"init_std\":0.2}";
static const char *const tiny_nanochat = TINY("nanochat", "2,\"final_logit_softcapping\":3");

/* Mixtures of experts, with a dense layer between them. */
static const char *const tiny_qwen3_moe =
    TINY("qwen3_moe", "2,\"head_dim\":16,\"num_experts\":5,\"num_experts_per_tok\":2,"
                      "\"moe_intermediate_size\":24,\"norm_topk_prob\":true,"
                      "\"mlp_only_layers\":[1]");

static const char *const tiny_gpt_oss =
    TINY("gpt_oss", "2,\"head_dim\":16,\"sliding_window\":9,\"num_local_experts\":4,"
                    "\"num_experts_per_tok\":2,\"swiglu_limit\":1.5");
static const char *const tiny_deepseek_v3 =
    TINY("deepseek_v3", "4,\"q_lora_rank\":20,\"kv_lora_rank\":16,\"qk_nope_head_dim\":8,"
                        "\"qk_rope_head_dim\":4,\"v_head_dim\":6,\"first_k_dense_replace\":1,"
                        "\"n_routed_experts\":6,\"num_experts_per_tok\":2,\"n_group\":3,"
                        "\"topk_group\":2,\"moe_intermediate_size\":24,\"n_shared_experts\":2,"
                        "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,"
                        "\"mscale\":1,\"mscale_all_dim\":1,"
                        "\"original_max_position_embeddings\":24}");

/* Two layers with a state, whose columns are more than a panel, and one of gated attention. */
static const char *const tiny_qwen3_5 =
    TINY("qwen3_5_text", "2,\"rms_norm_eps\":1e-3,\"head_dim\":16,\"full_attention_interval\":3,"
                         "\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,"
                         "\"linear_key_head_dim\":6,\"linear_value_head_dim\":34");

/* Such layers in a mixture of experts, one of which every token takes. */
static const char *const tiny_qwen3_next =
    TINY("qwen3_next", "2,\"rms_norm_eps\":1e-3,\"head_dim\":16,\"full_attention_interval\":3,"
                       "\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,"
                       "\"linear_key_head_dim\":6,\"linear_value_head_dim\":9,\"num_experts\":4,"
                       "\"num_experts_per_tok\":3,\"moe_intermediate_size\":20,"
                       "\"shared_expert_intermediate_size\":28");

static const char *const tiny_lfm2 =
    TINY("lfm2", "2,\"block_multiple_of\":8,\"full_attn_idxs\":[1]");

/* Such layers with a dense one before two mixtures, and with the gates and windows of LFM3. */
static const char *const tiny_lfm2_moe =
    TINY("lfm2_moe", "2,\"layer_types\":[\"conv\",\"full_attention\",\"conv\"],"
                     "\"num_dense_layers\":1,\"num_experts\":5,\"num_experts_per_tok\":2,"
                     "\"moe_intermediate_size\":24,\"routed_scaling_factor\":1.5");
static const char *const tiny_lfm3 =
    TINY("lfm3", "2,\"head_dim\":16,\"sliding_window\":9,\"layer_types\":[\"sliding_attention\","
                 "\"conv\",\"full_attention\"],\"attention_bias\":true");

/* Heads of 12 in full layers and of 8 in others; the last two layers read the keys of
 * 1 and 2.  The large eps keeps scores small, as trained norms of heads do. */
static const char *const tiny_gemma4 =
    "{\"model_type\":\"gemma4_text\",\"vocab_size\":101,\"hidden_size\":48,"
    "\"num_hidden_layers\":5,\"intermediate_size\":40,\"num_attention_heads\":4,"
    "\"max_position_embeddings\":96,\"initializer_range\":0.2,\"num_key_value_heads\":2,"
    "\"head_dim\":8,\"global_head_dim\":12,\"num_global_key_value_heads\":1,"
    "\"attention_k_eq_v\":true,\"rms_norm_eps\":1,\"num_kv_shared_layers\":2,\"use_double_wide_"
    "mlp\":true,"
    "\"hidden_size_per_layer_input\":8,\"sliding_window\":9,\"final_logit_softcapping\":3,"
    "\"layer_types\":[\"sliding_attention\",\"full_attention\",\"sliding_attention\","
    "\"sliding_attention\",\"full_attention\"]}";

/* A mixture beside the dense part of each layer. */
static const char *const tiny_gemma4_moe = TINY(
    "gemma4_text",
    "2,\"head_dim\":8,\"global_head_dim\":12,\"rms_norm_eps\":1,"
    "\"hidden_size_per_layer_input\":0,\"sliding_window\":9,"
    "\"enable_moe_block\":true,\"num_experts\":4,\"top_k_experts\":2,\"moe_intermediate_size\":20");

/* Models with latent attention. */
static const char *const latent_shapes[] = {
    "{\"model_type\":\"gpt2_mla\",\"vocab_size\":11,\"n_embd\":12,\"n_layer\":2,\"n_head\":3,"
    "\"n_inner\":20,\"n_positions\":32,\"initializer_range\":0.4,\"q_lora_rank\":7,"
    "\"kv_lora_rank\":6,\"qk_nope_head_dim\":5,\"qk_rope_head_dim\":4,\"v_head_dim\":3,"
    "\"rope_theta\":50}",
    "{\"model_type\":\"deepseek_v2\",\"vocab_size\":13,\"hidden_size\":16,\"intermediate_size\":10,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"max_position_embeddings\":32,"
    "\"initializer_range\":0.4,\"q_lora_rank\":null,\"kv_lora_rank\":5,\"qk_nope_head_dim\":4,"
    "\"qk_rope_head_dim\":6,\"v_head_dim\":7,\"first_k_dense_replace\":2}",
    "{\"model_type\":\"deepseek_v2\",\"vocab_size\":13,\"hidden_size\":16,\"intermediate_size\":10,"
    "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"max_position_embeddings\":32,"
    "\"initializer_range\":0.4,\"q_lora_rank\":9,\"kv_lora_rank\":8,\"qk_nope_head_dim\":4,"
    "\"qk_rope_head_dim\":2,\"v_head_dim\":4,\"n_routed_experts\":null,\"attention_bias\":true,"
    "\"mlp_bias\":true,\"tie_word_embeddings\":true,\"rope_theta\":100,"
    "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":2.5}}"};
enum { LATENT_SHAPES = sizeof latent_shapes / sizeof *latent_shapes };

/* Every family, and what llama models may have besides.  Those from STATELESS_SHAPES on have layers
 * with a state, which see no later tokens, or are
 * mixtures, whose results jump where a token takes another expert. */
enum { WINDOWED_SHAPES = 9, STATELESS_SHAPES = 20, SMALL_SHAPES = 29 };
static const char *const *const small_shapes[SMALL_SHAPES] = {
    &tiny_gpt2,        &tiny_llama,      &biased_llama,   &tiny_qwen2,      &tiny_qwen3,
    &tiny_mistral,     &tiny_gemma2,     &tiny_gemma3,    &tiny_phi3,       &tiny_gpt2_mla,
    &tiny_deepseek,    &tiny_olmo3,      &tiny_cohere2,   &tiny_hunyuan,    &tiny_granite,
    &tiny_nemotron,    &tiny_gpt_neox,   &tiny_opt,       &tiny_nanochat,   &tiny_gemma4,
    &tiny_qwen3_5,     &tiny_lfm2,       &tiny_qwen3_moe, &tiny_qwen3_next, &tiny_gpt_oss,
    &tiny_deepseek_v3, &tiny_gemma4_moe, &tiny_lfm2_moe,  &tiny_lfm3};

/* A model whose biases and norms are random too, so that nothing is hidden by zeros and ones. */
static inline Model *small_model(const char *shape, Pool *pool, uint64_t seed) {
  Config c;
  Model *m = NULL;
  config_of(&c, shape);
  OK(model_new(&m, pool, &c, seed));
  if (m) OK(model_set_compute(m, test_compute));
  for (int i = 0; m && i < model_num_params(m); i++) {
    Param *p = model_param(m, i);
    const RngKey key = {.seed = seed, .stream = RNG_INIT, .prompt = (uint32_t)i, .sample = 1};
    for (size_t k = 0; (p->is_bias || p->is_norm) && k < p->t.n; k++)
      p->t.data[k] += (real)(0.1 * rng_normal(&key, k));
  }
  if (m) model_updated(m);
  return m;
}

/* Ids from a counter-based stream, none of them special. */
static inline void some_ids(int32_t *ids, int n, int vocab, uint64_t seed) {
  const RngKey key = {.seed = seed, .stream = RNG_USER};
  for (int i = 0; i < n; i++) ids[i] = (int32_t)(rng_u64(&key, (uint64_t)i) % (uint64_t)vocab);
}

typedef struct Ints {
  int32_t *at;
  int n;
} Ints;
static inline Ints ints_of(const Json *j) {
  Ints v = {malloc((json_count(j) + 1) * sizeof *v.at), 0};
  for (const Json *e = json_child(j); e; e = json_next(e)) v.at[v.n++] = (int32_t)json_number(e);
  return v;
}

typedef struct Reals {
  real *at;
  int n;
} Reals;
/* A list, or a list of lists one after the other. */
static inline Reals reals_of(const Json *j) {
  size_t n = 0;
  for (const Json *e = json_child(j); e; e = json_next(e))
    n += json_type(e) == JSON_ARRAY ? json_count(e) : 1;
  Reals v = {malloc((n + 1) * sizeof *v.at), 0};
  for (const Json *e = json_child(j); e; e = json_next(e)) {
    if (json_type(e) != JSON_ARRAY)
      v.at[v.n++] = (real)json_number(e);
    else
      for (const Json *x = json_child(e); x; x = json_next(x)) v.at[v.n++] = (real)json_number(x);
  }
  return v;
}

static inline double worst_difference(const real *a, const real *b, size_t n) {
  double worst = 0;
  for (size_t i = 0; i < n; i++) {
    const double d = fabs((double)a[i] - (double)b[i]);
    if (!(d <= worst)) worst = d;
  }
  return worst;
}
static inline double largest_of(const real *a, size_t n) {
  double worst = 0;
  for (size_t i = 0; i < n; i++) worst = fmax(worst, fabs((double)a[i]));
  return worst;
}

/* Logits of one plain sequence: [n, vocab], to be freed. */
static inline real *plain_logits(Model *m, const int32_t *ids, int n) {
  const PackSpan span = {0, n, -1};
  int32_t pos[64];
  Tape t;
  Tensor *y = NULL;
  for (int i = 0; i < n; i++) pos[i] = i;
  const Pack p = {.nrows = n, .ids = ids, .pos = pos, .nspans = 1, .spans = &span};
  OK(tape_init(&t, NULL));
  t.off = true;
  OK(forward_logits(m, &t, &p, &y));
  real *out = malloc(y->n * sizeof *out);
  memcpy(out, y->data, y->n * sizeof *out);
  tape_free(&t);
  return out;
}

static inline bool same_weights(Model *a, Model *b) {
  if (model_num_params(a) != model_num_params(b)) return false;
  for (int i = 0; i < model_num_params(a); i++) {
    const Tensor *x = &model_param(a, i)->t, *y = &model_param(b, i)->t;
    if (x->n != y->n || memcmp(x->data, y->data, x->n * sizeof(real)) != 0) return false;
  }
  return true;
}

static inline void random_gradients(Model *m, uint64_t seed) {
  for (int i = 0; i < model_num_params(m); i++) {
    Param *p = model_param(m, i);
    const RngKey key = {.seed = seed, .stream = RNG_USER, .prompt = (uint32_t)i};
    for (size_t k = 0; p->trainable && k < p->t.n; k++) p->t.grad[k] = (real)rng_normal(&key, k);
  }
}

static inline bool same_file(const char *a, const char *b) {
  Buf x = {0}, y = {0};
  OK(file_read(a, 0, &x));
  OK(file_read(b, 0, &y));
  const bool same = x.len && x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
  buf_free(&x);
  buf_free(&y);
  return same;
}

#endif
