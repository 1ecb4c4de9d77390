#include "gguf/gguf_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "formats/json.h"
#include "model/config_read.h"
#include "model/config_write.h"
#include "model/rope.h"

enum { KEY_BYTES = 128 };

/* A key behind the architecture's name, the same key in config.json, and in gpt2's config.json (""
 * where it has none). */
typedef struct KeyPair {
  const char *key, *hf, *gpt2;
} KeyPair;

static const KeyPair integers[] = {
    {"context_length", "max_position_embeddings", "n_positions"},
    {"embedding_length", "hidden_size", "n_embd"},
    {"block_count", "num_hidden_layers", "n_layer"},
    {"feed_forward_length", "intermediate_size", "n_inner"},
    {"attention.head_count", "num_attention_heads", "n_head"},
    {"attention.head_count_kv", "num_key_value_heads", ""},
    {"attention.key_length", "head_dim", ""},
};
/* Keys of some families only. */
static const KeyPair optional_integers[] = {
    {"attention.sliding_window", "sliding_window", ""},
    {"attention.sliding_window_pattern", "sliding_window_pattern", ""},
};
static const KeyPair optional_numbers[] = {
    {"rope.freq_base", "rope_theta", ""},
    {"rope.freq_base_swa", "rope_local_base_freq", ""},
    {"attn_logit_softcapping", "attn_logit_softcapping", ""},
    {"final_logit_softcapping", "final_logit_softcapping", ""},
    {"attention.query_pre_attn_scalar", "query_pre_attn_scalar", ""},
    {"embedding_scale", "embedding_scale", ""},
};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *full_key(char *out, const GgufArch *a, const char *key) {
  snprintf(out, KEY_BYTES, "%s.%s", gguf_arch_name(a), key);
  return out;
}

static bool is_gemma(const GgufArch *a) { return strncmp(gguf_arch_name(a), "gemma", 5) == 0; }
static bool is_gpt2(const GgufArch *a) { return strcmp(gguf_arch_name(a), "gpt2") == 0; }

/* ---- reading: a config.json ------------------------------------------------------------ */

typedef struct Reader {
  const Gguf *g;
  const GgufArch *a;
  Buf b;
  char key[KEY_BYTES];
} Reader;

static void put_name(Reader *r, const char *hf) {
  buf_printf(&r->b, "%s\"%s\": ", r->b.len > 1 ? ", " : "", hf);
}

static void put_int(Reader *r, const char *hf, int64_t v) {
  put_name(r, hf);
  buf_printf(&r->b, "%lld", (long long)v);
}

/* A float32 stands for the shortest decimal that reads as the same float: 1e-6, not
 * 9.99999997e-07. */
static double meant(double v) {
  char text[40];
  if ((double)(float)v != v) return v;
  for (int digits = 6; digits <= 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, v);
    if (strtof(text, NULL) == (float)v) break;
  }
  return strtod(text, NULL);
}

static void put_number(Reader *r, const char *hf, double v) {
  put_name(r, hf);
  json_put_number(&r->b, meant(v));
}

static void put_bool(Reader *r, const char *hf, bool v) {
  put_name(r, hf);
  buf_puts(&r->b, v ? "true" : "false");
}

static Status copy_integer(Reader *r, const KeyPair *p, bool wanted) {
  int64_t v;
  bool found;
  const char *hf = is_gpt2(r->a) ? p->gpt2 : p->hf;
  try(gguf_get_int(r->g, full_key(r->key, r->a, p->key), 0, INT32_MAX, &v, &found));
  if (found && *hf) put_int(r, hf, v);
  if (found || !wanted) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: key '%s' is missing", r->g->path, r->key);
}

static Status copy_number(Reader *r, const KeyPair *p) {
  double v;
  bool found;
  try(gguf_get_number(r->g, full_key(r->key, r->a, p->key), &v, &found));
  if (found) put_number(r, p->hf, v);
  return GRPO_OK;
}

static Status read_epsilon(Reader *r) {
  const bool gpt2 = is_gpt2(r->a);
  double v;
  bool found;
  full_key(r->key, r->a,
           gpt2 ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon");
  try(gguf_get_number(r->g, r->key, &v, &found));
  if (!found) return fail(GRPO_EFORMAT, "%s: key '%s' is missing", r->g->path, r->key);
  put_number(r, gpt2 ? "layer_norm_epsilon" : "rms_norm_eps", v);
  return GRPO_OK;
}

/* Refuses multipliers and clamps that no family of ours has; gemma has the first. */
static Status check_scales(Reader *r) {
  static const char *const keys[] = {"embedding_scale",
                                     "logit_scale",
                                     "residual_scale",
                                     "attention.scale",
                                     "attention.clamp_kqv",
                                     "attention.max_alibi_bias",
                                     "attention.temperature_scale"};
  for (size_t i = is_gemma(r->a); i < COUNT(keys); i++) {
    double v = 0;
    try(gguf_get_number(r->g, full_key(r->key, r->a, keys[i]), &v, NULL));
    if (v != 0 && v != 1)
      return fail(GRPO_EFORMAT, "%s: key '%s' = %g changes the result and is not computed",
                  r->g->path, r->key, v);
  }
  return GRPO_OK;
}

/* Refuses keys that would change the result and are not supported. */
static Status check_refusals(Reader *r) {
  int64_t experts = 0, key = 0, value = 0;
  bool has_key, has_value;
  try(gguf_get_int(r->g, full_key(r->key, r->a, "expert_count"), 0, INT32_MAX, &experts, NULL));
  if (experts)
    return fail(GRPO_EFORMAT, "%s: key '%s': mixtures of experts are not supported", r->g->path,
                r->key);
  full_key(r->key, r->a, "attention.key_length");
  try(gguf_get_int(r->g, r->key, 1, 1024, &key, &has_key));
  full_key(r->key, r->a, "attention.value_length");
  try(gguf_get_int(r->g, r->key, 1, 1024, &value, &has_value));
  if (has_value && has_key && key != value)
    return fail(GRPO_EFORMAT, "%s: key '%s' = %lld must equal attention.key_length = %lld",
                r->g->path, r->key, (long long)value, (long long)key);
  return check_scales(r);
}

static Status check_rotary(Reader *r, const Config *c) {
  int64_t rotary = c->head_dim;
  try(gguf_get_int(r->g, full_key(r->key, r->a, "rope.dimension_count"), 1, 1024, &rotary, NULL));
  if (rotary == c->head_dim || is_gpt2(r->a) || strcmp(gguf_arch_name(r->a), "phi3") == 0)
    return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: key '%s' = %lld must equal the head's %d channels", r->g->path,
              r->key, (long long)rotary, c->head_dim);
}

/* ---- rotary positions that are scaled ---------------------------------------------------- */

/* Our own keys: Llama 3's three factors cannot be told from rope_freqs.weight. */
#define LLAMA3_FACTOR "grpo.rope.factor"
#define LLAMA3_LOW    "grpo.rope.low_freq_factor"
#define LLAMA3_HIGH   "grpo.rope.high_freq_factor"

/* In files of other programs these are the numbers of Llama 3.1 to 3.3, and the factor is the
 * largest divisor. */
static Status read_llama3(Reader *r, const GgufTensor *divisors) {
  double factor = 1, low = 1, high = 4;
  int64_t length = 8192;
  for (uint64_t i = 0; i < divisors->n; i++) {
    float d;
    try(gguf_read(divisors, i, 1, &d));
    factor = fmax(factor, (double)d);
  }
  try(gguf_get_number(r->g, LLAMA3_FACTOR, &factor, NULL));
  try(gguf_get_number(r->g, LLAMA3_LOW, &low, NULL));
  try(gguf_get_number(r->g, LLAMA3_HIGH, &high, NULL));
  full_key(r->key, r->a, "rope.scaling.original_context_length");
  try(gguf_get_int(r->g, r->key, 1, INT32_MAX, &length, NULL));
  put_name(r, "rope_scaling");
  buf_puts(&r->b, "{\"rope_type\": \"llama3\", \"factor\": ");
  json_put_number(&r->b, factor);
  buf_puts(&r->b, ", \"low_freq_factor\": ");
  json_put_number(&r->b, low);
  buf_puts(&r->b, ", \"high_freq_factor\": ");
  json_put_number(&r->b, high);
  buf_printf(&r->b, ", \"original_max_position_embeddings\": %lld}", (long long)length);
  return GRPO_OK;
}

static Status put_list(Reader *r, const char *name, const GgufTensor *t) {
  buf_printf(&r->b, ", \"%s\": [", name);
  for (uint64_t i = 0; i < t->n && i < 1024; i++) {
    float d;
    try(gguf_read(t, i, 1, &d));
    if (i) buf_puts(&r->b, ", ");
    json_put_number(&r->b, meant((double)d));
  }
  buf_putc(&r->b, ']');
  return GRPO_OK;
}

/* longrope multiplies cosines and sines by this unless a file has its own factor. */
static double usual_attention_factor(double positions, double original) {
  return positions <= original ? 1 : sqrt(1 + log(positions / original) / log(original));
}

/* phi3 has two lists of divisors, the second for contexts past the original length. */
static Status read_long(Reader *r, const GgufTensor *brief, const GgufTensor *wide) {
  int64_t length = 0, positions = 0;
  double factor;
  bool found;
  full_key(r->key, r->a, "context_length");
  try(gguf_get_int(r->g, r->key, 1, INT32_MAX, &positions, NULL));
  full_key(r->key, r->a, "rope.scaling.original_context_length");
  try(gguf_get_int(r->g, r->key, 1, INT32_MAX, &length, &found));
  if (!found) return fail(GRPO_EFORMAT, "%s: key '%s' is missing", r->g->path, r->key);
  const double usual = usual_attention_factor((double)positions, (double)length);
  factor = usual;
  full_key(r->key, r->a, "rope.scaling.attn_factor");
  try(gguf_get_number(r->g, r->key, &factor, NULL));
  put_int(r, "original_max_position_embeddings", length);
  put_name(r, "rope_scaling");
  buf_puts(&r->b, "{\"type\": \"longrope\"");
  try(put_list(r, "short_factor", brief));
  try(put_list(r, "long_factor", wide));
  if (fabs(factor - usual) > 1e-6 * usual) {
    buf_puts(&r->b, ", \"attention_factor\": ");
    json_put_number(&r->b, meant(factor));
  }
  buf_putc(&r->b, '}');
  return GRPO_OK;
}

/* The factor by which positions are divided; without the type it means "linear", as in llama.cpp,
 * and old files have it under another name. */
static Status linear_factor(Reader *r, bool linear, double *factor) {
  bool found = false;
  *factor = 1;
  if (!linear) return GRPO_OK;
  full_key(r->key, r->a, "rope.scaling.factor");
  try(gguf_get_number(r->g, r->key, factor, &found));
  if (!found) {
    full_key(r->key, r->a, "rope.scale_linear");
    try(gguf_get_number(r->g, r->key, factor, NULL));
  }
  if (*factor == 0) *factor = 1;
  return GRPO_OK;
}

static Status read_scaling(Reader *r) {
  const GgufTensor *divisors = gguf_tensor(r->g, "rope_freqs.weight");
  const GgufTensor *brief = gguf_tensor(r->g, "rope_factors_short.weight");
  const GgufTensor *wide = gguf_tensor(r->g, "rope_factors_long.weight");
  const char *type = "linear";
  size_t n = 6;
  double factor;
  full_key(r->key, r->a, "rope.scaling.type");
  try(gguf_get_string(r->g, r->key, &type, &n, NULL));
  const bool linear = n == 6 && memcmp(type, "linear", 6) == 0;
  const bool wanted = brief && wide && n == 8 && memcmp(type, "longrope", 8) == 0;
  if (!linear && !wanted && !(n == 4 && memcmp(type, "none", 4) == 0))
    return fail(GRPO_EFORMAT, "%s: key '%s': '%.*s' is not supported", r->g->path, r->key,
                n > 60 ? 60 : (int)n, type);
  try(linear_factor(r, linear, &factor));
  if (factor != 1 && (divisors || brief || wide))
    return fail(GRPO_EFORMAT, "%s: key '%s' = %g beside %s, which is not supported", r->g->path,
                r->key, factor, divisors ? "rope_freqs.weight" : "rope_factors_*.weight");
  if (divisors && !ggml_is_read(divisors->type))
    return fail(GRPO_EFORMAT, "%s: rope_freqs.weight has type %s, which is not supported",
                r->g->path, ggml_name(divisors->type));
  if (divisors) return read_llama3(r, divisors);
  if (brief && wide && ggml_is_read(brief->type) && ggml_is_read(wide->type))
    return read_long(r, brief, wide);
  if (brief || wide)
    return fail(GRPO_EFORMAT,
                "%s: rope_factors_short.weight and rope_factors_long.weight must both be there",
                r->g->path);
  if (factor == 1) return GRPO_OK;
  put_name(r, "rope_scaling");
  buf_puts(&r->b, "{\"rope_type\": \"linear\", \"factor\": ");
  json_put_number(&r->b, meant(factor));
  buf_putc(&r->b, '}');
  return GRPO_OK;
}

/* Checks that the divisors in the file are those of the configuration. */
static Status check_divisors(const Gguf *g, const Config *c) {
  const GgufTensor *t = gguf_tensor(g, "rope_freqs.weight");
  float want[512];
  if (!t) return GRPO_OK;
  if (t->n != (uint64_t)c->head_dim / 2 || t->n > COUNT(want) ||
      !gguf_config_rope_divisors(c, want))
    return fail(GRPO_EFORMAT, "%s: rope_freqs.weight has %llu values for heads of %d", g->path,
                (unsigned long long)t->n, c->head_dim);
  for (uint64_t i = 0; i < t->n; i++) {
    float d;
    try(gguf_read(t, i, 1, &d));
    if (!(fabsf(d - want[i]) <= 1e-4f * want[i]))
      return fail(GRPO_EFORMAT,
                  "%s: rope_freqs.weight is not Llama 3's scaling: value %llu is %g, "
                  "want %g",
                  g->path, (unsigned long long)i, (double)d, (double)want[i]);
  }
  return GRPO_OK;
}

/* ---- reading: all of it ---------------------------------------------------------------------- */

static Status read_vocabulary(Reader *r) {
  static const struct {
    const char *key, *hf;
  } ids[] = {{"tokenizer.ggml.bos_token_id", "bos_token_id"},
             {"tokenizer.ggml.padding_token_id", "pad_token_id"}};
  static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                     "tokenizer.ggml.eom_token_id"};
  const GgufTensor *embedding = gguf_tensor(r->g, "token_embd.weight");
  int64_t id, seen[3];
  int n = 0;
  bool found;
  if (!embedding || embedding->ndim != 2 || embedding->dim[0] > INT32_MAX)
    return fail(GRPO_EFORMAT, "%s: tensor 'token_embd.weight' is missing or not two-dimensional",
                r->g->path);
  put_int(r, "vocab_size", (int64_t)embedding->dim[0]);
  put_bool(r, "tie_word_embeddings", gguf_tensor(r->g, "output.weight") == NULL);
  for (size_t i = 0; i < COUNT(ids); i++) {
    try(gguf_get_int(r->g, ids[i].key, 0, UINT32_MAX, &id, &found));
    if (found && id < (int64_t)embedding->dim[0]) put_int(r, ids[i].hf, id);
  }
  for (size_t i = 0; i < COUNT(ends); i++) {
    try(gguf_get_int(r->g, ends[i], 0, UINT32_MAX, &id, &found));
    bool again = !found || id >= (int64_t)embedding->dim[0];
    for (int k = 0; k < n; k++) again = again || seen[k] == id;
    if (!again) seen[n++] = id;
  }
  put_name(r, "eos_token_id");
  if (!n) buf_puts(&r->b, "null");
  for (int i = 0; i < n; i++)
    buf_printf(&r->b, "%s%lld", i ? ", " : n > 1 ? "[" : "", (long long)seen[i]);
  if (n > 1) buf_putc(&r->b, ']');
  return GRPO_OK;
}

static Status read_optional(Reader *r) {
  const bool llama = strcmp(gguf_arch_name(r->a), "llama") == 0;
  if (llama) {
    put_bool(r, "attention_bias", gguf_tensor(r->g, "blk.0.attn_q.bias") != NULL);
    put_bool(r, "mlp_bias", gguf_tensor(r->g, "blk.0.ffn_down.bias") != NULL);
  }
  for (size_t i = 0; i < COUNT(optional_integers); i++)
    try(copy_integer(r, &optional_integers[i], false));
  for (size_t i = 0; i < COUNT(optional_numbers); i++) try(copy_number(r, &optional_numbers[i]));
  return read_scaling(r);
}

/* Other programs divide gemma's scores by the square root of this: hidden size over heads in the
 * largest models, head_dim in the others. */
static int64_t usual_query_scalar(const GgufArch *a, int64_t layers, int64_t hidden, int64_t heads,
                                  int64_t head_dim) {
  const int64_t largest = strcmp(gguf_arch_name(a), "gemma2") == 0 ? 46 : 62;
  return layers == largest ? hidden / heads : head_dim;
}

static Status read_query_scalar(Reader *r) {
  int64_t hidden = 0, heads = 1, dim = 0, layers = 0;
  if (!is_gemma(r->a)) return GRPO_OK;
  if (gguf_find(r->g, full_key(r->key, r->a, "attention.query_pre_attn_scalar"))) return GRPO_OK;
  try(gguf_get_int(r->g, full_key(r->key, r->a, "embedding_length"), 1, 1 << 16, &hidden, NULL));
  try(gguf_get_int(r->g, full_key(r->key, r->a, "attention.head_count"), 1, 1024, &heads, NULL));
  try(gguf_get_int(r->g, full_key(r->key, r->a, "block_count"), 1, 1024, &layers, NULL));
  dim = hidden / heads;
  try(gguf_get_int(r->g, full_key(r->key, r->a, "attention.key_length"), 1, 1024, &dim, NULL));
  put_int(r, "query_pre_attn_scalar", usual_query_scalar(r->a, layers, hidden, heads, dim));
  return GRPO_OK;
}

/* A missing key has one meaning in GGUF, which is not the default of the family's config.json. */
static Status read_unsaid(Reader *r) {
  int64_t hidden = 0, heads = 1, dim = 0, rotary = 0;
  bool found;
  try(gguf_get_int(r->g, full_key(r->key, r->a, "embedding_length"), 1, 1 << 16, &hidden, NULL));
  try(gguf_get_int(r->g, full_key(r->key, r->a, "attention.head_count"), 1, 1024, &heads, NULL));
  dim = hidden / heads;
  if (!gguf_find(r->g, full_key(r->key, r->a, "attention.head_count_kv")))
    put_int(r, "num_key_value_heads", heads);
  full_key(r->key, r->a, "attention.key_length");
  try(gguf_get_int(r->g, r->key, 1, 1024, &dim, &found));
  if (!found) put_int(r, "head_dim", dim);
  if (!gguf_find(r->g, full_key(r->key, r->a, "rope.freq_base"))) put_int(r, "rope_theta", 10000);
  full_key(r->key, r->a, "rope.dimension_count");
  try(gguf_get_int(r->g, r->key, 1, 1024, &rotary, &found));
  if (found && dim && strcmp(gguf_arch_name(r->a), "phi3") == 0)
    put_number(r, "partial_rotary_factor", (double)rotary / (double)dim);
  return GRPO_OK;
}

static Status read_all(Reader *r) {
  int64_t window = 0;
  bool found;
  const char *type = gguf_arch_model_type(r->a);
  full_key(r->key, r->a, "attention.sliding_window");
  try(gguf_get_int(r->g, r->key, 0, INT32_MAX, &window, &found));
  if (strcmp(type, "llama") == 0 && window) type = "mistral";
  buf_printf(&r->b, "{\"model_type\": \"%s\"", type);
  for (size_t i = 0; i < COUNT(integers); i++) try(copy_integer(r, &integers[i], i < 5));
  try(read_epsilon(r));
  try(read_vocabulary(r));
  try(check_refusals(r));
  if (is_gpt2(r->a)) return GRPO_OK;
  try(read_optional(r));
  try(read_query_scalar(r));
  return read_unsaid(r);
}

static Status config_of_text(Config *out, Reader *r) {
  Json *j = NULL;
  buf_putc(&r->b, '}');
  try(buf_status(&r->b));
  try(json_parse(r->b.data, r->b.len, r->g->path, &j));
  Config c;
  Status s = config_read(&c, j, r->g->path);
  json_free(j);
  if (s == GRPO_OK) s = check_rotary(r, &c);
  if (s == GRPO_OK) s = check_divisors(r->g, &c);
  if (s == GRPO_OK) *out = c;
  return s;
}

Status gguf_config_read(Config *out, const Gguf *g) {
  const char *name = "";
  size_t n = 0;
  try(gguf_get_string(g, "general.architecture", &name, &n, NULL));
  const GgufArch *a = gguf_arch(name, n);
  if (!a)
    return fail(GRPO_EFORMAT, "%s: general.architecture '%.*s' is not supported", g->path,
                n > 60 ? 60 : (int)n, name);
  Reader r = {.g = g, .a = a};
  Status s = read_all(&r);
  if (s == GRPO_OK) s = config_of_text(out, &r);
  buf_free(&r.b);
  return s;
}

/* ---- writing ----------------------------------------------------------------------------- */

bool gguf_config_rope_divisors(const Config *c, float *out) {
  double scaled[512], plain[512];
  Config unscaled = *c;
  if (c->rope_scaling != ROPE_LLAMA3 || c->head_dim > 1024) return false;
  unscaled.rope_scaling = ROPE_PLAIN;
  rope_frequencies(c, false, scaled);
  rope_frequencies(&unscaled, false, plain);
  for (int i = 0; i < c->head_dim / 2; i++) out[i] = (float)(plain[i] / scaled[i]);
  return true;
}

static void write_scaling(const Config *c, const GgufArch *a, GgufMeta *m) {
  char key[KEY_BYTES];
  if (c->rope_scaling == ROPE_LINEAR) {
    gguf_put_string(m, full_key(key, a, "rope.scaling.type"), "linear", 6);
    gguf_put_f32(m, full_key(key, a, "rope.scaling.factor"), (float)c->rope_factor);
  } else if (c->rope_scaling == ROPE_LLAMA3) {
    gguf_put_u32(m, full_key(key, a, "rope.scaling.original_context_length"),
                 (uint32_t)c->rope_original_max_position_embeddings);
    gguf_put_f64(m, LLAMA3_FACTOR, c->rope_factor);
    gguf_put_f64(m, LLAMA3_LOW, c->rope_low_freq_factor);
    gguf_put_f64(m, LLAMA3_HIGH, c->rope_high_freq_factor);
  } else if (c->rope_scaling == ROPE_LONG) {
    const double original = c->rope_original_max_position_embeddings;
    const double usual = usual_attention_factor(c->rope_file_positions, original);
    gguf_put_u32(m, full_key(key, a, "rope.scaling.original_context_length"),
                 (uint32_t)c->rope_original_max_position_embeddings);
    gguf_put_f32(m, full_key(key, a, "rope.scaling.attn_factor"),
                 (float)(c->rope_attention_factor > 0 ? c->rope_attention_factor : usual));
  }
}

static void write_optional(const Json *j, const GgufArch *a, GgufMeta *m) {
  char key[KEY_BYTES];
  for (size_t i = 0; i < COUNT(optional_integers); i++) {
    int64_t v;
    const Json *e = json_get(j, optional_integers[i].hf), *use = json_get(j, "use_sliding_window");
    if (!e || !json_integer(e, &v) || v <= 0 || (use && !json_bool(use))) continue;
    gguf_put_u32(m, full_key(key, a, optional_integers[i].key), (uint32_t)v);
  }
  for (size_t i = 0; i < COUNT(optional_numbers); i++) {
    const double v = json_number(json_get(j, optional_numbers[i].hf));
    if (v == v) gguf_put_f32(m, full_key(key, a, optional_numbers[i].key), (float)v);
  }
}

/* Warns of settings that our own reader understands and llama.cpp ignores. */
static void warn(const Config *c, const GgufArch *a) {
  const double scalar = c->query_pre_attn_scalar > 0 ? c->query_pre_attn_scalar : c->head_dim;
  const int64_t usual = usual_query_scalar(a, c->num_hidden_layers, c->hidden_size,
                                           c->num_attention_heads, c->head_dim);
  if (is_gemma(a) && scalar != (double)usual)
    log_message(LOG_WARNING, "GGUF: llama.cpp takes query_pre_attn_scalar to be %lld, not %g",
                (long long)usual, scalar);
  const int window = config_window(c, 0);
  if (strcmp(gguf_arch_name(a), "llama") == 0 && window && window < c->max_position_embeddings)
    log_message(LOG_WARNING, "GGUF: llama.cpp ignores the sliding window of %d of a mistral model",
                window);
}

void gguf_config_write(const Config *c, const GgufArch *a, GgufMeta *m) {
  char key[KEY_BYTES];
  Buf b = {0};
  Json *j = NULL;
  /* With longrope c->max_position_embeddings is the length of the list in use. */
  const bool wide = c->rope_scaling == ROPE_LONG;
  const int shape[] = {wide ? c->rope_file_positions : c->max_position_embeddings,
                       c->hidden_size,
                       c->num_hidden_layers,
                       c->intermediate_size,
                       c->num_attention_heads,
                       c->num_key_value_heads,
                       c->head_dim};
  config_write(&b, c);
  warn(c, a);
  if (b.oom || json_parse(b.data, b.len, "config.json", &j) != GRPO_OK) m->bytes.oom = true;
  for (size_t i = 0; i < COUNT(integers); i++)
    if (!is_gpt2(a) || *integers[i].gpt2)
      gguf_put_u32(m, full_key(key, a, integers[i].key), (uint32_t)shape[i]);
  gguf_put_u32(m, full_key(key, a, "vocab_size"), (uint32_t)c->vocab_size);
  full_key(key, a,
           is_gpt2(a) ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon");
  gguf_put_f32(m, key, (float)c->norm_eps);
  if (!is_gpt2(a)) {
    const double partial = json_number(json_get(j, "partial_rotary_factor"));
    const int rotary = partial > 0 && partial < 1 ? (int)(c->head_dim * partial) : c->head_dim;
    gguf_put_u32(m, full_key(key, a, "attention.value_length"), (uint32_t)c->head_dim);
    gguf_put_u32(m, full_key(key, a, "rope.dimension_count"), (uint32_t)rotary);
    write_optional(j, a, m);
    write_scaling(c, a, m);
  }
  json_free(j);
  buf_free(&b);
}
