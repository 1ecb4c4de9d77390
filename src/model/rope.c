/* rope.c - the tables of rotary positions. */
#include <math.h>

#include "base/mem.h"
#include "model/impl.h"

/* Llama 3: long wavelengths are slowed by `factor`, short ones kept, those between interpolated. */
static double llama3_frequency(const Config *c, double f) {
  const double wavelength = 2 * M_PI / f, len = c->rope_original_max_position_embeddings;
  const double low = c->rope_low_freq_factor, high = c->rope_high_freq_factor;
  if (wavelength < len / high) return f;
  if (wavelength > len / low) return f / c->rope_factor;
  const double s = (len / wavelength - low) / (high - low);
  return (1 - s) * f / c->rope_factor + s * f;
}

static double scaled_frequency(const Config *c, int i, double f) {
  switch (c->rope_scaling) {
  case ROPE_LINEAR:
    return f / c->rope_factor;
  case ROPE_LLAMA3:
    return llama3_frequency(c, f);
  case ROPE_LONG:
    return f / (c->use_long_rope ? c->rope_long : c->rope_short)[i];
  case ROPE_PLAIN:
    break;
  }
  return f;
}

void rope_frequencies(const Config *c, bool local, double *inv_freq) {
  const int d = config_rotary_dim(c);
  for (int i = 0; i < d / 2; i++) {
    const double f = pow(local ? c->rope_local_theta : c->rope_theta, -2.0 * i / d);
    inv_freq[i] = local ? f : scaled_frequency(c, i, f);
  }
}

/* longrope multiplies cosines and sines, so that scores grow with the context's length. */
static double attention_factor(const Config *c, bool local) {
  if (local || c->rope_scaling != ROPE_LONG) return 1;
  if (c->rope_attention_factor > 0) return c->rope_attention_factor;
  if (c->rope_factor <= 1) return 1;
  return sqrt(1 + log(c->rope_factor) / log(c->rope_original_max_position_embeddings));
}

size_t rope_reals(const Config *c) {
  if (!(config_traits(c) & TRAIT_ROPE)) return 0;
  return (size_t)c->max_position_embeddings * (size_t)config_rotary_dim(c);
}

Status rope_table(const Config *c, bool local, real **out) {
  const size_t half = (size_t)config_rotary_dim(c) / 2, n = (size_t)c->max_position_embeddings;
  const double factor = attention_factor(c, local);
  double inv_freq[512]; /* head_dim is at most 1024 */
  real *cs = mem_alloc_aligned(rope_reals(c) * sizeof *cs);
  if (!cs) return fail(GRPO_ENOMEM, "model: table of %zu rotary positions", n);
  rope_frequencies(c, local, inv_freq);
  for (size_t pos = 0; pos < n; pos++)
    for (size_t i = 0; i < half; i++) {
      cs[(pos * half + i) * 2] = (real)(factor * cos((double)pos * inv_freq[i]));
      cs[(pos * half + i) * 2 + 1] = (real)(factor * sin((double)pos * inv_freq[i]));
    }
  *out = cs;
  return GRPO_OK;
}
