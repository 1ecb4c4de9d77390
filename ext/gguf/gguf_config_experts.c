#include "gguf/gguf_config_experts.h"

#include <string.h>

/* llama.cpp's numbers of the ways in which scores are made of the router's products. */
enum { SCORES_SOFTMAX = 1, SCORES_SIGMOID = 2 };

/* llama.cpp's swiglu of gpt-oss */
static const double oss_alpha = 1.702, oss_limit = 7;

/* In a narrow mixture feed_forward_length is the width of an expert; in files of gpt-oss another
 * key says it again. */
static const KeyPair experts[] = {
    {"expert_count", "num_local_experts"},
    {"expert_used_count", "num_experts_per_tok"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
    {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"},
};
static const KeyPair deepseek[] = {
    {"leading_dense_block_count", "first_k_dense_replace"},
    {"expert_shared_count", "n_shared_experts"},
    {"expert_group_count", "n_group"},
    {"expert_group_used_count", "topk_group"},
};
/* The width of a head's keys and values is in other keys. */
static const KeyPair latent[] = {
    {"attention.kv_lora_rank", "kv_lora_rank"},
    {"rope.dimension_count", "qk_rope_head_dim"},
    {"attention.value_length_mla", "v_head_dim"},
};
#define QUERY_RANK  "attention.q_lora_rank"
#define KEYS_WIDTH  "attention.key_length_mla"
#define SCORES      "expert_gating_func"
#define DIVIDED     "expert_weights_norm"
#define EXPERTS_SUM "expert_weights_scale"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- reading ---- */

static bool is_wanted(const Reader *r, size_t i) {
  return i < 2 || (i == 2 && !(NARROW_MIXTURES >> r->family & 1)) ||
         (i == 3 && gguf_has_field(r->a, experts[i].hf));
}

static Status check_scores(Reader *r) {
  const bool sigmoid = gguf_has_trait(r->a, TRAIT_ROUTER_BIAS);
  int64_t scores = SCORES_SOFTMAX;
  try(gguf_get_int(r->g, gguf_key(r->key, r->a, SCORES), 0, 100, &scores, NULL));
  if (sigmoid ? scores == SCORES_SIGMOID
              : !scores || scores == SCORES_SOFTMAX || r->family == FAMILY_GPT_OSS)
    return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: key '%s' = %lld is not computed for %s models", r->g->path, r->key,
              (long long)scores, gguf_arch_model_type(r->a));
}

static Status read_latent(Reader *r) {
  int64_t keys = 0, rotary = 0, rank = 0;
  bool found;
  if (!gguf_has_trait(r->a, TRAIT_LATENT)) return GRPO_OK;
  for (size_t i = 0; i < COUNT(latent); i++) try(reader_copy_int(r, &latent[i], true));
  try(gguf_get_int(r->g, gguf_key(r->key, r->a, "rope.dimension_count"), 0, 1024, &rotary, NULL));
  try(gguf_get_int(r->g, gguf_key(r->key, r->a, QUERY_RANK), 0, INT32_MAX, &rank, &found));
  reader_put_name(r, "q_lora_rank");
  if (found && rank)
    buf_printf(&r->b, "%lld", (long long)rank);
  else
    buf_puts(&r->b, "null");
  try(gguf_get_int(r->g, gguf_key(r->key, r->a, KEYS_WIDTH), 0, 2048, &keys, NULL));
  if (keys <= rotary)
    return fail(GRPO_EFORMAT, "%s: key '%s' = %lld must be more than rope.dimension_count = %lld",
                r->g->path, r->key, (long long)keys, (long long)rotary);
  reader_put_int(r, "qk_nope_head_dim", keys - rotary);
  return GRPO_OK;
}

static Status read_deepseek(Reader *r) {
  static const KeyPair scale = {EXPERTS_SUM, "routed_scaling_factor"};
  bool divided = false;
  int64_t groups = 0;
  if (r->family != FAMILY_DEEPSEEK3) return GRPO_OK;
  for (size_t i = 0; i < 2; i++) try(reader_copy_int(r, &deepseek[i], true));
  try(gguf_get_int(r->g, gguf_key(r->key, r->a, deepseek[2].key), 0, INT32_MAX, &groups, NULL));
  for (size_t i = 2; i < COUNT(deepseek); i++)
    if (groups) try(reader_copy_int(r, &deepseek[i], true));
  if (!groups) reader_put_int(r, "n_group", 1), reader_put_int(r, "topk_group", 1);
  try(gguf_get_bool(r->g, gguf_key(r->key, r->a, DIVIDED), &divided, NULL));
  reader_put_bool(r, "norm_topk_prob", divided);
  if (!gguf_find(r->g, gguf_key(r->key, r->a, EXPERTS_SUM)))
    reader_put_int(r, "routed_scaling_factor", 1);
  return reader_copy_number(r, &scale);
}

Status gguf_experts_read(Reader *r) {
  const unsigned traits = gguf_arch_traits(r->a);
  try(read_latent(r));
  if (r->family == FAMILY_DEEPSEEK2) {
    reader_put_name(r, "n_routed_experts");
    buf_puts(&r->b, "null");
  }
  if (!(traits & GGUF_MIXTURE)) return GRPO_OK;
  for (size_t i = 0; i < COUNT(experts); i++)
    if (!(i == 2 && NARROW_MIXTURES >> r->family & 1))
      try(reader_copy_int(r, &experts[i], is_wanted(r, i)));
  try(check_scores(r));
  try(read_deepseek(r));
  if (gguf_has_field(r->a, "norm_topk_prob") && r->family != FAMILY_DEEPSEEK3)
    reader_put_bool(r, "norm_topk_prob", traits & GGUF_DIVIDED);
  return GRPO_OK;
}

/* ---- writing ---- */

static void put(GgufMeta *m, const GgufArch *a, const char *key, int v) {
  char full[GGUF_KEY_BYTES];
  gguf_put_u32(m, gguf_key(full, a, key), (uint32_t)v);
}

/* Keys and values of heads are made of one key head, the latent and the rotary channels. */
static void write_latent(const Config *c, const GgufArch *a, GgufMeta *m) {
  const int rotary = c->qk_rope_head_dim;
  if (c->q_lora_rank) put(m, a, QUERY_RANK, c->q_lora_rank);
  put(m, a, latent[0].key, c->kv_lora_rank);
  put(m, a, "attention.head_count_kv", 1);
  put(m, a, "attention.key_length", c->kv_lora_rank + rotary);
  put(m, a, KEYS_WIDTH, c->qk_nope_head_dim + rotary);
  put(m, a, latent[2].key, c->v_head_dim);
}

/* llama.cpp wants fewer groups taken than there are; all groups are as one. */
static void write_deepseek(const Config *c, const GgufArch *a, GgufMeta *m) {
  const bool grouped = c->n_group > 1 && c->topk_group < c->n_group;
  const bool mixture = c->family == FAMILY_DEEPSEEK3;
  char key[GGUF_KEY_BYTES];
  put(m, a, deepseek[0].key, mixture ? c->first_k_dense_replace : c->num_hidden_layers);
  put(m, a, deepseek[1].key, mixture ? c->n_shared_experts : 0);
  if (!mixture) put(m, a, experts[2].key, c->intermediate_size); /* llama.cpp wants it */
  if (!mixture) return;
  put(m, a, deepseek[2].key, grouped ? c->n_group : 1);
  put(m, a, deepseek[3].key, grouped ? c->topk_group : 1);
  put(m, a, SCORES, SCORES_SIGMOID);
  gguf_put_f32(m, gguf_key(key, a, EXPERTS_SUM), (float)c->routed_scaling_factor);
  gguf_put_bool(m, gguf_key(key, a, DIVIDED), c->norm_topk_prob);
}

void gguf_experts_write(const Config *c, const GgufArch *a, GgufMeta *m) {
  const int values[] = {c->num_experts, c->num_experts_per_tok, c->moe_intermediate_size,
                        c->shared_expert_intermediate_size};
  if (gguf_has_trait(a, TRAIT_LATENT)) write_latent(c, a, m);
  if (DEEPSEEKS >> c->family & 1) write_deepseek(c, a, m);
  if (!(gguf_arch_traits(a) & GGUF_MIXTURE)) return;
  for (size_t i = 0; i < COUNT(experts); i++) {
    const bool narrow = NARROW_MIXTURES >> c->family & 1 && c->family != FAMILY_GPT_OSS;
    if ((i == 2 && narrow) || (i == 3 && !gguf_has_field(a, experts[i].hf))) continue;
    put(m, a, experts[i].key, values[i]);
  }
}

/* ---- what llama.cpp computes otherwise ---- */

/* Dense layers are the first ones, in DeepSeek's models. */
static bool has_other_dense_layer(const Config *c) {
  for (int i = 0; i < c->num_hidden_layers; i++)
    if (!config_layer_experts(c, i) && i >= c->first_k_dense_replace) return true;
  return false;
}

static const char *reason_of_latent(const Config *c) {
  if (c->attention_bias || c->mlp_bias) return "has no biases with latent attention";
  if (!c->q_lora_rank && c->num_hidden_layers != 26 && c->num_hidden_layers != 27)
    return "has queries without a rank only in models of 26 or 27 layers";
  if (c->rope_scaling == ROPE_YARN &&
      (c->rope_mscale_all_dim == 0 || c->rope_attention_factor != 1))
    return "has mscale and mscale_all_dim of one value in YaRN with latent attention";
  return NULL;
}

static const char *reason_of_oss(const Config *c) {
  if (!c->attention_bias) return "wants biases in attention";
  if (c->swiglu_limit != oss_limit || c->swiglu_alpha != oss_alpha)
    return "has a swiglu_limit of 7 and a swiglu_alpha of 1.702";
  for (int i = 0; i < c->num_hidden_layers; i++)
    if ((config_window(c, i) > 0) != (i % 2 == 0))
      return "has a window in the first layer, and then in every other";
  return NULL;
}

static const char *reason_of_mixture(const Config *c, const GgufArch *a) {
  const bool divided = gguf_arch_traits(a) & GGUF_DIVIDED;
  if (has_other_dense_layer(c)) return "has experts in every layer";
  if (c->family == FAMILY_GPT_OSS) return reason_of_oss(c);
  if (c->attention_bias) return "has no biases in attention";
  if (c->family == FAMILY_OLMOE && c->num_key_value_heads != c->num_attention_heads)
    return "has as many key heads as heads";
  if (c->family == FAMILY_QWEN2_MOE && c->num_attention_heads * c->head_dim != c->hidden_size)
    return "has heads of hidden_size / num_attention_heads";
  if (gguf_has_field(a, "shared_expert_intermediate_size") && !c->shared_expert_intermediate_size)
    return "wants an expert for every token";
  if (c->family == FAMILY_DEEPSEEK3) return c->n_shared_experts ? NULL : "wants shared experts";
  if (divided == c->norm_topk_prob) return NULL;
  return divided ? "divides the weights of a token's experts by their sum"
                 : "does not divide the weights of a token's experts by their sum";
}

const char *gguf_experts_reason(const Config *c, const GgufArch *a) {
  const char *why = gguf_has_trait(a, TRAIT_LATENT) ? reason_of_latent(c) : NULL;
  if (why || !(gguf_arch_traits(a) & GGUF_MIXTURE)) return why;
  return reason_of_mixture(c, a);
}
