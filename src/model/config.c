#include "model/config.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "model/bnb.h"
#include "model/config_impl.h"
#include "model/gguf_model.h"
#include "os/file.h"

enum { CONFIG_FILE_MAX = 16 << 20 };

/* ---- families and fields ----------------------------------------------------- */

const FamilyRow family_rows[FAMILY_COUNT] = {
#define FAMILY(name, type, architecture, activation_key, activation, traits)                       \
  [FAMILY_##name] = {type, architecture, activation_key, activation, traits},
#include "model/config.def"
};

#define IN(name) (1u << FAMILY_##name)
#define ALL      (~0u)
#define ROPED    (ALL & ~IN(GPT2) & ~IN(GPT2_MLA))
#define LATENTS  (IN(GPT2_MLA) | IN(DEEPSEEK2))
#define QWENS    (IN(QWEN2) | IN(QWEN3))
#define GEMMAS   (IN(GEMMA2) | IN(GEMMA3))
#define WINDOWED (IN(MISTRAL) | QWENS | GEMMAS | IN(PHI3))

typedef enum FieldId {
#define FIELD_ID(field)                                      FIELD_##field,
#define INT(field, key, families, otherwise, lo, hi)         FIELD_ID(field)
#define NUM(field, key, families, otherwise, lo, hi)         FIELD_ID(field)
#define INT_OR_NULL(field, key, families, otherwise, lo, hi) FIELD_ID(field)
#define NUM_OR_NULL(field, key, families, otherwise, lo, hi) FIELD_ID(field)
#define BOOL(field, key, families, otherwise)                FIELD_ID(field)
#include "model/config.def"
  FIELD_COUNT
} FieldId;

typedef struct FieldRow {
  Field field;
  unsigned families;
} FieldRow;

static const FieldRow field_rows[FIELD_COUNT] = {
#define ROW(field, key, families, type, nullable, otherwise, lo, hi)                               \
  {{key, key, type, nullable, offsetof(Config, field), otherwise, lo, hi}, families},
#define INT(field, key, families, otherwise, lo, hi)                                               \
  ROW(field, key, families, FIELD_INT, false, otherwise, lo, hi)
#define NUM(field, key, families, otherwise, lo, hi)                                               \
  ROW(field, key, families, FIELD_NUM, false, otherwise, lo, hi)
#define INT_OR_NULL(field, key, families, otherwise, lo, hi)                                       \
  ROW(field, key, families, FIELD_INT, true, otherwise, lo, hi)
#define NUM_OR_NULL(field, key, families, otherwise, lo, hi)                                       \
  ROW(field, key, families, FIELD_NUM, true, otherwise, lo, hi)
#define BOOL(field, key, families, otherwise)                                                      \
  ROW(field, key, families, FIELD_BOOL, false, otherwise, 0, 1)
#include "model/config.def"
};

/* Where a family differs from the common row. */
typedef struct Difference {
  Family family;
  FieldId field;
  const char *key; /* NULL: the common one */
  double otherwise;
} Difference;

static const Difference differences[] = {
#define KEY(name, field, key, otherwise) {FAMILY_##name, FIELD_##field, key, otherwise},
#define DEFAULT(name, field, otherwise)  {FAMILY_##name, FIELD_##field, NULL, otherwise},
#include "model/config.def"
};

int config_num_fields(void) { return FIELD_COUNT; }

Field config_field(Family f, int i) {
  Field field = field_rows[i].field;
  if (!(field_rows[i].families >> f & 1)) field.key = "";
  for (size_t k = 0; k < sizeof differences / sizeof *differences; k++) {
    const Difference *d = &differences[k];
    if (d->family != f || (int)d->field != i) continue;
    if (d->key) field.key = d->key;
    field.otherwise = d->otherwise;
  }
  return field;
}

double config_get(const Config *c, const Field *f) {
  const char *at = (const char *)c + f->at;
  return f->type == FIELD_INT    ? *(const int *)(const void *)at
         : f->type == FIELD_BOOL ? *(const bool *)(const void *)at
                                 : *(const double *)(const void *)at;
}

static void set(Config *c, const Field *f, double v) {
  char *at = (char *)c + f->at;
  if (f->type == FIELD_INT)
    *(int *)(void *)at = (int)v;
  else if (f->type == FIELD_BOOL)
    *(bool *)(void *)at = v != 0;
  else
    *(double *)(void *)at = v;
}

unsigned config_traits(const Config *c) {
  unsigned t = family_rows[c->family].traits;
  if (c->attention_bias) t |= TRAIT_QKV_BIAS | TRAIT_O_BIAS;
  if (c->mlp_bias) t |= TRAIT_MLP_BIAS;
  if (!c->tie_word_embeddings) t |= TRAIT_UNTIED;
  if (c->q_lora_rank && t & TRAIT_LATENT) t |= TRAIT_LOW_QUERY;
  return t;
}

const char *config_model_type(const Config *c) { return family_rows[c->family].type; }

int config_window(const Config *c, int layer) {
  return c->windowed[layer / 32] >> layer % 32 & 1 ? c->sliding_window : 0;
}

int config_rotary_dim(const Config *c) {
  const double part = c->partial_rotary_factor;
  if (config_traits(c) & TRAIT_LATENT) return c->qk_rope_head_dim;
  return part > 0 ? (int)(c->head_dim * part) : c->head_dim;
}

size_t config_cache_reals(const Config *c, bool every_head) {
  const size_t layers = (size_t)c->num_hidden_layers, heads = (size_t)c->num_attention_heads;
  const bool latent = config_traits(c) & TRAIT_LATENT;
  const size_t kv_heads = every_head ? heads : (size_t)c->num_key_value_heads;
  if (latent && every_head)
    return layers * heads * (size_t)(c->qk_nope_head_dim + c->qk_rope_head_dim + c->v_head_dim);
  return layers * kv_heads * (size_t)c->head_dim * (latent ? 1 : 2); /* latents: keys are values */
}

bool config_rotates(const Config *c) { return config_traits(c) & (TRAIT_ROPE | TRAIT_LATENT); }

bool config_has_local_rope(const Config *c) { return c->family == FAMILY_GEMMA3; }

bool config_has_layer_types(const Config *c) { return (QWENS | GEMMAS) >> c->family & 1; }

/* ---- reading one value ----------------------------------------------------- */

bool config_absent(const Json *v) { return !v || json_type(v) == JSON_NULL; }

Status config_read_int(const Json *v, const char *key, int64_t lo, int64_t hi, const char *what,
                       int *out) {
  int64_t n;
  if (!json_integer(v, &n)) return fail(GRPO_EFORMAT, "%s: %s must be a whole number", what, key);
  if (n < lo || n > hi)
    return fail(GRPO_EFORMAT, "%s: %s = %lld is outside %lld .. %lld", what, key, (long long)n,
                (long long)lo, (long long)hi);
  *out = (int)n;
  return GRPO_OK;
}

Status config_read_num(const Json *v, const char *key, double lo, double hi, const char *what,
                       double *out) {
  double x = json_number(v);
  if (!(x >= lo && x <= hi))
    return fail(GRPO_EFORMAT, "%s: %s must be a number from %g to %g", what, key, lo, hi);
  *out = x;
  return GRPO_OK;
}

static Status read_bool(const Json *v, const char *key, const char *what, bool *out) {
  if (json_type(v) != JSON_BOOL)
    return fail(GRPO_EFORMAT, "%s: %s must be true or false", what, key);
  *out = json_bool(v);
  return GRPO_OK;
}

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
    try(read_bool(v, key, what, &b));
    *out = b;
    return GRPO_OK;
  case FIELD_NUM:
    break;
  }
  return config_read_num(v, key, f->lo, f->hi, what, out);
}

static Status read_fields(Config *c, const Json *j, const char *what) {
  for (int i = 0; i < FIELD_COUNT; i++) {
    const Field f = config_field(c->family, i);
    double value = f.otherwise;
    const char *key = f.key;
    const Json *v = *key ? json_get(j, key) : NULL;
    if (*key && !v && (v = json_get(j, f.common_key)) != NULL) key = f.common_key;
    if (v && json_type(v) == JSON_NULL) {
      if (f.nullable) value = 0;
    } else if (v) {
      try(read_field(&f, v, key, what, &value));
    }
    set(c, &f, value);
  }
  return GRPO_OK;
}

/* What the embeddings are multiplied by, in the number type that the model computes in. */
static double scale_of_embeddings(const Config *c, const char *dtype) {
  const float root = (float)sqrt((double)c->hidden_size);
  if (dtype && strcmp(dtype, "bfloat16") == 0) return (double)bf16_to_f32(f32_to_bf16(root));
  if (dtype && strcmp(dtype, "float16") == 0) return (double)f16_to_f32(f32_to_f16(root));
  return (double)root;
}

/* Fields whose absence means "as the others say". */
static Status derive(Config *c, const char *dtype, const char *what) {
  if (!c->intermediate_size) c->intermediate_size = 4 * c->hidden_size;
  if (config_traits(c) & TRAIT_LATENT) {
    c->num_key_value_heads = 1;
    c->head_dim = c->kv_lora_rank + c->qk_rope_head_dim;
  }
  if (!c->num_key_value_heads) c->num_key_value_heads = c->num_attention_heads;
  if (!c->head_dim) {
    if (c->hidden_size % c->num_attention_heads)
      return fail(GRPO_EFORMAT, "%s: hidden size %d is not a multiple of %d attention heads", what,
                  c->hidden_size, c->num_attention_heads);
    c->head_dim = c->hidden_size / c->num_attention_heads;
  }
  if (config_traits(c) & TRAIT_PLUS_ONE && c->embedding_scale == 0)
    c->embedding_scale = scale_of_embeddings(c, dtype);
  return GRPO_OK;
}

/* ---- what would change the result and is not supported ------------------------- */

typedef enum Must { MUST_BE_FALSE, MUST_BE_TRUE, MUST_BE_NULL, MUST_BE_ONE } Must;
typedef struct Refusal {
  const char *key;
  Must must;
  unsigned families;
} Refusal;

static const Refusal refusals[] = {
    {"scale_attn_by_inverse_layer_idx", MUST_BE_FALSE, ALL},
    {"reorder_and_upcast_attn", MUST_BE_FALSE, ALL},
    {"add_cross_attention", MUST_BE_FALSE, ALL},
    {"is_encoder_decoder", MUST_BE_FALSE, ALL},
    {"use_bidirectional_attention", MUST_BE_FALSE, ALL},
    {"scale_attn_weights", MUST_BE_TRUE, ALL},
    {"attn_logit_softcapping", MUST_BE_NULL, ALL & ~GEMMAS},
    {"final_logit_softcapping", MUST_BE_NULL, ALL & ~GEMMAS},
    {"query_pre_attn_scalar", MUST_BE_NULL, ALL & ~GEMMAS},
    {"partial_rotary_factor", MUST_BE_ONE, ALL & ~IN(PHI3)},
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
  static const char *const silu[] = {"silu", "swish", NULL};
  static const char *const gelu[] = {"gelu_new", "gelu_pytorch_tanh", NULL};
  const FamilyRow *f = &family_rows[c->family];
  const Json *v = json_get(j, f->activation_key);
  if (config_absent(v)) return GRPO_OK;
  const char *s = json_string(v);
  for (const char *const *a = strcmp(f->activation, "silu") == 0 ? silu : gelu; *a; a++)
    if (s && strcmp(s, *a) == 0) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: %s '%s' is not supported (%s models use %s)", what,
              f->activation_key, s ? s : "?", f->type, f->activation);
}

/* Every layer must be dense: n_routed_experts is null, or the experts begin after the last layer. */
static Status check_dense(Config *c, const Json *j, const char *what) {
  const Json *experts = json_get(j, "n_routed_experts");
  if (c->family != FAMILY_DEEPSEEK2) return GRPO_OK;
  if (experts && config_absent(experts)) c->first_k_dense_replace = c->num_hidden_layers;
  if (c->first_k_dense_replace >= c->num_hidden_layers) return GRPO_OK;
  return fail(
      GRPO_EFORMAT,
      "%s: layers from first_k_dense_replace = %d on are mixtures of experts, which are not "
      "supported (want it to be num_hidden_layers = %d)",
      what, c->first_k_dense_replace, c->num_hidden_layers);
}

/* ---- which layers are windowed --------------------------------------------------- */

static bool windowed_by_rule(const Config *c, int layer) {
  const int pattern = c->sliding_window_pattern;
  if (!c->sliding_window || !c->use_sliding_window) return false;
  return layer >= c->max_window_layers && (pattern == 0 || (layer + 1) % pattern != 0);
}

static Status layer_type(const Json *t, const char *what, bool *windowed) {
  const char *s = json_string(t);
  *windowed = s && strcmp(s, "sliding_attention") == 0;
  if (*windowed || (s && strcmp(s, "full_attention") == 0)) return GRPO_OK;
  return fail(GRPO_EFORMAT,
              "%s: layer_types '%s' is not supported (full_attention and "
              "sliding_attention are)",
              what, s ? s : "?");
}

/* layer_types where the family's files have them; elsewhere they may only say the same. */
static Status read_layer_types(Config *c, const Json *types, const char *what) {
  int n = 0;
  for (const Json *t = json_child(types); t; t = json_next(t), n++) {
    bool windowed;
    try(layer_type(t, what, &windowed));
    if (n >= c->num_hidden_layers) continue;
    if (windowed != windowed_by_rule(c, n) &&
        (!config_has_layer_types(c) || !c->sliding_window || !c->use_sliding_window))
      return fail(GRPO_EFORMAT, "%s: layer_types says %s for layer %d, the other keys do not", what,
                  windowed ? "sliding_attention" : "full_attention", n);
    c->windowed[n / 32] &= ~(1u << n % 32);
    c->windowed[n / 32] |= (uint32_t)windowed << n % 32;
  }
  if (n && n != c->num_hidden_layers && config_has_layer_types(c))
    return fail(GRPO_EFORMAT, "%s: layer_types lists %d layers of %d", what, n,
                c->num_hidden_layers);
  return GRPO_OK;
}

static Status read_windows(Config *c, const Json *j, const char *what) {
  const Json *use = json_get(j, "use_sliding_window"), *w = json_get(j, "sliding_window");
  const bool off = !config_absent(use) && json_type(use) == JSON_BOOL && !json_bool(use);
  if (!config_absent(w) && !off && !(WINDOWED >> c->family & 1))
    return fail(GRPO_EFORMAT, "%s: sliding_window is not supported for %s models (set it to null)",
                what, config_model_type(c));
  for (int i = 0; i < c->num_hidden_layers; i++)
    c->windowed[i / 32] |= (uint32_t)windowed_by_rule(c, i) << i % 32;
  const Json *types = json_get(j, "layer_types");
  return config_absent(types) ? GRPO_OK : read_layer_types(c, types, what);
}

/* ---- special tokens --------------------------------------------------------------- */

/* Ids outside the vocabulary are the mark of a template; they can never be drawn. */
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

bool config_is_eos(const Config *c, int id) {
  for (int i = 0; i < c->num_eos; i++)
    if (c->eos_token_id[i] == id) return true;
  return false;
}

/* ---- the whole ----------------------------------------------------------------------- */

static Status read_family(Config *c, const Json *j, const char *what) {
  const Json *v = json_get(j, "model_type");
  const char *type = v ? json_string(v) : NULL;
  char known[192] = "";
  for (int f = 0, at = 0; f < FAMILY_COUNT; f++) {
    c->family = (Family)f;
    if (type && strcmp(type, family_rows[f].type) == 0) return GRPO_OK;
    at +=
        snprintf(known + at, sizeof known - (size_t)at, "%s%s", f ? ", " : "", family_rows[f].type);
  }
  if (!type) return fail(GRPO_EFORMAT, "%s: no model_type; %s are supported", what, known);
  return fail(GRPO_EFORMAT, "%s: model_type '%s' is not supported (%s are)", what, type, known);
}

/* The part that describes the decoder: multimodal gemma3 nests it. */
static const Json *text_part(const Json *j) {
  const Json *type = json_get(j, "model_type"), *text = json_get(j, "text_config");
  const char *s = type ? json_string(type) : NULL;
  return s && strcmp(s, "gemma3") == 0 && text && json_type(text) == JSON_OBJECT ? text : j;
}

static const char *dtype_of(const Json *j) {
  const Json *v = json_get(j, "dtype");
  if (config_absent(v)) v = json_get(j, "torch_dtype");
  return v ? json_string(v) : NULL;
}

Status config_from_json(Config *out, const Json *j, const char *what) {
  if (json_type(j) != JSON_OBJECT) return fail(GRPO_EFORMAT, "%s: not a JSON object", what);
  Config c = {.bos_token_id = -1, .pad_token_id = -1};
  const Json *text = text_part(j);
  const char *dtype = dtype_of(text) ? dtype_of(text) : dtype_of(j);
  try(read_family(&c, text, what));
  try(check_refusals(&c, j, what));
  try(bnb_check_config(json_get(j, "quantization_config"), what));
  try(check_refusals(&c, text, what));
  try(check_activation(&c, text, what));
  try(read_fields(&c, text, what));
  try(check_dense(&c, text, what));
  try(derive(&c, dtype, what));
  try(read_windows(&c, text, what));
  try(config_read_rope(&c, text, what));
  try(read_special(&c, j, what));
  if (text != j) try(read_special(&c, text, what));
  try(config_check(&c, what));
  *out = c;
  return GRPO_OK;
}

static Status load_json(const char *dir, const char *name, char *path, size_t cap, Json **out) {
  if (snprintf(path, cap, "%s/%s", dir, name) >= (int)cap)
    return fail(GRPO_EARG, "path too long: %s", dir);
  return json_read_file(path, CONFIG_FILE_MAX, out);
}

static Status load_gguf(Config *out, const char *path) {
  Gguf g;
  try(gguf_open(&g, path));
  const Status s = config_from_gguf(out, &g);
  gguf_close(&g);
  return s;
}

Status config_load(Config *out, const char *dir) {
  char path[4096];
  Json *j = NULL;
  Config c;
  if (gguf_is(dir)) return load_gguf(out, dir);
  if (!file_is_dir(dir)) return fail(GRPO_ENOENT, "%s: no such model directory", dir);
  try(load_json(dir, "config.json", path, sizeof path, &j));
  Status s = config_from_json(&c, j, path);
  json_free(j);
  try(s);
  snprintf(path, sizeof path, "%s/generation_config.json", dir);
  if (file_exists(path)) {
    try(json_read_file(path, CONFIG_FILE_MAX, &j));
    s = read_special(&c, j, path);
    json_free(j);
    try(s);
  }
  *out = c;
  return GRPO_OK;
}

/* Ranges for configurations made in code; files were checked while reading. */
static Status check_ranges(const Config *c, const char *what) {
  for (int i = 0; i < FIELD_COUNT; i++) {
    const Field f = config_field(c->family, i);
    const double v = config_get(c, &f);
    if (!*f.key || f.type == FIELD_BOOL || (f.nullable && v == 0)) continue;
    if (v >= f.lo && v <= f.hi) continue;
    return fail(GRPO_EFORMAT, "%s: %s = %g is outside %g .. %g", what, f.common_key, v, f.lo, f.hi);
  }
  return GRPO_OK;
}

static Status check_latent(const Config *c, const char *what) {
  if (c->qk_rope_head_dim % 2)
    return fail(GRPO_EFORMAT, "%s: qk_rope_head_dim %d is odd, rotary positions need it even", what,
                c->qk_rope_head_dim);
  if (c->head_dim != c->kv_lora_rank + c->qk_rope_head_dim || c->num_key_value_heads != 1)
    return fail(GRPO_EFORMAT,
                "%s: latent attention has one key head of kv_lora_rank + "
                "qk_rope_head_dim channels",
                what);
  if (c->head_dim > 1024)
    return fail(GRPO_EFORMAT, "%s: kv_lora_rank + qk_rope_head_dim = %d is more than 1024", what,
                c->head_dim);
  return GRPO_OK;
}

static Status check_heads(const Config *c, const char *what) {
  const unsigned traits = config_traits(c);
  if (traits & TRAIT_LATENT) return check_latent(c, what);
  if (c->num_attention_heads % c->num_key_value_heads)
    return fail(GRPO_EFORMAT, "%s: %d attention heads are not a multiple of %d key/value heads",
                what, c->num_attention_heads, c->num_key_value_heads);
  if (traits & TRAIT_ROPE && (config_rotary_dim(c) % 2 || !config_rotary_dim(c)))
    return fail(GRPO_EFORMAT, "%s: head_dim %d is odd, rotary positions need it even", what,
                config_rotary_dim(c));
  if (!(traits & TRAIT_CONV1D)) return GRPO_OK;
  if (c->num_key_value_heads != c->num_attention_heads)
    return fail(GRPO_EFORMAT, "%s: gpt2 has no grouped key/value heads", what);
  if (c->num_attention_heads * c->head_dim != c->hidden_size)
    return fail(GRPO_EFORMAT, "%s: gpt2 wants heads times head_dim to be the hidden size %d", what,
                c->hidden_size);
  return GRPO_OK;
}

Status config_check(const Config *c, const char *what) {
  try(check_ranges(c, what));
  try(check_heads(c, what));
  const bool latent = config_traits(c) & TRAIT_LATENT;
  const int head = latent ? c->qk_nope_head_dim + c->qk_rope_head_dim + c->v_head_dim : c->head_dim;
  double h = c->hidden_size, q = (double)c->num_attention_heads * head;
  double layer = 4 * h * q + 3 * h * c->intermediate_size;
  double all = layer * c->num_hidden_layers + 2 * h * c->vocab_size;
  if (all > 1e11 || (double)c->max_position_embeddings * h > 1e11)
    return fail(GRPO_ELIMIT, "%s: about %.3g parameters; this build stops at 1e11", what, all);
  return GRPO_OK;
}
