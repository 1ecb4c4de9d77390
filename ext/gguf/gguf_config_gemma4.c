#include "gguf/gguf_config_gemma4.h"

#include <math.h>
#include <stdio.h>

static const float still = 1e30f; /* divides the frequency of a pair that does not turn */

static const KeyPair integers[] = {
    {"context_length", "max_position_embeddings"},
    {"embedding_length", "hidden_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.key_length", "global_head_dim"},
    {"attention.key_length_swa", "head_dim"},
    {"attention.sliding_window", "sliding_window"},
    {"attention.shared_kv_layers", "num_kv_shared_layers"},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input"},
};
static const KeyPair experts[] = {
    {"expert_count", "num_experts"},
    {"expert_used_count", "top_k_experts"},
    {"expert_feed_forward_length", "moe_intermediate_size"},
};
#define LAYERS    "block_count"
#define WIDTH     "feed_forward_length"
#define KEY_HEADS "attention.head_count_kv"
#define WINDOWS   "attention.sliding_window_pattern"
#define CAP       "final_logit_softcapping" /* in a config.json too */

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- reading ---- */

/* The number of a layer, which is one for all layers or in a list. */
static Status number_at(Reader *r, const char *key, int64_t layer, int64_t *out) {
  const GgufValue *v = gguf_find(r->g, gguf_key(r->key, r->a, key));
  if (!v) return fail(GRPO_EFORMAT, "%s: key '%s' is missing", r->g->path, r->key);
  if (!v->array) return gguf_get_int(r->g, r->key, 0, INT32_MAX, out, NULL);
  if ((v->type != GGUF_I32 && v->type != GGUF_U32) || (uint64_t)layer >= v->count)
    return fail(GRPO_EFORMAT, "%s: key '%s' has no number for layer %lld", r->g->path, r->key,
                (long long)layer);
  *out = gguf_int_at(v, (uint64_t)layer);
  return GRPO_OK;
}

/* All layers of a kind have the number of the first of them. */
static Status check_layers(Reader *r, const char *key, const GgufValue *windows, int64_t windowed,
                           int64_t full) {
  for (uint64_t i = 0; i < windows->count; i++) {
    int64_t v = 0;
    try(number_at(r, key, (int64_t)i, &v));
    if (v != (gguf_int_at(windows, i) ? windowed : full))
      return fail(GRPO_EFORMAT, "%s: key '%s' has %lld for layer %llu, unlike others of its kind",
                  r->g->path, r->key, (long long)v, (unsigned long long)i);
  }
  return GRPO_OK;
}

static uint64_t first_of(const GgufValue *windows, bool windowed) {
  uint64_t i = 0;
  while (i < windows->count && (gguf_int_at(windows, i) != 0) != windowed) i++;
  return i < windows->count ? i : 0;
}

/* Full layers whose keys are values have no attn_v, and may have another number of key heads. */
static Status read_key_heads(Reader *r, const GgufValue *windows) {
  const uint64_t full = first_of(windows, false);
  int64_t heads = 0, global = 0;
  char name[GGUF_NAME_MAX + 1];
  try(number_at(r, KEY_HEADS, (int64_t)first_of(windows, true), &heads));
  try(number_at(r, KEY_HEADS, (int64_t)full, &global));
  try(check_layers(r, KEY_HEADS, windows, heads, global));
  reader_put_int(r, "num_key_value_heads", heads);
  if (global != heads) reader_put_int(r, "num_global_key_value_heads", global);
  snprintf(name, sizeof name, "blk.%llu.attn_v.weight", (unsigned long long)full);
  reader_put_bool(r, "attention_k_eq_v", !gguf_tensor(r->g, name));
  return GRPO_OK;
}

/* Layers that share keys may be twice as wide. */
static Status read_widths(Reader *r, int64_t layers) {
  int64_t first = 0, last = 0, v = 0, shared = 0;
  try(gguf_get_int(r->g, gguf_key(r->key, r->a, integers[6].key), 0, layers, &shared, NULL));
  try(number_at(r, WIDTH, 0, &first));
  try(number_at(r, WIDTH, layers - 1, &last));
  for (int64_t i = 0; i < layers; i++) {
    try(number_at(r, WIDTH, i, &v));
    if (v != (i < layers - shared ? first : last) || (last != first && last != 2 * first))
      return fail(GRPO_EFORMAT, "%s: key '%s' = %lld for layer %lld is not computed", r->g->path,
                  r->key, (long long)v, (long long)i);
  }
  reader_put_int(r, "intermediate_size", first);
  reader_put_bool(r, "use_double_wide_mlp", last != first);
  return GRPO_OK;
}

static Status read_experts(Reader *r) {
  int64_t n = 0;
  try(gguf_get_int(r->g, gguf_key(r->key, r->a, experts[0].key), 0, INT32_MAX, &n, NULL));
  reader_put_bool(r, "enable_moe_block", n > 0);
  for (size_t i = 0; i < COUNT(experts) && n > 0; i++) try(reader_copy_int(r, &experts[i], true));
  return GRPO_OK;
}

/* The part of a head of 2 n channels of which `turning` pairs turn, so that its whole number of
 * pairs comes out again. */
static double part_of(uint64_t turning, uint64_t n) {
  double part = turning ? (double)turning / (double)n : 1e-3;
  while ((uint64_t)(part * (double)n) < turning) part = nextafter(part, 2);
  return part;
}

/* The part of the pairs of a full layer that turns. */
static Status read_turning(Reader *r, double *part) {
  const GgufTensor *t = gguf_tensor(r->g, "rope_freqs.weight");
  uint64_t turning = 0;
  *part = 1;
  if (!t) return GRPO_OK;
  if (!ggml_is_read(t->type) || t->ndim != 1 || t->n > 512)
    return fail(GRPO_EFORMAT, "%s: rope_freqs.weight must be a list of up to 512 numbers",
                r->g->path);
  for (uint64_t i = 0; i < t->n; i++) {
    float d;
    try(gguf_read(t, i, 1, &d));
    const bool turns = d == 1 && turning == i;
    if (!turns && !(d >= still))
      return fail(GRPO_EFORMAT, "%s: rope_freqs.weight: value %llu is %g, want ones and then 1e30",
                  r->g->path, (unsigned long long)i, (double)d);
    turning += turns;
  }
  *part = part_of(turning, t->n);
  return GRPO_OK;
}

static Status read_positions(Reader *r) {
  double base = 10000, local = 10000, part;
  try(gguf_get_number(r->g, gguf_key(r->key, r->a, "rope.freq_base"), &base, NULL));
  local = base;
  try(gguf_get_number(r->g, gguf_key(r->key, r->a, "rope.freq_base_swa"), &local, NULL));
  try(read_turning(r, &part));
  reader_put_name(r, "rope_parameters");
  buf_puts(&r->b, "{\"full_attention\": {\"rope_type\": \"proportional\", \"rope_theta\": ");
  json_put_number(&r->b, reader_meant(base));
  buf_puts(&r->b, ", \"partial_rotary_factor\": ");
  json_put_number(&r->b, part);
  buf_puts(&r->b, "}, \"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": ");
  json_put_number(&r->b, reader_meant(local));
  buf_puts(&r->b, "}}");
  return GRPO_OK;
}

static void put_types(Reader *r, const GgufValue *windows) {
  reader_put_name(r, "layer_types");
  for (uint64_t i = 0; i < windows->count; i++)
    buf_printf(&r->b, "%s\"%s_attention\"", i ? ", " : "[",
               gguf_int_at(windows, i) ? "sliding" : "full");
  buf_putc(&r->b, ']');
}

Status gguf_gemma4_read(Reader *r) {
  static const KeyPair count = {LAYERS, "num_hidden_layers"};
  double cap = 0;
  static const KeyPair scale = {"embedding_scale", "embedding_scale"};
  const GgufValue *windows;
  int64_t layers;
  gguf_key(r->key, r->a, LAYERS);
  try(gguf_get_int(r->g, r->key, 1, CONFIG_MAX_LAYERS, &layers, NULL));
  try(gguf_get_array(r->g, gguf_key(r->key, r->a, WINDOWS), GGUF_BOOL, &windows));
  if (!windows || windows->count != (uint64_t)layers)
    return fail(GRPO_EFORMAT, "%s: key '%s' must say for each of %lld layers if it has the window",
                r->g->path, r->key, (long long)layers);
  try(reader_copy_int(r, &count, true));
  for (size_t i = 0; i < COUNT(integers); i++) try(reader_copy_int(r, &integers[i], i != 6));
  put_types(r, windows);
  try(read_key_heads(r, windows));
  try(read_widths(r, layers));
  try(read_experts(r));
  try(gguf_get_number(r->g, gguf_key(r->key, r->a, CAP), &cap, NULL));
  if (cap != 0) reader_put_number(r, CAP, cap);
  try(reader_copy_number(r, &scale));
  return read_positions(r);
}

/* ---- writing ---- */

static void put(GgufMeta *m, const GgufArch *a, const char *key, int v) {
  char full[GGUF_KEY_BYTES];
  gguf_put_u32(m, gguf_key(full, a, key), (uint32_t)v);
}

static void put_number(GgufMeta *m, const GgufArch *a, const char *key, double v) {
  char full[GGUF_KEY_BYTES];
  gguf_put_f32(m, gguf_key(full, a, key), (float)v);
}

/* A list where layers differ. */
static void put_layers(GgufMeta *m, const Config *c, const GgufArch *a, const char *key,
                       bool differ, int (*of)(const Config *, int)) {
  char full[GGUF_KEY_BYTES];
  if (!differ) {
    put(m, a, key, of(c, 0));
    return;
  }
  gguf_put_array(m, gguf_key(full, a, key), GGUF_I32, (uint64_t)c->num_hidden_layers);
  for (int i = 0; i < c->num_hidden_layers; i++) gguf_element_i32(m, of(c, i));
}

static void put_windows(GgufMeta *m, const Config *c, const GgufArch *a) {
  char full[GGUF_KEY_BYTES];
  gguf_put_array(m, gguf_key(full, a, WINDOWS), GGUF_BOOL, (uint64_t)c->num_hidden_layers);
  for (int i = 0; i < c->num_hidden_layers; i++) gguf_element_bool(m, config_window(c, i) > 0);
}

void gguf_gemma4_write(const Config *c, const GgufArch *a, GgufMeta *m) {
  const int values[] = {c->max_position_embeddings, c->hidden_size,   c->num_attention_heads,
                        c->global_head_dim,         c->head_dim,      c->sliding_window,
                        c->num_kv_shared_layers,    c->per_layer_size};
  const int moe[] = {c->num_experts, c->num_experts_per_tok, c->moe_intermediate_size};
  put(m, a, LAYERS, c->num_hidden_layers);
  for (size_t i = 0; i < COUNT(integers); i++) put(m, a, integers[i].key, values[i]);
  for (size_t i = 0; i < COUNT(experts) && c->enable_moe_block; i++)
    put(m, a, experts[i].key, moe[i]);
  put(m, a, "attention.value_length", c->global_head_dim);
  put(m, a, "attention.value_length_swa", c->head_dim);
  put(m, a, "rope.dimension_count", c->global_head_dim);
  put(m, a, "rope.dimension_count_swa", c->head_dim);
  put_layers(m, c, a, WIDTH, c->use_double_wide_mlp, config_ffn_size);
  put_layers(m, c, a, KEY_HEADS, c->global_kv_heads != c->num_key_value_heads, config_kv_heads);
  put_windows(m, c, a);
  put_number(m, a, "rope.freq_base", c->rope_theta);
  put_number(m, a, "rope.freq_base_swa", c->rope_local_theta);
  put_number(m, a, "embedding_scale", c->embedding_scale);
  put_number(m, a, CAP, c->logit_softcap); /* llama.cpp takes 30 where it is missing */
}

void gguf_gemma4_divisors(const Config *c, float *out) {
  const int pairs = c->global_head_dim / 2;
  const int turning = (int)(c->global_head_dim * c->partial_rotary_factor / 2);
  for (int i = 0; i < pairs; i++) out[i] = i < turning ? 1 : still;
}

/* Layers with a window read the keys of the last but one of the layers that have their own, and
 * full layers those of the last. */
static bool shares_as_there(const Config *c) {
  const int own = c->num_hidden_layers - c->num_kv_shared_layers;
  for (int i = own; i < c->num_hidden_layers; i++)
    if (config_keys_layer(c, i) != own - (config_window(c, i) ? 2 : 1)) return false;
  return true;
}

const char *gguf_gemma4_reason(const Config *c) {
  bool windowed = false;
  for (int i = 0; i < c->num_hidden_layers; i++) windowed = windowed || config_window(c, i);
  if (!windowed) return "wants layers with a window";
  if (c->rope_scaling != ROPE_PROPORTIONAL || c->rope_factor != 1)
    return "has rotary positions of the type proportional, with a factor of 1";
  if (c->attention_bias) return "has no biases in attention";
  if (!shares_as_there(c))
    return "reads the keys and values of the last two layers that have their own";
  return NULL;
}
