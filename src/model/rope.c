#include "model/rope.h"

#include <math.h>
#include <string.h>

#include "base/exponential.h"
#include "base/mem.h"
#include "base/trigonometry.h"

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

/* YaRN: the pair of channels that turns n times within the original length. */
static double yarn_pair(const Config *c, double n) {
  const double turns = c->rope_original_max_position_embeddings / (2 * M_PI * n);
  return config_rotary_dim(c, false) * math_log(turns) / (2 * math_log(c->rope_theta));
}

/* YaRN (2309.00071): fast pairs stay, slow ones are interpolated, with a ramp between. */
static double yarn_frequency(const Config *c, int i, double f) {
  double low = yarn_pair(c, c->rope_beta_fast), high = yarn_pair(c, c->rope_beta_slow);
  if (c->rope_truncate) low = floor(low), high = ceil(high);
  low = fmax(low, 0), high = fmin(high, config_rotary_dim(c, false) - 1);
  if (low == high) high += 0.001;
  const double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
  return f * (1 - ramp) + f / c->rope_factor * ramp;
}

/* Proportional: the pairs of a whole head that turn. */
static int turning_pairs(const Config *c) {
  return (int)(c->partial_rotary_factor * config_rotary_dim(c, false) / 2);
}

static double scaled_frequency(const Config *c, bool is_long, int i, double f) {
  switch (c->rope_scaling) {
  case ROPE_LINEAR:
    return f / c->rope_factor;
  case ROPE_LLAMA3:
    return llama3_frequency(c, f);
  case ROPE_LONG:
    return f / (is_long ? c->rope_long : c->rope_short)[i];
  case ROPE_YARN:
    return yarn_frequency(c, i, f);
  case ROPE_PROPORTIONAL:
    return i < turning_pairs(c) ? f / c->rope_factor : 0;
  case ROPE_ALPHA:
  case ROPE_PLAIN:
    break;
  }
  return f;
}

static double base_of(const Config *c, bool local) {
  const double d = config_rotary_dim(c, local);
  if (local) return c->rope_local_theta;
  if (c->rope_scaling != ROPE_ALPHA) return c->rope_theta;
  return c->rope_theta * math_pow(c->rope_factor, d / (d - 2));
}

void rope_frequencies(const Config *c, bool local, bool is_long, double *inv_freq) {
  const int d = config_rotary_dim(c, local);
  for (int i = 0; i < d / 2; i++) {
    const double f = math_pow(base_of(c, local), -2.0 * i / d);
    inv_freq[i] = local ? f : scaled_frequency(c, is_long, i, f);
  }
}

/* longrope and YaRN multiply cosines and sines by this, so that scores grow with the length of the
 * context. */
static double attention_factor(const Config *c, bool local) {
  if (local || (c->rope_scaling != ROPE_LONG && c->rope_scaling != ROPE_YARN)) return 1;
  if (c->rope_attention_factor > 0) return c->rope_attention_factor;
  if (c->rope_factor <= 1) return 1;
  return sqrt(1 + math_log(c->rope_factor) / math_log(c->rope_original_max_position_embeddings));
}

/* ---- tables that grow ------------------------------------------------------------------- */

enum { MIN_POSITIONS = 1024 };

/* Tables that became too short; a tape may still point into them. */
typedef struct Outgrown {
  struct Outgrown *next;
  real *cs[ROPE_TABLES];
} Outgrown;

struct Rope {
  int positions;         /* of the tables; 0: no tables yet */
  real *cs[ROPE_TABLES]; /* [positions, rotary dim / 2, 2]; NULL: the model needs none */
  Outgrown *outgrown;
};

Status rope_new(Rope **out) {
  *out = mem_zalloc(sizeof **out);
  return *out ? GRPO_OK : fail(GRPO_ENOMEM, "model: no memory for rotary positions");
}

static void free_tables(real *const cs[ROPE_TABLES]) {
  for (int i = 0; i < ROPE_TABLES; i++) mem_free_aligned(cs[i]);
}

void rope_free(Rope *r) {
  if (!r) return;
  for (Outgrown *o = r->outgrown, *next; o; o = next) {
    next = o->next;
    free_tables(o->cs);
    mem_free(o);
  }
  free_tables(r->cs);
  mem_free(r);
}

const real *rope_table(const Rope *r, RopeTable table) {
  return r->cs[r->cs[table] ? table : ROPE_FULL];
}
int rope_positions(const Rope *r) { return r->positions; }

static int new_positions(const Config *c, int old, int want) {
  const int most = c->max_position_embeddings, least = want > MIN_POSITIONS ? want : MIN_POSITIONS;
  const int n = old > least / 2 ? (old < most / 2 ? 2 * old : most) : least;
  return n < most ? n : most;
}

static bool has_table(const Config *c, RopeTable table) {
  return table == ROPE_FULL || (table == ROPE_LOCAL && config_has_local_rope(c)) ||
         (table == ROPE_QUERY && c->rope_query_beta != 0);
}

/* The factor of a query at this position (Llama 4's temperature). */
static double query_factor(const Config *c, size_t pos) {
  const double blocks = floor((double)pos / c->rope_original_max_position_embeddings);
  return 1 + c->rope_query_beta * math_log(1 + blocks);
}

/* longrope has two rows for a position, the second one with its long factors. */
static int rows_of_position(const Config *c) { return c->rope_scaling == ROPE_LONG ? 2 : 1; }

int rope_rows(const Config *c, int positions) { return rows_of_position(c) * positions; }

int rope_row(const Config *c, int pos, int length) {
  return rows_of_position(c) * pos + config_is_long(c, length);
}

static void fill_table(const Config *c, RopeTable table, bool is_long, int positions, real *cs) {
  const bool local = table == ROPE_LOCAL;
  const double sign = config_traits(c) & TRAIT_TURNS_BACK ? -1 : 1;
  const size_t half = (size_t)config_rotary_dim(c, local) / 2, rows = (size_t)rows_of_position(c);
  double inv_freq[512]; /* head_dim is at most 1024 */
  rope_frequencies(c, local, is_long, inv_freq);
  for (size_t pos = 0; pos < (size_t)positions; pos++) {
    const double of_query = table == ROPE_QUERY ? query_factor(c, pos) : 1;
    const double factor = attention_factor(c, local) * of_query;
    real *row = cs + (pos * rows + is_long) * half * 2;
    for (size_t i = 0; i < half; i++) {
      row[2 * i] = (real)(factor * math_cos((double)pos * inv_freq[i]));
      row[2 * i + 1] = (real)(factor * sign * math_sin((double)pos * inv_freq[i]));
    }
  }
}

static real *make_table(const Config *c, RopeTable table, int positions) {
  const size_t rows = (size_t)rope_rows(c, positions);
  const size_t width = (size_t)config_rotary_dim(c, table == ROPE_LOCAL);
  if (!mem_fits((double)rows * width * sizeof(real))) return NULL;
  real *cs = mem_alloc_aligned(rows * width * sizeof *cs);
  for (int k = 0; cs && !mem_measuring() && k < rows_of_position(c); k++)
    fill_table(c, table, k, positions, cs);
  return cs;
}

static bool make_tables(const Config *c, int positions, real *cs[ROPE_TABLES]) {
  bool all = true;
  for (int i = 0; i < ROPE_TABLES; i++) {
    cs[i] = has_table(c, (RopeTable)i) ? make_table(c, (RopeTable)i, positions) : NULL;
    all = all && (cs[i] || !has_table(c, (RopeTable)i));
  }
  return all;
}

Status rope_reserve(Rope *r, const Config *c, int positions) {
  if (positions > c->max_position_embeddings) positions = c->max_position_embeddings;
  if (positions <= r->positions || !config_rotates(c)) return GRPO_OK;
  const int n = new_positions(c, r->positions, positions);
  Outgrown *old = r->positions ? mem_alloc(sizeof *old) : NULL;
  real *cs[ROPE_TABLES];
  const bool made = make_tables(c, n, cs);
  if (!made || (r->positions && !old)) {
    mem_free(old);
    free_tables(cs);
    return fail(GRPO_ENOMEM, "model: no memory for a table of %d rotary positions", n);
  }
  if (old) {
    old->next = r->outgrown;
    memcpy(old->cs, r->cs, sizeof old->cs);
    r->outgrown = old;
  }
  memcpy(r->cs, cs, sizeof r->cs);
  r->positions = n;
  return GRPO_OK;
}
