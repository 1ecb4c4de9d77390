#include "model/rope.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

/* Llama 3: long wavelengths are slowed by `factor`, short ones stay, those between are
 * interpolated. */
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

/* longrope multiplies cosines and sines by this, so that scores grow with the length of the
 * context. */
static double attention_factor(const Config *c, bool local) {
  if (local || c->rope_scaling != ROPE_LONG) return 1;
  if (c->rope_attention_factor > 0) return c->rope_attention_factor;
  if (c->rope_factor <= 1) return 1;
  return sqrt(1 + log(c->rope_factor) / log(c->rope_original_max_position_embeddings));
}

/* ---- tables that grow ------------------------------------------------------------------- */

enum { MIN_POSITIONS = 1024 };

/* Tables that became too short; a tape may still point into them. */
typedef struct Outgrown {
  struct Outgrown *next;
  real *cs[2];
} Outgrown;

struct Rope {
  int positions; /* of the tables; 0: no tables yet */
  real *cs[2];   /* [positions, rotary dim / 2, 2]; the second is local, or NULL */
  Outgrown *outgrown;
};

Status rope_new(Rope **out) {
  *out = mem_zalloc(sizeof **out);
  return *out ? GRPO_OK : fail(GRPO_ENOMEM, "model: no memory for rotary positions");
}

void rope_free(Rope *r) {
  if (!r) return;
  for (Outgrown *o = r->outgrown, *next; o; o = next) {
    next = o->next;
    for (int i = 0; i < 2; i++) mem_free_aligned(o->cs[i]);
    mem_free(o);
  }
  for (int i = 0; i < 2; i++) mem_free_aligned(r->cs[i]);
  mem_free(r);
}

const real *rope_table(const Rope *r, bool local) { return r->cs[local && r->cs[1]]; }
int rope_positions(const Rope *r) { return r->positions; }

static int new_positions(const Config *c, int old, int want) {
  const int most = c->max_position_embeddings, least = want > MIN_POSITIONS ? want : MIN_POSITIONS;
  const int n = old > least / 2 ? (old < most / 2 ? 2 * old : most) : least;
  return n < most ? n : most;
}

static size_t table_reals(const Config *c, int positions) {
  return (size_t)positions * (size_t)config_rotary_dim(c);
}

static real *make_table(const Config *c, bool local, int positions) {
  const size_t half = (size_t)config_rotary_dim(c) / 2;
  const double factor = attention_factor(c, local);
  double inv_freq[512]; /* head_dim is at most 1024 */
  real *cs = mem_alloc_aligned(table_reals(c, positions) * sizeof *cs);
  if (!cs) return NULL;
  if (mem_measuring()) return cs;
  rope_frequencies(c, local, inv_freq);
  for (size_t pos = 0; pos < (size_t)positions; pos++)
    for (size_t i = 0; i < half; i++) {
      cs[(pos * half + i) * 2] = (real)(factor * cos((double)pos * inv_freq[i]));
      cs[(pos * half + i) * 2 + 1] = (real)(factor * sin((double)pos * inv_freq[i]));
    }
  return cs;
}

Status rope_reserve(Rope *r, const Config *c, int positions) {
  if (positions > c->max_position_embeddings) positions = c->max_position_embeddings;
  if (positions <= r->positions || !config_rotates(c)) return GRPO_OK;
  const int n = new_positions(c, r->positions, positions);
  const bool local = config_has_local_rope(c);
  Outgrown *old = r->positions ? mem_alloc(sizeof *old) : NULL;
  real *cs[2] = {make_table(c, false, n), local ? make_table(c, true, n) : NULL};
  if (!cs[0] || (local && !cs[1]) || (r->positions && !old)) {
    mem_free(old);
    for (int i = 0; i < 2; i++) mem_free_aligned(cs[i]);
    return fail(GRPO_ENOMEM, "model: no memory for a table of %d rotary positions", n);
  }
  if (old) {
    *old = (Outgrown){r->outgrown, {r->cs[0], r->cs[1]}};
    r->outgrown = old;
  }
  memcpy(r->cs, cs, sizeof r->cs);
  r->positions = n;
  return GRPO_OK;
}
