#include "gguf/gguf_config_write.h"

#include <math.h>
#include <string.h>

#include "base/exponential.h"
#include "base/log.h"
#include "gguf/gguf_config_experts.h"
#include "gguf/gguf_config_gemma4.h"
#include "model/rope.h"

int gguf_config_rope_divisors(const Config *c, float *out) {
  double scaled[512], plain[512];
  Config unscaled = *c;
  if (c->family == FAMILY_GEMMA4) {
    gguf_gemma4_divisors(c, out);
    return c->global_head_dim / 2;
  }
  if (c->rope_scaling != ROPE_LLAMA3 || c->head_dim > 1024) return 0;
  unscaled.rope_scaling = ROPE_PLAIN;
  rope_frequencies(c, false, false, scaled);
  rope_frequencies(&unscaled, false, false, plain);
  for (int i = 0; i < c->head_dim / 2; i++) out[i] = (float)(plain[i] / scaled[i]);
  return c->head_dim / 2;
}

static void write_yarn(const Config *c, const GgufArch *a, GgufMeta *m) {
  char key[GGUF_KEY_BYTES];
  gguf_put_string(m, gguf_key(key, a, "rope.scaling.type"), "yarn", 4);
  gguf_put_f32(m, gguf_key(key, a, "rope.scaling.factor"), (float)c->rope_factor);
  gguf_put_u32(m, gguf_key(key, a, "rope.scaling.original_context_length"),
               (uint32_t)c->rope_original_max_position_embeddings);
  gguf_put_f32(m, gguf_key(key, a, "rope.scaling.yarn_beta_fast"), (float)c->rope_beta_fast);
  gguf_put_f32(m, gguf_key(key, a, "rope.scaling.yarn_beta_slow"), (float)c->rope_beta_slow);
  if (c->rope_mscale_all_dim != 0) /* latent attention: see gguf_config.c */
    gguf_put_f32(m, gguf_key(key, a, "rope.scaling.yarn_log_multiplier"),
                 (float)(c->rope_mscale_all_dim / 10));
  else
    gguf_put_f32(m, gguf_key(key, a, "rope.scaling.attn_factor"),
                 (float)(c->rope_attention_factor / gguf_yarn_factor(c->rope_factor)));
  gguf_put_f64(m, GGUF_YARN_ATTENTION, c->rope_attention_factor);
  if (c->family == FAMILY_GPT_OSS) gguf_put_bool(m, GGUF_YARN_TRUNCATE, c->rope_truncate);
  if (c->rope_query_beta != 0)
    gguf_put_f32(m, gguf_key(key, a, "attention.temperature_scale"), (float)c->rope_query_beta);
}

static void write_scaling(const Config *c, const GgufArch *a, GgufMeta *m) {
  char key[GGUF_KEY_BYTES];
  if (c->rope_scaling == ROPE_LINEAR) {
    gguf_put_string(m, gguf_key(key, a, "rope.scaling.type"), "linear", 6);
    gguf_put_f32(m, gguf_key(key, a, "rope.scaling.factor"), (float)c->rope_factor);
  } else if (c->rope_scaling == ROPE_LLAMA3) {
    gguf_put_u32(m, gguf_key(key, a, "rope.scaling.original_context_length"),
                 (uint32_t)c->rope_original_max_position_embeddings);
    gguf_put_f64(m, GGUF_LLAMA3_FACTOR, c->rope_factor);
    gguf_put_f64(m, GGUF_LLAMA3_LOW, c->rope_low_freq_factor);
    gguf_put_f64(m, GGUF_LLAMA3_HIGH, c->rope_high_freq_factor);
  } else if (c->rope_scaling == ROPE_LONG) {
    const double original = c->rope_original_max_position_embeddings;
    const double usual = gguf_long_factor(c->max_position_embeddings, original);
    gguf_put_u32(m, gguf_key(key, a, "rope.scaling.original_context_length"),
                 (uint32_t)c->rope_original_max_position_embeddings);
    gguf_put_f32(m, gguf_key(key, a, "rope.scaling.attn_factor"),
                 (float)(c->rope_attention_factor > 0 ? c->rope_attention_factor : usual));
  } else if (c->rope_scaling == ROPE_YARN) {
    write_yarn(c, a, m);
  } else if (c->rope_scaling == ROPE_ALPHA) {
    gguf_put_f64(m, GGUF_ALPHA, c->rope_factor);
    gguf_put_f64(m, GGUF_ALPHA_THETA, c->rope_theta);
  }
}

/* The n for which each n-th layer sees everything and the others are of this kind; 0: none. */
static int period(const Config *c, LayerKind others) {
  int first = 0;
  while (first < c->num_hidden_layers && config_layer_kind(c, first) == others) first++;
  if (first == c->num_hidden_layers) return first + 1;
  for (int i = 0; i < c->num_hidden_layers; i++)
    if ((config_layer_kind(c, i) == others) != ((i + 1) % (first + 1) != 0)) return 0;
  return first + 1;
}

static int window_period(const Config *c) { return period(c, LAYER_WINDOWED); }

static bool has_window(const Config *c) { return c->sliding_window && c->use_sliding_window; }

static double alpha_base(const Config *c) {
  const double d = config_rotary_dim(c, false);
  return c->rope_theta * math_pow(c->rope_factor, d / (d - 2));
}

static void put_list(GgufMeta *m, const char *key, int n, const int *values) {
  gguf_put_array(m, key, GGUF_I32, (uint64_t)n);
  for (int i = 0; i < n; i++) gguf_element_i32(m, values[i]);
}

/* A third of the channels each for time, height and width of images; in texts they are equal. */
static void write_deltas(const Config *c, const GgufArch *a, GgufMeta *m) {
  char key[GGUF_KEY_BYTES];
  const int pairs = config_rotary_dim(c, false) / 2;
  const int values[] = {c->linear_conv_kernel_dim, c->linear_num_key_heads,
                        c->linear_num_value_heads, c->linear_key_head_dim};
  for (size_t i = 0; i < GGUF_DELTAS; i++)
    gguf_put_u32(m, gguf_key(key, a, gguf_deltas[i].key), (uint32_t)values[i]);
  gguf_put_u32(m, gguf_key(key, a, GGUF_VALUES_WIDTH),
               (uint32_t)(c->linear_num_value_heads * c->linear_value_head_dim));
  gguf_put_u32(m, gguf_key(key, a, GGUF_INTERVAL), (uint32_t)period(c, LAYER_DELTA));
  put_list(m, gguf_key(key, a, GGUF_SECTIONS), 4,
           (const int[]){(pairs + 2) / 3, (pairs + 1) / 3, pairs / 3, 0});
}

/* Convolutions are the layers without key heads. */
static void write_filters(const Config *c, const GgufArch *a, GgufMeta *m) {
  char key[GGUF_KEY_BYTES];
  int heads[CONFIG_MAX_LAYERS];
  for (int i = 0; i < c->num_hidden_layers; i++)
    heads[i] = config_layer_kind(c, i) == LAYER_CONV ? 0 : c->num_key_value_heads;
  put_list(m, gguf_key(key, a, "attention.head_count_kv"), c->num_hidden_layers, heads);
  gguf_put_u32(m, gguf_key(key, a, gguf_filter.key), (uint32_t)c->linear_conv_kernel_dim);
}

static void write_optional(const Config *c, const GgufArch *a, GgufMeta *m) {
  char key[GGUF_KEY_BYTES];
  if (has_window(c)) {
    const bool period = gguf_arch_traits(a) & GGUF_WINDOW_PERIOD;
    const bool named = gguf_has_field(a, "sliding_window_pattern");
    const int pattern = period ? window_period(c) : named ? c->sliding_window_pattern : 0;
    gguf_key(key, a, "attention.sliding_window");
    gguf_put_u32(m, key, (uint32_t)c->sliding_window);
    gguf_key(key, a, "attention.sliding_window_pattern");
    if (pattern) gguf_put_u32(m, key, (uint32_t)pattern);
  }
  for (size_t i = 0; i < GGUF_NUMBERS; i++) {
    Field f;
    if (!gguf_find_field(a, gguf_numbers[i].hf, &f)) continue;
    double v = config_get(c, &f);
    if (i == 0 && c->rope_scaling == ROPE_ALPHA) v = alpha_base(c);
    if (v == 0 && strcmp(gguf_numbers[i].hf, "logits_scaling") == 0) v = 1; /* always there */
    if (!f.nullable || v != 0) gguf_put_f32(m, gguf_key(key, a, gguf_numbers[i].key), (float)v);
  }
  if (strcmp(gguf_arch_name(a), "gptneox") == 0)
    gguf_put_bool(m, gguf_key(key, a, "use_parallel_residual"), c->parallel_residual);
}

/* ---- what llama.cpp computes otherwise ---- */

static bool is_every_fourth_unrotated(const Config *c) {
  for (int i = 0; i < c->num_hidden_layers; i++)
    if (config_layer_rotates(c, i) != ((i + 1) % 4 != 0)) return false;
  return true;
}

/* The reason for which llama.cpp would compute something else; NULL: there is none. */
static const char *reason(const Config *c, const GgufArch *a) {
  const unsigned traits = gguf_arch_traits(a);
  const bool windows = has_window(c) && traits & GGUF_WINDOW_PERIOD;
  if (traits & (c->tie_word_embeddings ? GGUF_UNTIED : GGUF_TIED))
    return c->tie_word_embeddings ? "wants an output projection beside the embeddings"
                                  : "has no output projection beside the embeddings";
  if (c->family == FAMILY_SMOLLM3 && !is_every_fourth_unrotated(c))
    return "leaves rotary positions out of every fourth layer and of no other";
  if (windows && !window_period(c)) return "wants each n-th layer without a window";
  if (windows && c->family == FAMILY_EXAONE4 && c->num_hidden_layers != 64)
    return "has windows only in models of 64 layers";
  if (c->family == FAMILY_OLMO3 && c->rope_local_theta != c->rope_theta)
    return "has one rope_theta for layers with and without a window";
  if (DELTANETS >> c->family & 1 && c->linear_key_head_dim != c->linear_value_head_dim)
    return "has keys and values of one width in gated DeltaNet";
  if (DELTANETS >> c->family & 1 && !period(c, LAYER_DELTA))
    return "wants attention in each n-th layer and in no other";
  if (DELTANETS >> c->family & 1 && c->attention_bias) return "has no biases in attention";
  if (c->family == FAMILY_GEMMA4) return gguf_gemma4_reason(c);
  if (c->family == FAMILY_GRANITE4 && !config_layer_rotates(c, 0))
    return "has rotary positions in such models";
  if (c->rope_scaling == ROPE_YARN && !c->rope_truncate && c->family != FAMILY_GPT_OSS)
    return "rounds the ends of YaRN's ramp";
  return gguf_experts_reason(c, a);
}

Status gguf_config_check(const Config *c, const GgufArch *a, const char *path) {
  const char *why = reason(c, a);
  if (!why) return GRPO_OK;
  return fail(GRPO_EARG, "%s: this '%s' model is not written as GGUF, because llama.cpp %s", path,
              config_model_type(c), why);
}

/* Warns of settings that our own reader understands and llama.cpp ignores. */
static void warn(const Config *c, const GgufArch *a) {
  const double scalar = c->query_pre_attn_scalar > 0 ? c->query_pre_attn_scalar : c->head_dim;
  const int64_t usual = gguf_usual_query_scalar(a, c->num_hidden_layers, c->hidden_size,
                                                c->num_attention_heads, c->head_dim);
  if (OLD_GEMMAS >> c->family & 1 && scalar != (double)usual)
    log_message(LOG_WARNING, "GGUF: llama.cpp takes query_pre_attn_scalar to be %lld, not %g",
                (long long)usual, scalar);
  const int window = config_window(c, 0);
  if (gguf_arch_traits(a) & GGUF_NO_WINDOW && window && window < c->max_position_embeddings)
    log_message(LOG_WARNING, "GGUF: llama.cpp ignores the sliding window of %d of a %s model",
                window, config_model_type(c));
  if (c->rope_scaling == ROPE_YARN && !c->rope_truncate)
    log_message(LOG_WARNING,
                "GGUF: llama.cpp rounds the ends of YaRN's ramp, which this %s model "
                "does not",
                config_model_type(c));
  if (config_traits(c) & TRAIT_LATENT && c->norm_eps != 1e-6)
    log_message(LOG_WARNING, "GGUF: llama.cpp takes an eps of %g in the norms of latents, not 1e-6",
                c->norm_eps);
}

void gguf_config_write(const Config *c, const GgufArch *a, GgufMeta *m) {
  char key[GGUF_KEY_BYTES];
  Field f;
  warn(c, a);
  const bool gemma4 = c->family == FAMILY_GEMMA4;
  for (size_t i = 0; i < GGUF_INTEGERS && !gemma4; i++)
    if (gguf_find_field(a, gguf_integers[i].hf, &f) && !(c->family == FAMILY_LFM2 && i == 5))
      gguf_put_u32(m, gguf_key(key, a, gguf_integers[i].key), (uint32_t)config_get(c, &f));
  gguf_put_u32(m, gguf_key(key, a, "vocab_size"), (uint32_t)c->vocab_size);
  gguf_put_f32(m, gguf_key(key, a, gguf_epsilon_key(a)), (float)c->norm_eps);
  if (gemma4) gguf_gemma4_write(c, a, m);
  if (gemma4 || !config_rotates(c)) return;
  const bool latent = config_traits(c) & TRAIT_LATENT;
  gguf_put_u32(m, gguf_key(key, a, "attention.value_length"),
               (uint32_t)(latent ? c->kv_lora_rank : c->head_dim));
  gguf_put_u32(m, gguf_key(key, a, "rope.dimension_count"), (uint32_t)config_rotary_dim(c, false));
  if (DELTANETS >> c->family & 1) write_deltas(c, a, m);
  if (c->family == FAMILY_LFM2) write_filters(c, a, m);
  gguf_experts_write(c, a, m);
  write_optional(c, a, m);
  write_scaling(c, a, m);
}
