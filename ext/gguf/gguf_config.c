#include "gguf/gguf_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exponential.h"
#include "formats/json.h"
#include "gguf/gguf_config_experts.h"
#include "gguf/gguf_config_gemma4.h"
#include "gguf/gguf_config_write.h"
#include "gguf/gguf_reader.h"
#include "model/config_read.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- reading: a config.json ------------------------------------------------------------ */

/* The largest number of a list with one for each layer: a layer with a state has 0 key heads. */
static int64_t largest(const GgufValue *list) {
  int64_t v = 0;
  for (uint64_t i = 0; i < list->count; i++)
    if (gguf_int_at(list, i) > v) v = gguf_int_at(list, i);
  return v;
}

static bool is_list_of_heads(const Reader *r, const GgufValue *v) {
  return v && v->array && (v->type == GGUF_I32 || v->type == GGUF_U32) && r->family == FAMILY_LFM2;
}

/* Layers that predict several tokens at once are counted with the others. */
static Status layers_beside(const Gguf *g, const GgufArch *a, int64_t *n) {
  char key[GGUF_KEY_BYTES];
  *n = 0;
  if (!(DELTANETS >> gguf_family(a) & 1)) return GRPO_OK;
  return gguf_get_int(g, gguf_key(key, a, GGUF_BESIDE), 0, CONFIG_MAX_LAYERS, n, NULL);
}

static Status read_layers(Reader *r, int64_t *n) {
  int64_t beside;
  gguf_key(r->key, r->a, "block_count");
  try(gguf_get_int(r->g, r->key, 1, INT32_MAX, n, NULL));
  try(layers_beside(r->g, r->a, &beside));
  *n -= beside;
  return GRPO_OK;
}

/* One of the keys that every file has; layers of LFM2 have different numbers of key heads. */
static Status copy_shape(Reader *r, const KeyPair *p, bool wanted) {
  const GgufValue *list = gguf_find(r->g, gguf_key(r->key, r->a, p->key));
  int64_t layers;
  if (is_list_of_heads(r, list) && strcmp(p->hf, "num_key_value_heads") == 0) {
    reader_put_int(r, p->hf, largest(list));
    return GRPO_OK;
  }
  if (!list || strcmp(p->hf, "num_hidden_layers") != 0) return reader_copy_int(r, p, wanted);
  try(read_layers(r, &layers));
  reader_put_int(r, p->hf, layers);
  return GRPO_OK;
}

static Status read_epsilon(Reader *r) {
  double v;
  bool found;
  gguf_key(r->key, r->a, gguf_epsilon_key(r->a));
  try(gguf_get_number(r->g, r->key, &v, &found));
  if (!found) return fail(GRPO_EFORMAT, "%s: key '%s' is missing", r->g->path, r->key);
  reader_put_number(r, "rms_norm_eps", v);
  return GRPO_OK;
}

/* Is this key read for the family?  Windowed layers may repeat the base of the others. */
static Status is_read(Reader *r, const char *key, double v, bool *yes) {
  double base = 10000;
  *yes = (strcmp(key, "attention.temperature_scale") == 0 && r->family == FAMILY_MINISTRAL3) ||
         (strcmp(key, "expert_weights_scale") == 0 && r->family == FAMILY_DEEPSEEK3);
  for (size_t i = 0; i < GGUF_NUMBERS; i++)
    *yes =
        *yes || (strcmp(key, gguf_numbers[i].key) == 0 && gguf_has_field(r->a, gguf_numbers[i].hf));
  if (*yes || strcmp(key, "rope.freq_base_swa") != 0) return GRPO_OK;
  char name[GGUF_KEY_BYTES];
  try(gguf_get_number(r->g, gguf_key(name, r->a, "rope.freq_base"), &base, NULL));
  *yes = v == base;
  return GRPO_OK;
}

/* Refuses multipliers and clamps that the family does not have. */
static Status check_scales(Reader *r) {
  static const char *const keys[] = {"embedding_scale",
                                     "logit_scale",
                                     "residual_scale",
                                     "attention.scale",
                                     "attention.clamp_kqv",
                                     "attention.max_alibi_bias",
                                     "attention.temperature_scale",
                                     "attn_logit_softcapping",
                                     "final_logit_softcapping",
                                     "rope.freq_base_swa",
                                     "expert_weights_scale"};
  for (size_t i = 0; i < COUNT(keys); i++) {
    double v = 0;
    bool read;
    try(gguf_get_number(r->g, gguf_key(r->key, r->a, keys[i]), &v, NULL));
    try(is_read(r, keys[i], v, &read));
    if (!read && v != 0 && v != 1)
      return fail(GRPO_EFORMAT, "%s: key '%s' = %g changes the result and is not computed",
                  r->g->path, r->key, v);
  }
  return GRPO_OK;
}

/* Refuses keys that would change the result and are not supported. */
static Status check_refusals(Reader *r) {
  int64_t experts = 0, key = 0, value = 0;
  bool has_key, has_value;
  try(gguf_get_int(r->g, gguf_key(r->key, r->a, "expert_count"), 0, INT32_MAX, &experts, NULL));
  if (experts && !(gguf_arch_traits(r->a) & GGUF_MIXTURE))
    return fail(GRPO_EFORMAT, "%s: key '%s': mixtures of experts are not supported", r->g->path,
                r->key);
  gguf_key(r->key, r->a, "attention.key_length");
  try(gguf_get_int(r->g, r->key, 1, 1024, &key, &has_key));
  gguf_key(r->key, r->a, "attention.value_length");
  try(gguf_get_int(r->g, r->key, 1, 1024, &value, &has_value));
  if (has_value && has_key && key != value && !gguf_has_trait(r->a, TRAIT_LATENT))
    return fail(GRPO_EFORMAT, "%s: key '%s' = %lld must equal attention.key_length = %lld",
                r->g->path, r->key, (long long)value, (long long)key);
  bool rotates = true;
  try(gguf_get_bool(r->g, gguf_key(r->key, r->a, "rope.scaling.finetuned"), &rotates, NULL));
  if (!rotates && GRANITES >> r->family & 1) /* of other families llama.cpp ignores it */
    return fail(GRPO_EFORMAT,
                "%s: key '%s' says that there are no rotary positions, which is not "
                "computed for %s models",
                r->g->path, r->key, gguf_arch_model_type(r->a));
  return check_scales(r);
}

static Status check_rotary(Reader *r, const Config *c) {
  int64_t rotary = c->head_dim;
  try(gguf_get_int(r->g, gguf_key(r->key, r->a, "rope.dimension_count"), 1, 1024, &rotary, NULL));
  if (!config_rotates(c) || rotary == config_rotary_dim(c, false)) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: key '%s' = %lld must equal the head's %d channels", r->g->path,
              r->key, (long long)rotary, config_rotary_dim(c, false));
}

/* ---- rotary positions that are scaled ---------------------------------------------------- */

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
  try(gguf_get_number(r->g, GGUF_LLAMA3_FACTOR, &factor, NULL));
  try(gguf_get_number(r->g, GGUF_LLAMA3_LOW, &low, NULL));
  try(gguf_get_number(r->g, GGUF_LLAMA3_HIGH, &high, NULL));
  gguf_key(r->key, r->a, "rope.scaling.original_context_length");
  try(gguf_get_int(r->g, r->key, 1, INT32_MAX, &length, NULL));
  reader_put_name(r, "rope_scaling");
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
    json_put_number(&r->b, reader_meant((double)d));
  }
  buf_putc(&r->b, ']');
  return GRPO_OK;
}

/* phi3 has two lists of divisors, the second for contexts past the original length. */
static Status read_long(Reader *r, const GgufTensor *brief, const GgufTensor *wide) {
  int64_t length = 0, positions = 0;
  double factor;
  bool found;
  gguf_key(r->key, r->a, "context_length");
  try(gguf_get_int(r->g, r->key, 1, INT32_MAX, &positions, NULL));
  gguf_key(r->key, r->a, "rope.scaling.original_context_length");
  try(gguf_get_int(r->g, r->key, 1, INT32_MAX, &length, &found));
  if (!found) return fail(GRPO_EFORMAT, "%s: key '%s' is missing", r->g->path, r->key);
  const double usual = gguf_long_factor((double)positions, (double)length);
  factor = usual;
  gguf_key(r->key, r->a, "rope.scaling.attn_factor");
  try(gguf_get_number(r->g, r->key, &factor, NULL));
  reader_put_int(r, "original_max_position_embeddings", length);
  reader_put_name(r, "rope_scaling");
  buf_puts(&r->b, "{\"type\": \"longrope\"");
  try(put_list(r, "short_factor", brief));
  try(put_list(r, "long_factor", wide));
  if (fabs(factor - usual) > 1e-6 * usual) {
    buf_puts(&r->b, ", \"attention_factor\": ");
    json_put_number(&r->b, reader_meant(factor));
  }
  buf_putc(&r->b, '}');
  return GRPO_OK;
}

/* A number behind the architecture's name, which a .json has as `hf`. */
static Status put_key(Reader *r, const char *key, const char *hf, double otherwise) {
  double v = otherwise;
  try(gguf_get_number(r->g, gguf_key(r->key, r->a, key), &v, NULL));
  buf_printf(&r->b, ", \"%s\": ", hf);
  json_put_number(&r->b, reader_meant(v));
  return GRPO_OK;
}

/* llama.cpp multiplies cosines and sines by attn_factor and by what is usual for the factor, which
 * it takes for the factor of all dimensions in latent attention; there the key is a tenth of it. */
static Status yarn_attention(Reader *r, double factor, double *attention, double *all) {
  const bool latent = gguf_has_trait(r->a, TRAIT_LATENT);
  double multiplier = 0;
  *attention = 1;
  try(gguf_get_number(r->g, gguf_key(r->key, r->a, "rope.scaling.attn_factor"), attention, NULL));
  gguf_key(r->key, r->a, "rope.scaling.yarn_log_multiplier");
  try(gguf_get_number(r->g, r->key, &multiplier, NULL));
  *all = latent ? 10 * reader_meant(multiplier) : 0;
  if (!latent || multiplier == 0) *attention *= gguf_yarn_factor(factor);
  if (!latent && multiplier != 0) *attention /= 0.1 * multiplier * math_log(fmax(factor, 1)) + 1;
  return gguf_get_number(r->g, GGUF_YARN_ATTENTION, attention, NULL);
}

/* llama.cpp rounds the ends of the ramp, and gpt-oss's published models do not. */
static Status read_truncation(Reader *r) {
  bool truncate = r->family != FAMILY_GPT_OSS;
  try(gguf_get_bool(r->g, GGUF_YARN_TRUNCATE, &truncate, NULL));
  buf_printf(&r->b, ", \"truncate\": %s", truncate ? "true" : "false");
  return GRPO_OK;
}

static Status read_yarn(Reader *r) {
  double factor = 1, attention, all;
  int64_t length = 0;
  gguf_key(r->key, r->a, "context_length");
  try(gguf_get_int(r->g, r->key, 1, INT32_MAX, &length, NULL));
  gguf_key(r->key, r->a, "rope.scaling.original_context_length");
  try(gguf_get_int(r->g, r->key, 1, INT32_MAX, &length, NULL));
  try(gguf_get_number(r->g, gguf_key(r->key, r->a, "rope.scaling.factor"), &factor, NULL));
  try(yarn_attention(r, factor, &attention, &all));
  reader_put_name(r, "rope_scaling");
  buf_puts(&r->b, "{\"rope_type\": \"yarn\"");
  try(put_key(r, "rope.scaling.factor", "factor", 1));
  try(put_key(r, "rope.scaling.yarn_beta_fast", "beta_fast", 32));
  try(put_key(r, "rope.scaling.yarn_beta_slow", "beta_slow", 1));
  try(put_key(r, "attention.temperature_scale", "llama_4_scaling_beta", 0));
  try(read_truncation(r));
  if (all != 0) buf_puts(&r->b, ", \"mscale_all_dim\": "), json_put_number(&r->b, all);
  buf_puts(&r->b, ", \"attention_factor\": ");
  json_put_number(&r->b, attention);
  buf_printf(&r->b, ", \"original_max_position_embeddings\": %lld}", (long long)length);
  return GRPO_OK;
}

/* HunYuan's base is multiplied in the file; our own keys have the factors. */
static Status read_alpha(Reader *r, bool *found) {
  double alpha = 1, theta = 10000;
  try(gguf_get_number(r->g, GGUF_ALPHA, &alpha, found));
  if (!*found || !gguf_has_trait(r->a, TRAIT_QK_NORM_LAST)) return GRPO_OK;
  try(gguf_get_number(r->g, GGUF_ALPHA_THETA, &theta, NULL));
  reader_put_name(r, "rope_parameters");
  buf_puts(&r->b, "{\"rope_type\": \"dynamic\", \"alpha\": ");
  json_put_number(&r->b, alpha);
  buf_puts(&r->b, ", \"rope_theta\": ");
  json_put_number(&r->b, theta);
  buf_putc(&r->b, '}');
  return GRPO_OK;
}

/* The factor by which positions are divided; without the type it means "linear", as in llama.cpp,
 * and old files have it under another name. */
static Status linear_factor(Reader *r, bool linear, double *factor) {
  bool found = false;
  *factor = 1;
  if (!linear) return GRPO_OK;
  gguf_key(r->key, r->a, "rope.scaling.factor");
  try(gguf_get_number(r->g, r->key, factor, &found));
  if (!found) {
    gguf_key(r->key, r->a, "rope.scale_linear");
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
  bool alpha;
  try(read_alpha(r, &alpha));
  if (alpha) return GRPO_OK;
  gguf_key(r->key, r->a, "rope.scaling.type");
  try(gguf_get_string(r->g, r->key, &type, &n, NULL));
  if (n == 4 && memcmp(type, "yarn", 4) == 0 && !divisors && !brief && !wide) return read_yarn(r);
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
  reader_put_name(r, "rope_scaling");
  buf_puts(&r->b, "{\"rope_type\": \"linear\", \"factor\": ");
  json_put_number(&r->b, reader_meant(factor));
  buf_putc(&r->b, '}');
  return GRPO_OK;
}

/* Checks that the divisors in the file are those of the configuration. */
static Status check_divisors(const Gguf *g, const Config *c) {
  const GgufTensor *t = gguf_tensor(g, "rope_freqs.weight");
  float want[512];
  if (!t || c->family == FAMILY_GEMMA4) return GRPO_OK; /* read there */
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
  reader_put_int(r, "vocab_size", (int64_t)embedding->dim[0]);
  reader_put_bool(r, "tie_word_embeddings", gguf_tensor(r->g, "output.weight") == NULL);
  for (size_t i = 0; i < COUNT(ids); i++) {
    try(gguf_get_int(r->g, ids[i].key, 0, UINT32_MAX, &id, &found));
    if (found && id < (int64_t)embedding->dim[0]) reader_put_int(r, ids[i].hf, id);
  }
  for (size_t i = 0; i < COUNT(ends); i++) {
    try(gguf_get_int(r->g, ends[i], 0, UINT32_MAX, &id, &found));
    bool again = !found || id >= (int64_t)embedding->dim[0];
    for (int k = 0; k < n; k++) again = again || seen[k] == id;
    if (!again) seen[n++] = id;
  }
  reader_put_name(r, "eos_token_id");
  if (!n) buf_puts(&r->b, "null");
  for (int i = 0; i < n; i++)
    buf_printf(&r->b, "%s%lld", i ? ", " : n > 1 ? "[" : "", (long long)seen[i]);
  if (n > 1) buf_putc(&r->b, ']');
  return GRPO_OK;
}

/* Biases and branches are told from the tensors. */
static void read_switches(Reader *r) {
  static const struct {
    const char *hf, *tensor;
  } rows[] = {{"attention_bias", "blk.0.attn_q.bias"},
              {"attention_out_bias", "blk.0.attn_output.bias"},
              {"mlp_bias", "blk.0.ffn_down.bias"}};
  for (size_t i = 0; i < COUNT(rows); i++)
    if (gguf_has_field(r->a, rows[i].hf) && !gguf_has_trait(r->a, TRAIT_PACKED))
      reader_put_bool(r, rows[i].hf, gguf_tensor(r->g, rows[i].tensor) != NULL);
}

static Status read_parallel(Reader *r) {
  bool parallel = gguf_tensor(r->g, "blk.0.ffn_norm.weight") == NULL;
  if (!gguf_has_field(r->a, "use_parallel_residual")) return GRPO_OK;
  try(gguf_get_bool(r->g, gguf_key(r->key, r->a, "use_parallel_residual"), &parallel, NULL));
  reader_put_bool(r, "use_parallel_residual", parallel);
  return GRPO_OK;
}

/* The pattern is a number n (each n-th layer sees everything), or says for each layer whether it
 * has the window. */
static Status read_layer_types(Reader *r) {
  int64_t layers = 0, every = r->family == FAMILY_GPT_OSS ? 2 : 4;
  const GgufValue *list = NULL;
  const GgufValue *v = gguf_find(r->g, gguf_key(r->key, r->a, "attention.sliding_window_pattern"));
  if (v && v->array)
    try(gguf_get_array(r->g, r->key, GGUF_BOOL, &list));
  else
    try(gguf_get_int(r->g, r->key, 1, CONFIG_MAX_LAYERS, &every, NULL));
  try(gguf_get_int(r->g, gguf_key(r->key, r->a, "block_count"), 1, INT32_MAX, &layers, NULL));
  if (!list && gguf_has_field(r->a, "sliding_window_pattern"))
    reader_put_int(r, "sliding_window_pattern", every);
  reader_put_name(r, "layer_types");
  for (int64_t i = 0; i < layers && i < CONFIG_MAX_LAYERS; i++) {
    const bool windowed = !list                       ? (i + 1) % every != 0
                          : (uint64_t)i < list->count ? gguf_int_at(list, (uint64_t)i) != 0
                                                      : false;
    buf_printf(&r->b, "%s\"%s_attention\"", i ? ", " : "[", windowed ? "sliding" : "full");
  }
  buf_putc(&r->b, ']');
  return GRPO_OK;
}

static Status read_windows(Reader *r) {
  static const KeyPair pattern = {"attention.sliding_window_pattern", "sliding_window_pattern"};
  int64_t window = 0;
  bool found;
  gguf_key(r->key, r->a, "attention.sliding_window");
  try(gguf_get_int(r->g, r->key, 0, INT32_MAX, &window, &found));
  const bool period = gguf_arch_traits(r->a) & GGUF_WINDOW_PERIOD;
  if (period && !window) reader_put_name(r, "sliding_window"), buf_puts(&r->b, "null");
  if (found && (window || !period)) reader_put_int(r, "sliding_window", window);
  if (!period) return reader_copy_int(r, &pattern, false);
  return window ? read_layer_types(r) : GRPO_OK;
}

/* Layers with a state are told from their tensors. */
static Status read_kinds(Reader *r, const char *tensor, const char *word) {
  int64_t layers = 0;
  try(read_layers(r, &layers));
  reader_put_name(r, "layer_types");
  for (int i = 0; i < layers && i < CONFIG_MAX_LAYERS; i++) {
    char name[GGUF_NAME_MAX + 1];
    snprintf(name, sizeof name, "blk.%d.%s", i, tensor);
    buf_printf(&r->b, "%s\"%s\"", i ? ", " : "[",
               gguf_tensor(r->g, name) ? word : "full_attention");
  }
  buf_puts(&r->b, layers > 0 ? "]" : "[]");
  return GRPO_OK;
}

/* A channel's number counts a text's positions if one of the first three sections has it; the
 * sections alternate. */
static Status check_sections(Reader *r) {
  const GgufValue *s;
  int64_t rotary = 0, all = 0;
  try(gguf_get_array(r->g, gguf_key(r->key, r->a, GGUF_SECTIONS), GGUF_I32, &s));
  if (!s) return GRPO_OK;
  gguf_key(r->key, r->a, "rope.dimension_count");
  try(gguf_get_int(r->g, r->key, 1, 1024, &rotary, NULL));
  for (uint64_t i = 0; i < s->count; i++) all += gguf_int_at(s, i);
  for (int64_t i = 0; i < rotary / 2; i++) {
    const int64_t at = all > 0 ? i % all : i;
    if (s->count < 3 || at >= 3 * gguf_int_at(s, (uint64_t)at % 3))
      return fail(GRPO_EFORMAT, "%s: key '%s.%s' leaves channels without rotary positions",
                  r->g->path, gguf_arch_name(r->a), GGUF_SECTIONS);
  }
  return GRPO_OK;
}

static Status read_deltas(Reader *r) {
  static const KeyPair interval = {GGUF_INTERVAL, "full_attention_interval"};
  int64_t heads = 1, width = 0;
  for (size_t i = 0; i < GGUF_DELTAS; i++) try(reader_copy_int(r, &gguf_deltas[i], true));
  try(reader_copy_int(r, &interval, false));
  gguf_key(r->key, r->a, "ssm.time_step_rank");
  try(gguf_get_int(r->g, r->key, 1, 1024, &heads, NULL));
  gguf_key(r->key, r->a, GGUF_VALUES_WIDTH);
  try(gguf_get_int(r->g, r->key, 1, 1 << 20, &width, NULL));
  if (width % heads)
    return fail(GRPO_EFORMAT, "%s: key '%s' = %lld is not a multiple of %lld heads", r->g->path,
                r->key, (long long)width, (long long)heads);
  reader_put_int(r, "linear_value_head_dim", width / heads);
  try(check_sections(r));
  return read_kinds(r, "ssm_a", "linear_attention");
}

static Status read_states(Reader *r) {
  if (DELTANETS >> r->family & 1) return read_deltas(r);
  if (r->family != FAMILY_LFM2) return GRPO_OK;
  reader_put_bool(r, "block_auto_adjust_ff_dim", false);
  try(reader_copy_int(r, &gguf_filter, true));
  return read_kinds(r, "shortconv.conv.weight", "conv");
}

static Status read_optional(Reader *r) {
  read_switches(r);
  try(read_parallel(r));
  try(read_windows(r));
  try(read_states(r));
  try(gguf_experts_read(r));
  for (size_t i = 0; i < GGUF_NUMBERS; i++) try(reader_copy_number(r, &gguf_numbers[i]));
  return read_scaling(r);
}

static Status read_query_scalar(Reader *r) {
  int64_t hidden = 0, heads = 1, dim = 0, layers = 0;
  if (!gguf_is_gemma(r->a)) return GRPO_OK;
  if (gguf_find(r->g, gguf_key(r->key, r->a, "attention.query_pre_attn_scalar"))) return GRPO_OK;
  try(gguf_get_int(r->g, gguf_key(r->key, r->a, "embedding_length"), 1, 1 << 16, &hidden, NULL));
  try(gguf_get_int(r->g, gguf_key(r->key, r->a, "attention.head_count"), 1, 1024, &heads, NULL));
  try(gguf_get_int(r->g, gguf_key(r->key, r->a, "block_count"), 1, 1024, &layers, NULL));
  dim = hidden / heads;
  try(gguf_get_int(r->g, gguf_key(r->key, r->a, "attention.key_length"), 1, 1024, &dim, NULL));
  reader_put_int(r, "query_pre_attn_scalar",
                 gguf_usual_query_scalar(r->a, layers, hidden, heads, dim));
  return GRPO_OK;
}

/* A missing key has one meaning in GGUF, which is not the default of the family's config.json. */
static Status read_unsaid(Reader *r) {
  int64_t hidden = 0, heads = 1, dim = 0, rotary = 0;
  bool found;
  try(gguf_get_int(r->g, gguf_key(r->key, r->a, "embedding_length"), 1, 1 << 16, &hidden, NULL));
  try(gguf_get_int(r->g, gguf_key(r->key, r->a, "attention.head_count"), 1, 1024, &heads, NULL));
  dim = hidden / heads;
  if (!gguf_find(r->g, gguf_key(r->key, r->a, "attention.head_count_kv")) &&
      gguf_has_field(r->a, "num_key_value_heads"))
    reader_put_int(r, "num_key_value_heads", heads);
  gguf_key(r->key, r->a, "attention.key_length");
  try(gguf_get_int(r->g, r->key, 1, 1024, &dim, &found));
  if (!found) reader_put_int(r, "head_dim", dim);
  if (!gguf_find(r->g, gguf_key(r->key, r->a, "rope.freq_base")))
    reader_put_int(r, "rope_theta", 10000);
  gguf_key(r->key, r->a, "rope.dimension_count");
  try(gguf_get_int(r->g, r->key, 1, 1024, &rotary, &found));
  if (found && dim && gguf_has_field(r->a, "partial_rotary_factor"))
    reader_put_number(r, "partial_rotary_factor", (double)rotary / (double)dim);
  return GRPO_OK;
}

/* The width of a dense layer says nothing where every layer has experts. */
static bool is_wanted(const Reader *r, size_t i) {
  const bool wide = MIXTURES >> r->family & 1 && !(NARROW_MIXTURES >> r->family & 1);
  return i < 5 && !(wide && strcmp(gguf_integers[i].hf, "intermediate_size") == 0);
}

static Status read_gemma4(Reader *r) {
  try(gguf_gemma4_read(r));
  try(read_epsilon(r));
  return read_vocabulary(r);
}

static Status read_all(Reader *r) {
  buf_printf(&r->b, "{\"model_type\": \"%s\"", gguf_arch_model_type(r->a));
  if (r->family == FAMILY_GEMMA4) return read_gemma4(r);
  for (size_t i = 0; i < GGUF_INTEGERS; i++) try(copy_shape(r, &gguf_integers[i], is_wanted(r, i)));
  try(read_epsilon(r));
  try(read_vocabulary(r));
  try(check_refusals(r));
  if (gguf_has_trait(r->a, TRAIT_CONV1D)) return GRPO_OK;
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
  char key[GGUF_KEY_BYTES];
  int64_t window = 0, experts = 0;
  snprintf(key, sizeof key, "%.*s.attention.sliding_window", n > 60 ? 60 : (int)n, name);
  try(gguf_get_int(g, key, 0, INT32_MAX, &window, NULL));
  snprintf(key, sizeof key, "%.*s.expert_count", n > 60 ? 60 : (int)n, name);
  try(gguf_get_int(g, key, 0, INT32_MAX, &experts, NULL));
  const GgufArch *a = gguf_arch(name, n, window > 0, experts > 0);
  if (!a)
    return fail(GRPO_EFORMAT, "%s: general.architecture '%.*s' is not supported", g->path,
                n > 60 ? 60 : (int)n, name);
  Reader r = {.g = g, .a = a, .family = gguf_family(a)};
  Status s = read_all(&r);
  if (s == GRPO_OK) s = config_of_text(out, &r);
  buf_free(&r.b);
  return s;
}

bool gguf_config_beside(const Gguf *g, const Config *c) {
  int64_t n = 0;
  return layers_beside(g, gguf_arch_of(config_model_type(c)), &n) == GRPO_OK && n > 0;
}
