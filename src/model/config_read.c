#include "model/config_read.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/nearest.h"
#include "model/config_check.h"
#include "model/config_fields.h"
#include "model/config_keys.h"
#include "model/config_rope.h"

/* ---- fields ------------------------------------------------------------------------- */

static Status read_field(const Field *f, const Json *v, const char *key, const char *what,
                         double *out) {
  int i;
  bool b;
  switch (f->type) {
  case FIELD_INT:
    try(config_read_int(v, key, (int64_t)f->lo, (int64_t)f->hi, what, &i));
    *out = i;
    return GRPO_OK;
  case FIELD_BOOL:
    try(config_read_bool(v, key, what, &b));
    *out = b;
    return GRPO_OK;
  case FIELD_NUM:
    break;
  }
  return config_read_num(v, key, f->lo, f->hi, what, out);
}

/* "LLLG": three windowed layers, then a full one, and so on. */
static bool is_pattern(const Field *f, const Json *v, double *length) {
  const char *s = json_string(v);
  const size_t n = s && f->at == offsetof(Config, sliding_window_pattern) ? strspn(s, "L") : 0;
  if (!n || strcmp(s + n, "G") != 0) return false;
  *length = (double)n + 1;
  return true;
}

/* transformers writes a window of 0 where windows are switched off. */
static bool is_no_window(const Config *c, const Field *f, const Json *v) {
  return f->at == offsetof(Config, sliding_window) && !c->use_sliding_window &&
         json_type(v) == JSON_NUMBER && json_number(v) == 0;
}

static Status read_fields(Config *c, const Json *j, const char *what) {
  for (int i = 0; i < config_num_fields(); i++) {
    const Field f = config_field(c->family, i);
    double value = f.otherwise;
    const char *key = f.key;
    const Json *v = *key ? json_get(j, key) : NULL;
    if (*key && !v && (v = json_get(j, f.common_key)) != NULL) key = f.common_key;
    if (v && json_type(v) == JSON_NULL) {
      /* to transformers a null switch is off, or an error */
      if (f.type == FIELD_BOOL && f.otherwise != 0) try(read_field(&f, v, key, what, &value));
      if (f.nullable) value = 0;
    } else if (v && is_no_window(c, &f, v)) {
      value = 0;
    } else if (v && !is_pattern(&f, v, &value)) {
      try(read_field(&f, v, key, what, &value));
    }
    config_set(c, &f, value);
  }
  return GRPO_OK;
}

/* The factor of the embeddings, rounded to the number type that the model was trained in; not in
 * Gemma 4. */
static double scale_of_embeddings(const Config *c, const char *dtype) {
  const float root = (float)sqrt((double)c->hidden_size);
  if (dtype && strcmp(dtype, "bfloat16") == 0) return (double)bf16_to_f32(f32_to_bf16(root));
  if (dtype && strcmp(dtype, "float16") == 0) return (double)f16_to_f32(f32_to_f16(root));
  return (double)root;
}

/* LFM2's width: two thirds of the file's, times a factor, up to the next multiple. */
static void adjust_width(Config *c) {
  const int of = c->block_multiple_of;
  if (c->family != FAMILY_LFM2 || !c->block_auto_adjust_ff_dim) return;
  const int width = (int)(c->block_ffn_dim_multiplier * (2 * c->intermediate_size / 3));
  c->intermediate_size = of * ((width + of - 1) / of);
  c->block_auto_adjust_ff_dim = false;
}

/* Fields that follow from others when they are absent. */
static Status derive(Config *c, const char *dtype, const char *what) {
  if (!c->intermediate_size) c->intermediate_size = 4 * c->hidden_size;
  adjust_width(c);
  if (config_traits(c) & TRAIT_LATENT) {
    c->num_key_value_heads = 1;
    c->head_dim = c->kv_lora_rank + c->qk_rope_head_dim;
  }
  if (c->family == FAMILY_GEMMA4 && !c->enable_moe_block)
    c->num_experts = c->num_experts_per_tok = c->moe_intermediate_size = 0;
  if (c->family == FAMILY_DEEPSEEK3)
    c->shared_expert_intermediate_size = c->n_shared_experts * c->moe_intermediate_size;
  if (!c->num_key_value_heads) c->num_key_value_heads = c->num_attention_heads;
  if (!c->head_dim) {
    if (c->hidden_size % c->num_attention_heads)
      return fail(GRPO_EFORMAT, "%s: hidden size %d is not a multiple of %d attention heads", what,
                  c->hidden_size, c->num_attention_heads);
    c->head_dim = c->hidden_size / c->num_attention_heads;
  }
  if (GEMMAS >> c->family & 1 && c->embedding_scale == 0)
    c->embedding_scale = scale_of_embeddings(c, OLD_GEMMAS >> c->family & 1 ? dtype : NULL);
  return GRPO_OK;
}

/* ---- options that would change the result and are not supported ------------------------- */

typedef enum Must { MUST_BE_FALSE, MUST_BE_TRUE, MUST_BE_NULL, MUST_BE_ONE } Must;
typedef struct Refusal {
  const char *key;
  Must must;
  Families families;
} Refusal;

static const Refusal refusals[] = {
    {"scale_attn_by_inverse_layer_idx", MUST_BE_FALSE, ALL},
    {"reorder_and_upcast_attn", MUST_BE_FALSE, ALL},
    {"add_cross_attention", MUST_BE_FALSE, ALL},
    {"is_encoder_decoder", MUST_BE_FALSE, ALL},
    {"use_bidirectional_attention", MUST_BE_FALSE, ALL & ~IN(GEMMA4)},
    {"scale_attn_weights", MUST_BE_TRUE, ALL},
    {"attn_logit_softcapping", MUST_BE_NULL, ALL & ~OLD_GEMMAS},
    {"final_logit_softcapping", MUST_BE_NULL, ALL & ~GEMMAS & ~IN(NANOCHAT)},
    {"query_pre_attn_scalar", MUST_BE_NULL, ALL & ~OLD_GEMMAS},
    {"attn_output_gate", MUST_BE_TRUE, DELTANETS},
    {"conv_bias", MUST_BE_FALSE, LFMS},
    {"use_expert_bias", MUST_BE_TRUE, IN(LFM2_MOE)},
    {"use_sandwich_norm", MUST_BE_TRUE, IN(LFM3)},
    {"use_attention_gate", MUST_BE_TRUE, IN(LFM3)},
    {"block_use_swiglu", MUST_BE_TRUE, IN(LFM2)},
    {"use_pos_enc", MUST_BE_TRUE, IN(LFM2) | IN(LFM2_MOE)},
    {"tie_embedding", MUST_BE_TRUE, IN(LFM2) | IN(LFM2_MOE)},
    {"do_layer_norm_before", MUST_BE_TRUE, IN(OPT)},
    {"enable_bias", MUST_BE_TRUE, IN(OPT)},
    {"layer_norm_elementwise_affine", MUST_BE_TRUE, IN(OPT)},
    {"_remove_final_layer_norm", MUST_BE_FALSE, IN(OPT)},
    {"partial_rotary_factor", MUST_BE_ONE, ALL & ~PARTLY_ROPED},
};

static Status check_refusals(const Config *c, const Json *j, const char *what) {
  static const char *const wanted[] = {"false", "true", "null", "1"};
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    const Refusal *r = &refusals[i];
    const Json *v = json_get(j, r->key);
    if (config_absent(v) || !(r->families >> c->family & 1)) continue;
    bool ok = r->must == MUST_BE_FALSE  ? json_type(v) == JSON_BOOL && !json_bool(v)
              : r->must == MUST_BE_TRUE ? json_bool(v)
              : r->must == MUST_BE_ONE  ? json_number(v) == 1.0
                                        : false;
    if (!ok)
      return fail(GRPO_EFORMAT, "%s: %s is supported only as %s", what, r->key, wanted[r->must]);
  }
  return GRPO_OK;
}

static Status check_activation(const Config *c, const Json *j, const char *what) {
  static const char *const names[][3] = {[ACT_SILU] = {"silu", "swish"},
                                         [ACT_GELU_TANH] = {"gelu_new", "gelu_pytorch_tanh"},
                                         [ACT_GELU] = {"gelu"},
                                         [ACT_RELU] = {"relu"},
                                         [ACT_RELU2] = {"relu2"}};
  const FamilyRow *f = config_family(c->family);
  const Json *v = json_get(j, f->activation_key);
  if (config_absent(v)) return GRPO_OK;
  const char *s = json_string(v);
  for (const char *const *a = names[config_activation(c)]; *a; a++)
    if (s && strcmp(s, *a) == 0) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: %s '%s' is not supported (%s models use %s)", what,
              f->activation_key, s ? s : "?", f->type, f->activation);
}

/* Every layer must be dense: n_routed_experts is null, or the experts begin after the last
 * layer. */
static Status check_dense(Config *c, const Json *j, const char *what) {
  const Json *experts = json_get(j, "n_routed_experts");
  if (c->family != FAMILY_DEEPSEEK2) return GRPO_OK;
  if (experts && config_absent(experts)) c->first_k_dense_replace = c->num_hidden_layers;
  if (c->first_k_dense_replace >= c->num_hidden_layers) return GRPO_OK;
  return fail(
      GRPO_EFORMAT,
      "%s: the layers from first_k_dense_replace = %d on are mixtures of experts, which are not "
      "supported; it would have to be num_hidden_layers = %d",
      what, c->first_k_dense_replace, c->num_hidden_layers);
}

/* A number of some families' files that must be that of another key. */
static Status check_same(const Json *j, const char *key, const char *other, int want,
                         const char *what) {
  const Json *v = json_get(j, key);
  if (config_absent(v) || json_number(v) == want) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: %s is supported only as %s = %d", what, key, other, want);
}

/* OPT of 350M projects between embeddings and layers of another width; gpt-oss says twice how many
 * experts a token takes; Gemma 4's two tables have the same tokens. */
static Status check_sizes(const Config *c, const Json *j, const char *what) {
  if (c->family == FAMILY_OPT)
    try(check_same(j, "word_embed_proj_dim", "hidden_size", c->hidden_size, what));
  if (c->family == FAMILY_GPT_OSS)
    try(check_same(j, "experts_per_token", "num_experts_per_tok", c->num_experts_per_tok, what));
  if (c->family == FAMILY_GEMMA4 && c->per_layer_size)
    try(check_same(j, "vocab_size_per_layer_input", "vocab_size", c->vocab_size, what));
  return GRPO_OK;
}

/* "vision" is about images alone. */
static Status check_gemma4(const Config *c, const Json *j, const char *what) {
  const Json *both = json_get(j, "use_bidirectional_attention");
  if (c->family != FAMILY_GEMMA4) return GRPO_OK;
  if (config_absent(both) || (json_type(both) == JSON_BOOL && !json_bool(both)) ||
      (json_string(both) && strcmp(json_string(both), "vision") == 0))
    return GRPO_OK;
  return fail(GRPO_EFORMAT,
              "%s: use_bidirectional_attention is supported only as null or \"vision\"", what);
}

static bool is_true(const Json *j, const char *key) {
  const Json *v = json_get(j, key);
  return v && json_bool(v);
}

/* quantization_config: only bitsandbytes' NF4 is supported, and MXFP4 of gpt-oss. */
static Status check_quantization(const Config *c, const Json *q, const char *what) {
  if (!q || json_type(q) == JSON_NULL) return GRPO_OK;
  const char *method = json_string(json_get(q, "quant_method"));
  if (json_type(q) != JSON_OBJECT)
    return fail(GRPO_EFORMAT, "%s: quantization_config must be an object or null", what);
  if (method && strcmp(method, "mxfp4") == 0 && c->family == FAMILY_GPT_OSS) return GRPO_OK;
  if ((method && strcmp(method, "bitsandbytes") != 0) ||
      (!method && !is_true(q, "load_in_4bit") && !is_true(q, "load_in_8bit")))
    return fail(GRPO_EFORMAT,
                "%s: quantization_config: weights quantised by '%.40s' are not supported; take the "
                "unquantised checkpoint, or one in bitsandbytes' NF4",
                what, method ? method : "(no quant_method)");
  if (is_true(q, "load_in_8bit") || !is_true(q, "load_in_4bit"))
    return fail(GRPO_EFORMAT,
                "%s: quantization_config: bitsandbytes' 8-bit weights are not supported; take the "
                "unquantised checkpoint and load it with quantize = \"int8\"",
                what);
  const char *type = json_string(json_get(q, "bnb_4bit_quant_type"));
  if (!type || strcmp(type, "nf4") != 0)
    return fail(GRPO_EFORMAT, "%s: bnb_4bit_quant_type '%.40s' is not supported (nf4 is)", what,
                type ? type : "fp4");
  const char *storage = json_string(json_get(q, "bnb_4bit_quant_storage"));
  if (storage && strcmp(storage, "uint8") != 0)
    return fail(GRPO_EFORMAT, "%s: bnb_4bit_quant_storage '%.40s' is not supported (uint8 is)",
                what, storage);
  return GRPO_OK;
}

/* ---- kinds of layers ----------------------------------------------------------- */

/* A full layer of families whose windowed layers alone have rotary positions is unrotated. */
static LayerKind full_kind(const Config *c) {
  const bool has_window = c->sliding_window && c->use_sliding_window;
  return has_window && UNROTATED >> c->family & 1 ? LAYER_UNROTATED : LAYER_FULL;
}

static LayerKind kind_by_rule(const Config *c, int layer) {
  const int pattern = c->sliding_window_pattern, every = c->no_rope_layer_interval;
  if (every && c->family == FAMILY_SMOLLM3)
    return (layer + 1) % every ? LAYER_FULL : LAYER_UNROTATED;
  if (DELTANETS >> c->family & 1)
    return (layer + 1) % c->full_attention_interval ? LAYER_DELTA : LAYER_FULL;
  if (c->family == FAMILY_LFM3 && (layer % 2 || layer == 0)) return LAYER_CONV;
  if (!c->sliding_window || !c->use_sliding_window) return LAYER_FULL;
  if (c->family == FAMILY_LFM3) return layer % 4 ? LAYER_FULL : LAYER_WINDOWED;
  const bool windowed =
      layer >= c->max_window_layers && (pattern == 0 || (layer + 1) % pattern != 0);
  return windowed ? LAYER_WINDOWED : full_kind(c);
}

static Status layer_type(const Json *t, const char *what, LayerKind *kind) {
  const char *s = json_string(t);
  for (int k = 0; s && k < LAYER_KINDS; k++) {
    *kind = (LayerKind)k;
    if (strcmp(s, config_layer_word(*kind)) == 0) return GRPO_OK;
  }
  return fail(GRPO_EFORMAT,
              "%s: layer_types '%s' is not supported (full_attention, sliding_attention, "
              "linear_attention and conv are)",
              what, s ? s : "?");
}

/* Can the family's files choose this kind by layer_types? */
static bool can_choose(const Config *c, LayerKind kind) {
  const bool has_window = c->sliding_window && c->use_sliding_window;
  if (kind == LAYER_DELTA) return DELTANETS >> c->family & 1;
  if (kind == LAYER_CONV) return LFMS >> c->family & 1;
  return config_has_layer_types(c) && (kind != LAYER_WINDOWED || has_window);
}

/* Some families' files choose a layer's kind by layer_types; in others layer_types must agree with
 * the other keys. */
static Status read_layer_types(Config *c, const Json *types, const char *what) {
  int n = 0;
  for (const Json *t = json_child(types); t; t = json_next(t), n++) {
    LayerKind kind;
    try(layer_type(t, what, &kind));
    if (n >= c->num_hidden_layers) continue;
    if (kind == LAYER_FULL) kind = full_kind(c);
    if (kind != kind_by_rule(c, n) && !can_choose(c, kind))
      return fail(GRPO_EFORMAT, "%s: layer_types says %s for layer %d, but the other keys do not",
                  what, config_layer_word(kind), n);
    c->layer_kind[n] = (uint8_t)kind;
  }
  if (n != c->num_hidden_layers && config_has_layer_types(c))
    return fail(GRPO_EFORMAT, "%s: layer_types lists %d layers, but there are %d", what, n,
                c->num_hidden_layers);
  return GRPO_OK;
}

/* no_rope_layers of smollm3: 1 for a layer that HAS rotary positions. */
static Status read_unrotated(Config *c, const Json *list, const char *what) {
  int n = 0, rotates;
  for (const Json *v = json_child(list); v; v = json_next(v), n++) {
    try(config_read_int(v, "no_rope_layers", 0, 1, what, &rotates));
    if (n < c->num_hidden_layers)
      c->layer_kind[n] = (uint8_t)(rotates ? LAYER_FULL : LAYER_UNROTATED);
  }
  if (n != c->num_hidden_layers)
    return fail(GRPO_EFORMAT, "%s: no_rope_layers lists %d layers, but there are %d", what, n,
                c->num_hidden_layers);
  return GRPO_OK;
}

/* full_attn_idxs of older files of lfm2: all other layers are convolutions. */
static Status read_attention_layers(Config *c, const Json *list, const char *what) {
  int at;
  if (config_absent(list)) return GRPO_OK;
  for (int i = 0; i < c->num_hidden_layers; i++) c->layer_kind[i] = LAYER_CONV;
  for (const Json *v = json_child(list); v; v = json_next(v)) {
    try(config_read_int(v, "full_attn_idxs", 0, c->num_hidden_layers - 1, what, &at));
    c->layer_kind[at] = LAYER_FULL;
  }
  return GRPO_OK;
}

/* Layers without experts, by their numbers. */
static Status read_dense_layers(Config *c, const Json *list, const char *what) {
  int at;
  for (const Json *v = config_absent(list) ? NULL : json_child(list); v; v = json_next(v)) {
    try(config_read_int(v, "mlp_only_layers", 0, CONFIG_MAX_LAYERS - 1, what, &at));
    c->layer_dense[at] = true;
  }
  return GRPO_OK;
}

/* Granite 4: every layer must be attention, which has rotary positions only if the file says so. */
static Status read_granite4(Config *c, const Json *j, const char *what) {
  const char *positions = json_string(json_get(j, "position_embedding_type"));
  const Json *types = json_get(j, "layer_types");
  int n = 0;
  for (const Json *t = config_absent(types) ? NULL : json_child(types); t; t = json_next(t), n++)
    if (!json_string(t) || !strstr(json_string(t), "attention") ||
        strcmp(json_string(t), "linear_attention") == 0)
      return fail(
          GRPO_EFORMAT,
          "%s: layer %d is '%s', a state-space layer, which is not computed; take a Granite "
          "of attention layers alone",
          what, n, json_string(t) ? json_string(t) : "?");
  if (n != c->num_hidden_layers)
    return fail(GRPO_EFORMAT, "%s: layer_types lists %d layers of attention, but there are %d",
                what, n, c->num_hidden_layers);
  for (int i = 0; i < n; i++)
    c->layer_kind[i] = positions && strcmp(positions, "rope") == 0 ? LAYER_FULL : LAYER_UNROTATED;
  return GRPO_OK;
}

static Status check_list(const Json *j, const char *key, const char *what) {
  const Json *list = json_get(j, key);
  if (config_absent(list) || json_type(list) == JSON_ARRAY) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: %s must be a list or null", what, key);
}

static Status read_windows(Config *c, const Json *j, const char *what) {
  const Json *use = json_get(j, "use_sliding_window"), *w = json_get(j, "sliding_window");
  const bool off = !config_absent(use) && json_type(use) == JSON_BOOL && !json_bool(use);
  if (!config_absent(w) && !off && !(WINDOWED >> c->family & 1))
    return fail(GRPO_EFORMAT, "%s: sliding_window is not supported for %s models (set it to null)",
                what, config_model_type(c));
  for (int i = 0; i < c->num_hidden_layers; i++) c->layer_kind[i] = (uint8_t)kind_by_rule(c, i);
  try(check_list(j, "layer_types", what));
  try(check_list(j, "no_rope_layers", what));
  try(check_list(j, "full_attn_idxs", what));
  try(check_list(j, "mlp_only_layers", what));
  const Json *types = json_get(j, "layer_types"), *unrotated = json_get(j, "no_rope_layers");
  if (c->family == FAMILY_GRANITE4) return read_granite4(c, j, what);
  if (c->family == FAMILY_SMOLLM3)
    return config_absent(unrotated) ? GRPO_OK : read_unrotated(c, unrotated, what);
  if (MIXTURES >> c->family & 1) try(read_dense_layers(c, json_get(j, "mlp_only_layers"), what));
  if (c->family == FAMILY_LFM2) try(read_attention_layers(c, json_get(j, "full_attn_idxs"), what));
  return config_absent(types) ? GRPO_OK : read_layer_types(c, types, what);
}

/* The last num_kv_shared_layers layers read the keys and values of earlier ones. */
static Status read_sharing(Config *c, const char *what) {
  const int last = c->num_hidden_layers - 1, first = last + 1 - c->num_kv_shared_layers;
  if (c->family == FAMILY_GEMMA4) c->layer_kind[last] = LAYER_FULL; /* whatever layer_types says */
  for (int i = last; i >= first && i >= 0; i--)
    c->layer_kind[i] = c->layer_kind[i] == LAYER_WINDOWED ? LAYER_SHARING_WINDOW : LAYER_SHARING;
  for (int i = last; i >= first; i--)
    if (i < 0 || config_keys_layer(c, i) == i)
      return fail(
          GRPO_EFORMAT,
          "%s: num_kv_shared_layers = %d, but no earlier layer has the keys and values that "
          "layer %d reads",
          what, c->num_kv_shared_layers, i);
  return GRPO_OK;
}

/* ---- heads of full layers -------------------------------------------------------- */

typedef struct HeadSizes {
  int head_dim, kv_heads;
} HeadSizes;

static Status read_head_sizes(const Json *layer, const char *what, HeadSizes *s) {
  for (const Json *v = json_child(layer); v; v = json_next(v)) {
    const char *key = json_key(v);
    int *out = strcmp(key, "head_dim") == 0              ? &s->head_dim
               : strcmp(key, "num_key_value_heads") == 0 ? &s->kv_heads
                                                         : NULL;
    if (!out)
      return fail(GRPO_EFORMAT,
                  "%s: per_layer_config: %.40s is not supported (head_dim and num_key_value_heads "
                  "are)",
                  what, key);
    try(config_read_int(v, key, 1, 1024, what, out));
  }
  return GRPO_OK;
}

/* Full layers have common sizes, and so have those with a window: the ones of the whole model. */
static Status take_head_sizes(Config *c, int layer, const HeadSizes *s, const char *what) {
  const bool full = !config_window(c, layer);
  if (full && !c->global_head_dim) {
    c->global_head_dim = s->head_dim;
    c->global_kv_heads = s->kv_heads;
  }
  if (s->head_dim == config_head_dim(c, layer) && s->kv_heads == config_kv_heads(c, layer) &&
      (s->kv_heads == c->num_key_value_heads || c->keys_are_values))
    return GRPO_OK;
  return fail(GRPO_EFORMAT,
              "%s: per_layer_config: layer %d has %d heads of %d, but full layers must be alike, "
              "with a number of their own only where attention_k_eq_v is true, and layers with a "
              "window as the other keys say",
              what, layer, s->kv_heads, s->head_dim);
}

static Status read_per_layer_config(Config *c, const Json *list, const char *what) {
  HeadSizes sizes[CONFIG_MAX_LAYERS];
  for (int i = 0; i < c->num_hidden_layers; i++)
    sizes[i] = (HeadSizes){c->head_dim, c->num_key_value_heads};
  for (const Json *v = json_child(list); v; v = json_next(v)) {
    char *end;
    const long layer = strtol(json_key(v), &end, 10);
    if (end == json_key(v) || *end || layer < 0 || layer >= c->num_hidden_layers)
      return fail(GRPO_EFORMAT, "%s: per_layer_config: there is no layer '%.40s'", what,
                  json_key(v));
    if (json_type(v) != JSON_OBJECT)
      return fail(GRPO_EFORMAT, "%s: per_layer_config: layer '%ld' must be an object", what, layer);
    try(read_head_sizes(v, what, &sizes[layer]));
  }
  c->global_head_dim = c->global_kv_heads = 0;
  for (int i = 0; i < c->num_hidden_layers; i++) try(take_head_sizes(c, i, &sizes[i], what));
  return GRPO_OK;
}

/* Newer files say the sizes layer by layer, published ones by global_head_dim. */
static Status read_full_heads(Config *c, const Json *j, const char *what) {
  const Json *list = json_get(j, "per_layer_config");
  if (c->family != FAMILY_GEMMA4) return GRPO_OK;
  if (json_type(list) == JSON_OBJECT) return read_per_layer_config(c, list, what);
  if (!config_absent(list))
    return fail(GRPO_EFORMAT, "%s: per_layer_config must be an object or null", what);
  if (!c->global_head_dim) c->global_head_dim = c->head_dim;
  if (!c->global_kv_heads || !c->keys_are_values) c->global_kv_heads = c->num_key_value_heads;
  return GRPO_OK;
}

/* ---- special tokens --------------------------------------------------------------- */

/* Ids outside the vocabulary are placeholders of a template; they can never be sampled. */
static Status read_token(const Json *j, const char *key, const char *what, int *out) {
  const Json *v = json_get(j, key);
  if (config_absent(v)) return GRPO_OK;
  if (json_type(v) == JSON_ARRAY) v = json_child(v);
  return v ? config_read_int(v, key, -1, INT32_MAX, what, out) : GRPO_OK;
}

static Status add_eos(Config *c, const Json *v, const char *what) {
  int id = -1;
  try(config_read_int(v, "eos_token_id", -1, INT32_MAX, what, &id));
  if (id < 0 || config_is_eos(c, id)) return GRPO_OK;
  if (c->num_eos == CONFIG_MAX_EOS)
    return fail(GRPO_EFORMAT, "%s: more than %d different eos_token_id", what, CONFIG_MAX_EOS);
  c->eos_token_id[c->num_eos++] = id;
  return GRPO_OK;
}

static Status read_special(Config *c, const Json *j, const char *what) {
  try(read_token(j, "bos_token_id", what, &c->bos_token_id));
  try(read_token(j, "pad_token_id", what, &c->pad_token_id));
  int mask = -1;
  try(read_token(j, "mask_token_id", what, &mask));
  if (mask >= 0 && mask < c->vocab_size) c->denoiser = true, c->mask_token_id = mask;
  const Json *v = json_get(j, "eos_token_id");
  if (config_absent(v)) return GRPO_OK;
  if (json_type(v) != JSON_ARRAY) return add_eos(c, v, what);
  for (const Json *e = json_child(v); e; e = json_next(e)) try(add_eos(c, e, what));
  return GRPO_OK;
}

Status config_read_generation(Config *c, const Json *j, const char *what) {
  return read_special(c, j, what);
}

/* ---- the whole ----------------------------------------------------------------------- */

/* Known types of models, and the part of each that is not computed here. */
static const struct {
  const char *word, *lacks; /* word: a part of model_type */
} lacking[] = {
    {"mamba", "state-space layers"},
    {"falcon_h1", "state-space layers"},

    {"nemotron_h", "state-space layers"},
    {"bamba", "state-space layers"},
    {"jamba", "state-space layers"},
    {"zamba", "state-space layers"},
    {"rwkv", "layers with another state"},
    {"recurrent_gemma", "layers with another state"},
    {"gemma3n", "several streams (AltUp), low-rank residuals (LAuReL) and sparse activations"},
    {"llama4", "attention in chunks, and experts whose weights multiply their input"},
    {"t5", "an encoder"},
    {"bart", "an encoder"}};

static Status unknown_type(const char *type, const char *what) {
  const char *types[FAMILY_COUNT];
  for (int f = 0; f < FAMILY_COUNT; f++) types[f] = config_family((Family)f)->type;
  for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++)
    if (strstr(type, lacking[i].word))
      return fail(GRPO_EFORMAT,
                  "%s: model_type '%s' is not supported, because it has %s; docs/models.md lists "
                  "what is",
                  what, type, lacking[i].lacks);
  const char *near = nearest_name(type, types, FAMILY_COUNT);
  return fail(GRPO_EFORMAT,
              "%s: model_type '%s' is not supported%s%s; docs/models.md lists what is", what, type,
              near ? "; the nearest that is: " : "", near ? near : "");
}

static Status read_family(Config *c, const Json *j, const char *what) {
  const Json *v = json_get(j, "model_type");
  const char *type = v ? json_string(v) : NULL;
  if (!type)
    return fail(GRPO_EFORMAT, "%s: model_type is missing; give it, for instance \"llama\"", what);
  for (int f = 0; f < FAMILY_COUNT; f++) {
    c->family = (Family)f;
    if (strcmp(type, config_family((Family)f)->type) == 0) return GRPO_OK;
  }
  return unknown_type(type, what);
}

/* The part that describes the decoder; files of multimodal models nest it. */
static const Json *text_part(const Json *j) {
  static const char *const nesting[] = {"gemma3", "gemma4", "mistral3", "qwen3_5", "qwen3_5_moe"};
  const Json *type = json_get(j, "model_type"), *text = json_get(j, "text_config");
  const char *s = type ? json_string(type) : NULL;
  for (size_t i = 0; s && i < sizeof nesting / sizeof *nesting; i++)
    if (strcmp(s, nesting[i]) == 0 && json_type(text) == JSON_OBJECT) return text;
  return j;
}

static const char *dtype_of(const Json *j) {
  const Json *v = json_get(j, "dtype");
  if (config_absent(v)) v = json_get(j, "torch_dtype");
  return v ? json_string(v) : NULL;
}

Status config_read(Config *out, const Json *j, const char *what) {
  if (json_type(j) != JSON_OBJECT) return fail(GRPO_EFORMAT, "%s: not a JSON object", what);
  Config c = {.bos_token_id = -1, .pad_token_id = -1};
  const Json *text = text_part(j);
  const char *dtype = dtype_of(text) ? dtype_of(text) : dtype_of(j);
  try(read_family(&c, text, what));
  try(check_refusals(&c, j, what));
  try(check_quantization(&c, json_get(j, "quantization_config"), what));
  try(check_refusals(&c, text, what));
  try(check_activation(&c, text, what));
  try(read_fields(&c, text, what));
  try(check_dense(&c, text, what));
  try(check_sizes(&c, text, what));
  try(derive(&c, dtype, what));
  try(check_gemma4(&c, text, what));
  try(read_windows(&c, text, what));
  try(read_sharing(&c, what));
  try(read_full_heads(&c, text, what));
  try(config_read_rope(&c, text, what));
  try(read_special(&c, j, what));
  if (text != j) try(read_special(&c, text, what));
  try(config_check(&c, what));
  try(config_check_keys(&c, text, what));
  *out = c;
  return GRPO_OK;
}
