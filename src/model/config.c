#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"

enum { CONFIG_FILE_MAX = 16 << 20 };

/* ---- reading one value ----------------------------------------------------- */

static bool absent(const Json *v) { return !v || json_type(v) == JSON_NULL; }

static Status read_int(const Json *v, const char *key, int64_t lo, int64_t hi, const char *what,
                       int *out) {
  int64_t n;
  if (!json_integer(v, &n)) return fail(GRPO_EFORMAT, "%s: %s must be a whole number", what, key);
  if (n < lo || n > hi)
    return fail(GRPO_EFORMAT, "%s: %s = %lld is outside %lld .. %lld", what, key, (long long)n,
                (long long)lo, (long long)hi);
  *out = (int)n;
  return GRPO_OK;
}

static Status read_num(const Json *v, const char *key, double lo, double hi, const char *what,
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

/* The value under the family's own key, or under the common one. */
static const Json *lookup(const Json *j, Family f, const char **key, const char *gpt2_key) {
  if (f == FAMILY_GPT2) {
    if (!*gpt2_key) return NULL;
    const Json *v = json_get(j, gpt2_key);
    if (v) *key = gpt2_key;
    if (v) return v;
  }
  return json_get(j, *key);
}

static Status read_fields(Config *c, const Json *j, const char *what) {
  const bool gpt2 = c->family == FAMILY_GPT2;
#define INT(field, name, gpt2_name, llama_default, gpt2_default, lo, hi)                           \
  {                                                                                                \
    const char *key = name;                                                                        \
    const Json *v = lookup(j, c->family, &key, gpt2_name);                                         \
    c->field = gpt2 ? gpt2_default : llama_default;                                                \
    if (!absent(v)) try(read_int(v, key, lo, hi, what, &c->field));                                \
  }
#define NUM(field, name, gpt2_name, llama_default, gpt2_default, lo, hi)                           \
  {                                                                                                \
    const char *key = name;                                                                        \
    const Json *v = lookup(j, c->family, &key, gpt2_name);                                         \
    c->field = gpt2 ? gpt2_default : llama_default;                                                \
    if (!absent(v)) try(read_num(v, key, lo, hi, what, &c->field));                                \
  }
#define BOOL(field, name, gpt2_name, llama_default, gpt2_default)                                  \
  {                                                                                                \
    const char *key = name;                                                                        \
    const Json *v = lookup(j, c->family, &key, gpt2_name);                                         \
    c->field = gpt2 ? gpt2_default : llama_default;                                                \
    if (!absent(v)) try(read_bool(v, key, what, &c->field));                                       \
  }
#include "model/config.def"
#undef INT
#undef NUM
#undef BOOL
  return GRPO_OK;
}

/* Fields whose absence means "as the others say". */
static Status derive(Config *c, const char *what) {
  if (!c->intermediate_size) c->intermediate_size = 4 * c->hidden_size;
  if (!c->num_key_value_heads) c->num_key_value_heads = c->num_attention_heads;
  if (!c->head_dim) {
    if (c->hidden_size % c->num_attention_heads)
      return fail(GRPO_EFORMAT, "%s: hidden size %d is not a multiple of %d attention heads", what,
                  c->hidden_size, c->num_attention_heads);
    c->head_dim = c->hidden_size / c->num_attention_heads;
  }
  return GRPO_OK;
}

/* ---- what would change the result and is not supported ------------------------- */

typedef enum Must { MUST_BE_FALSE, MUST_BE_TRUE, MUST_BE_NULL, MUST_BE_ONE } Must;
typedef struct Refusal {
  const char *key;
  Must must;
} Refusal;

static const Refusal refusals[] = {
    {"scale_attn_by_inverse_layer_idx", MUST_BE_FALSE},
    {"reorder_and_upcast_attn", MUST_BE_FALSE},
    {"add_cross_attention", MUST_BE_FALSE},
    {"is_encoder_decoder", MUST_BE_FALSE},
    {"scale_attn_weights", MUST_BE_TRUE},
    {"attn_logit_softcapping", MUST_BE_NULL},
    {"final_logit_softcapping", MUST_BE_NULL},
    {"query_pre_attn_scalar", MUST_BE_NULL},
    {"quantization_config", MUST_BE_NULL},
    {"partial_rotary_factor", MUST_BE_ONE},
};

static Status check_refusals(const Json *j, const char *what) {
  static const char *const wanted[] = {"false", "true", "null", "1"};
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    const Refusal *r = &refusals[i];
    const Json *v = json_get(j, r->key);
    if (absent(v)) continue;
    bool ok = r->must == MUST_BE_FALSE  ? json_type(v) == JSON_BOOL && !json_bool(v)
              : r->must == MUST_BE_TRUE ? json_bool(v)
              : r->must == MUST_BE_ONE  ? json_number(v) == 1.0
                                        : false;
    if (!ok)
      return fail(GRPO_EFORMAT, "%s: %s is supported only as %s", what, r->key, wanted[r->must]);
  }
  return GRPO_OK;
}

static Status check_windows(const Json *j, const char *what) {
  const Json *use = json_get(j, "use_sliding_window"), *w = json_get(j, "sliding_window");
  bool off = !absent(use) && json_type(use) == JSON_BOOL && !json_bool(use);
  if (!absent(w) && !off)
    return fail(GRPO_EFORMAT, "%s: sliding_window is not supported (set it to null)", what);
  const Json *types = json_get(j, "layer_types");
  for (const Json *t = absent(types) ? NULL : json_child(types); t; t = json_next(t)) {
    const char *s = json_string(t);
    if (!s || strcmp(s, "full_attention") != 0)
      return fail(GRPO_EFORMAT, "%s: layer_types '%s' is not supported", what, s ? s : "?");
  }
  return GRPO_OK;
}

static Status check_activation(const Config *c, const Json *j, const char *what) {
  static const char *const silu[] = {"silu", "swish", NULL};
  static const char *const gelu[] = {"gelu_new", "gelu_pytorch_tanh", NULL};
  const bool gpt2 = c->family == FAMILY_GPT2;
  const char *key = "hidden_act";
  const Json *v = lookup(j, c->family, &key, "activation_function");
  if (absent(v)) return GRPO_OK;
  const char *s = json_string(v);
  for (const char *const *a = gpt2 ? gelu : silu; *a; a++)
    if (s && strcmp(s, *a) == 0) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: %s '%s' is not supported (%s models use %s)", what, key,
              s ? s : "?", gpt2 ? "gpt2" : "llama", gpt2 ? gelu[0] : silu[0]);
}

/* ---- rotary positions ----------------------------------------------------------- */

static Status read_llama3(Config *c, const Json *r, const char *what) {
  const Json *low = json_get(r, "low_freq_factor"), *high = json_get(r, "high_freq_factor");
  const Json *len = json_get(r, "original_max_position_embeddings");
  if (absent(low) || absent(high) || absent(len))
    return fail(GRPO_EFORMAT,
                "%s: llama3 rope scaling needs low_freq_factor, high_freq_factor and "
                "original_max_position_embeddings",
                what);
  try(read_num(low, "low_freq_factor", 1e-6, 1e6, what, &c->rope_low_freq_factor));
  try(read_num(high, "high_freq_factor", 1e-6, 1e6, what, &c->rope_high_freq_factor));
  if (c->rope_high_freq_factor <= c->rope_low_freq_factor)
    return fail(GRPO_EFORMAT, "%s: high_freq_factor must be greater than low_freq_factor", what);
  return read_int(len, "original_max_position_embeddings", 1, 1 << 24, what,
                  &c->rope_original_max_position_embeddings);
}

static Status read_rope_scaling(Config *c, const Json *r, const char *what) {
  if (json_type(r) != JSON_OBJECT)
    return fail(GRPO_EFORMAT, "%s: rope_scaling must be an object or null", what);
  const Json *theta = json_get(r, "rope_theta"), *t = json_get(r, "rope_type");
  if (!absent(theta)) try(read_num(theta, "rope_theta", 1, 1e12, what, &c->rope_theta));
  if (absent(t)) t = json_get(r, "type");
  const char *type = absent(t) ? "default" : json_string(t);
  if (type && strcmp(type, "default") == 0) return GRPO_OK;
  if (type && strcmp(type, "linear") == 0) c->rope_scaling = ROPE_LINEAR;
  if (type && strcmp(type, "llama3") == 0) c->rope_scaling = ROPE_LLAMA3;
  if (c->rope_scaling == ROPE_PLAIN)
    return fail(GRPO_EFORMAT, "%s: rope type '%s' is not supported (default, linear, llama3 are)",
                what, type ? type : "?");
  const Json *factor = json_get(r, "factor");
  if (absent(factor)) return fail(GRPO_EFORMAT, "%s: rope scaling '%s' needs a factor", what, type);
  try(read_num(factor, "rope scaling factor", 1e-3, 1e6, what, &c->rope_factor));
  return c->rope_scaling == ROPE_LLAMA3 ? read_llama3(c, r, what) : GRPO_OK;
}

static Status read_rope(Config *c, const Json *j, const char *what) {
  static const char *const keys[] = {"rope_scaling", "rope_parameters"};
  c->rope_factor = 1;
  for (int i = 0; i < 2 && c->family == FAMILY_LLAMA; i++) {
    const Json *r = json_get(j, keys[i]);
    if (!absent(r)) try(read_rope_scaling(c, r, what));
  }
  return GRPO_OK;
}

/* ---- special tokens --------------------------------------------------------------- */

/* Ids outside the vocabulary are the mark of a template; they can never be drawn. */
static Status read_token(const Json *j, const char *key, const char *what, int *out) {
  const Json *v = json_get(j, key);
  if (absent(v)) return GRPO_OK;
  if (json_type(v) == JSON_ARRAY) v = json_child(v);
  return v ? read_int(v, key, -1, INT32_MAX, what, out) : GRPO_OK;
}

static Status add_eos(Config *c, const Json *v, const char *what) {
  int id = -1;
  try(read_int(v, "eos_token_id", -1, INT32_MAX, what, &id));
  if (id < 0 || config_is_eos(c, id)) return GRPO_OK;
  if (c->num_eos == CONFIG_MAX_EOS)
    return fail(GRPO_EFORMAT, "%s: more than %d different eos_token_id", what, CONFIG_MAX_EOS);
  c->eos_token_id[c->num_eos++] = id;
  return GRPO_OK;
}

static Status read_special(Config *c, const Json *j, const char *what) {
  try(read_token(j, "bos_token_id", what, &c->bos_token_id));
  try(read_token(j, "pad_token_id", what, &c->pad_token_id));
  const Json *v = json_get(j, "eos_token_id");
  if (absent(v)) return GRPO_OK;
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
  if (!type) return fail(GRPO_EFORMAT, "%s: no model_type; gpt2 and llama are supported", what);
  if (strcmp(type, "gpt2") == 0)
    c->family = FAMILY_GPT2;
  else if (strcmp(type, "llama") == 0)
    c->family = FAMILY_LLAMA;
  else
    return fail(GRPO_EFORMAT, "%s: model_type '%s' is not supported (gpt2 and llama are)", what,
                type);
  return GRPO_OK;
}

Status config_from_json(Config *out, const Json *j, const char *what) {
  if (json_type(j) != JSON_OBJECT) return fail(GRPO_EFORMAT, "%s: not a JSON object", what);
  Config c = {.bos_token_id = -1, .pad_token_id = -1};
  try(read_family(&c, j, what));
  try(check_refusals(j, what));
  try(check_windows(j, what));
  try(check_activation(&c, j, what));
  try(read_fields(&c, j, what));
  try(derive(&c, what));
  try(read_rope(&c, j, what));
  try(read_special(&c, j, what));
  try(config_check(&c, what));
  *out = c;
  return GRPO_OK;
}

static Status load_json(const char *dir, const char *name, char *path, size_t cap, Json **out) {
  if (snprintf(path, cap, "%s/%s", dir, name) >= (int)cap)
    return fail(GRPO_EARG, "path too long: %s", dir);
  return json_read_file(path, CONFIG_FILE_MAX, out);
}

Status config_load(Config *out, const char *dir) {
  char path[4096];
  Json *j = NULL;
  Config c;
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
#define INT(field, name, gpt2_name, llama_default, gpt2_default, lo, hi)                           \
  if (c->field < (lo) || c->field > (hi))                                                          \
    return fail(GRPO_EFORMAT, "%s: " #field " = %d is outside %d .. %d", what, c->field, lo, hi);
#define NUM(field, name, gpt2_name, llama_default, gpt2_default, lo, hi)                           \
  if (!(c->field >= (lo) && c->field <= (hi)))                                                     \
    return fail(GRPO_EFORMAT, "%s: " #field " = %g is outside %g .. %g", what, c->field,           \
                (double)(lo), (double)(hi));
#define BOOL(field, name, gpt2_name, llama_default, gpt2_default)
#include "model/config.def"
#undef INT
#undef NUM
#undef BOOL
  return GRPO_OK;
}

Status config_check(const Config *c, const char *what) {
  try(check_ranges(c, what));
  if (c->num_attention_heads % c->num_key_value_heads)
    return fail(GRPO_EFORMAT, "%s: %d attention heads are not a multiple of %d key/value heads",
                what, c->num_attention_heads, c->num_key_value_heads);
  if (c->family == FAMILY_LLAMA && c->head_dim % 2)
    return fail(GRPO_EFORMAT, "%s: head_dim %d is odd, rotary positions need it even", what,
                c->head_dim);
  if (c->family == FAMILY_GPT2 && c->num_key_value_heads != c->num_attention_heads)
    return fail(GRPO_EFORMAT, "%s: gpt2 has no grouped key/value heads", what);
  if (c->family == FAMILY_GPT2 && c->num_attention_heads * c->head_dim != c->hidden_size)
    return fail(GRPO_EFORMAT, "%s: gpt2 wants heads times head_dim to be the hidden size %d", what,
                c->hidden_size);
  double h = c->hidden_size, q = (double)c->num_attention_heads * c->head_dim;
  double layer = 4 * h * q + 3 * h * c->intermediate_size;
  double all = layer * c->num_hidden_layers + 2 * h * c->vocab_size;
  if (all > 1e11 || (double)c->max_position_embeddings * h > 1e11)
    return fail(GRPO_ELIMIT, "%s: about %.3g parameters; this build stops at 1e11", what, all);
  return GRPO_OK;
}

/* ---- writing ------------------------------------------------------------------------ */

static void put_key(Buf *b, const char *key) { buf_printf(b, ",\n  \"%s\": ", key); }

static void put_int(Buf *b, const char *key, long long v) {
  put_key(b, key);
  buf_printf(b, "%lld", v);
}

static void put_token(Buf *b, const char *key, int id) {
  put_key(b, key);
  if (id < 0)
    buf_puts(b, "null");
  else
    buf_printf(b, "%d", id);
}

static void put_eos(Buf *b, const Config *c) {
  if (c->num_eos <= 1) {
    put_token(b, "eos_token_id", c->num_eos ? c->eos_token_id[0] : -1);
    return;
  }
  put_key(b, "eos_token_id");
  for (int i = 0; i < c->num_eos; i++) buf_printf(b, "%s%d", i ? ", " : "[", c->eos_token_id[i]);
  buf_putc(b, ']');
}

static void put_rope_scaling(Buf *b, const Config *c) {
  put_key(b, "rope_scaling");
  if (c->rope_scaling == ROPE_PLAIN) {
    buf_puts(b, "null");
    return;
  }
  const bool llama3 = c->rope_scaling == ROPE_LLAMA3;
  buf_printf(b, "{\"rope_type\": \"%s\", \"factor\": ", llama3 ? "llama3" : "linear");
  json_put_number(b, c->rope_factor);
  if (llama3) {
    buf_puts(b, ", \"low_freq_factor\": ");
    json_put_number(b, c->rope_low_freq_factor);
    buf_puts(b, ", \"high_freq_factor\": ");
    json_put_number(b, c->rope_high_freq_factor);
    buf_printf(b, ", \"original_max_position_embeddings\": %d",
               c->rope_original_max_position_embeddings);
  }
  buf_putc(b, '}');
}

void config_put_json(Buf *b, const Config *c) {
  const bool gpt2 = c->family == FAMILY_GPT2;
  buf_printf(b, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\"",
             gpt2 ? "GPT2LMHeadModel" : "LlamaForCausalLM", gpt2 ? "gpt2" : "llama");
#define INT(field, key, gpt2_key, llama_default, gpt2_default, lo, hi)                             \
  if (!gpt2 || *gpt2_key) put_int(b, gpt2 ? gpt2_key : key, c->field);
#define NUM(field, key, gpt2_key, llama_default, gpt2_default, lo, hi)                             \
  if (!gpt2 || *gpt2_key) {                                                                        \
    put_key(b, gpt2 ? gpt2_key : key);                                                             \
    json_put_number(b, c->field);                                                                  \
  }
#define BOOL(field, key, gpt2_key, llama_default, gpt2_default)                                    \
  if (!gpt2 || *gpt2_key) {                                                                        \
    put_key(b, gpt2 ? gpt2_key : key);                                                             \
    buf_puts(b, c->field ? "true" : "false");                                                      \
  }
#include "model/config.def"
#undef INT
#undef NUM
#undef BOOL
  if (gpt2)
    put_int(b, "n_ctx", c->max_position_embeddings);
  else
    put_rope_scaling(b, c);
  put_key(b, gpt2 ? "activation_function" : "hidden_act");
  buf_puts(b, gpt2 ? "\"gelu_new\"" : "\"silu\"");
  put_token(b, "bos_token_id", c->bos_token_id);
  put_token(b, "pad_token_id", c->pad_token_id);
  put_eos(b, c);
  buf_puts(b, "\n}\n");
}
