#include "model/sampler.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/exponential.h"
#include "kern/logits.h"
#include "kern/token_set.h"

enum { BLOCK = 512 };
static const real FORBIDDEN = (real)-1e30; /* the logit of a token that is not sampled */

static const Option option_rows[] = {
#define OPTIONS_OF Sampling
#include "base/option_rows.h"
#include "model/sampling.def"
};

const OptionSet sampling_option_set = OPTION_SET("sampling.", option_rows);

void sampling_init(Sampling *s) {
  *s = (Sampling){0};
  options_init_rows(&sampling_option_set, s);
}

Status sampling_check(const Sampling *s) {
  try(options_check(&sampling_option_set, s));
  if (s->temperature > 0 && s->temperature < 1e-4)
    return fail(GRPO_EARG,
                "sampling.temperature: %g is too small to divide by; use 0 (greedy) or 0.0001 and "
                "more",
                s->temperature);
  if (s->top_p == 0)
    return fail(GRPO_EARG, "sampling.top_p: 0 leaves no token to sample; use more than 0, up to 1");
  for (int i = 0; i < s->num_stop; i++)
    if (!s->stop[i] || !*s->stop[i])
      return fail(GRPO_EARG,
                  "sampling.stop: string %d is empty, which would end every completion; remove it",
                  i + 1);
  return GRPO_OK;
}

static bool has_filters(const Sampling *s) {
  return s->top_k > 0 || s->top_p < 1 || s->min_p > 0 || s->grammar;
}

bool sampling_is_truncated(const Sampling *s) { return s->temperature > 0 && has_filters(s); }

int sampling_mask_tokens(const Sampling *s, int vocab) {
  if (!sampling_is_truncated(s)) return 0;
  return s->top_k > 0 && s->top_k < vocab ? s->top_k : vocab;
}

/* ---- an order without ties -------------------------------------------------------- */

typedef struct Candidate {
  real z;
  int32_t id;
} Candidate;

static bool better(Candidate a, Candidate b) { return a.z > b.z || (a.z == b.z && a.id < b.id); }

/* ---- filters: each returns the worst candidate it keeps -------------------------------- */

/* Restores a heap whose root is the worst of its n candidates. */
static void sift_down(Candidate *h, int n, int i) {
  const Candidate x = h[i];
  for (int child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && better(h[child], h[child + 1])) child++;
    if (!better(x, h[child])) break;
    h[i] = h[child];
  }
  h[i] = x;
}

/* h = the best k candidates, as a heap with the worst of them first. */
static void best_k(const real *z, int vocab, int k, Candidate *h) {
  for (int i = 0; i < k; i++) h[i] = (Candidate){z[i], i};
  for (int i = k / 2; i-- > 0;) sift_down(h, k, i);
  for (int i = k; i < vocab; i++)
    if (z[i] > h[0].z) { /* an equal one has the larger id */
      h[0] = (Candidate){z[i], i};
      sift_down(h, k, 0);
    }
}

/* Leaves out tokens so unlikely that all of them together weigh less than the tail that top_p
 * drops. */
static int likely(const real *z, const real *p, int vocab, double mass, double top_p,
                  Candidate *c) {
  const double least = mass * (1 - top_p) / vocab;
  int n = 0;
  for (int i = 0; i < vocab; i++)
    if ((double)p[i] >= least) c[n++] = (Candidate){z[i], i};
  return n;
}

/* Moves the candidates that are better than the middle one before it and the others behind it.
 * Returns its place; *before is the probability of those before it. */
static int split(Candidate *c, int lo, int hi, const real *p, double *before) {
  const int mid = lo + (hi - lo) / 2;
  int at = lo;
  const Candidate pivot = c[mid];
  c[mid] = c[hi - 1];
  *before = 0;
  for (int i = lo; i < hi - 1; i++) {
    if (!better(c[i], pivot)) continue;
    const Candidate x = c[i];
    *before += (double)p[x.id];
    c[i] = c[at];
    c[at++] = x;
  }
  c[hi - 1] = c[at];
  c[at] = pivot;
  return at;
}

/* The last of the best candidates that together have probability `need`, by a quickselect that
 * counts probability. */
static Candidate cut_mass(Candidate *c, int n, const real *p, double need) {
  Candidate last = c[0];
  for (int lo = 0, hi = n; lo < hi;) {
    double before;
    const int at = split(c, lo, hi, p, &before);
    if (at > lo && before >= need) {
      hi = at;
      continue;
    }
    last = c[at];
    need -= before + (double)p[last.id];
    if (need <= 0) break;
    lo = at + 1;
  }
  return last;
}

/* p = exp(z - max) adds up to `mass`. */
static Candidate worst_kept(const Sampling *s, const real *z, const real *p, int vocab, real max,
                            double mass, Candidate *c) {
  Candidate worst = {-(real)INFINITY, INT_MAX};
  int n = s->top_k;
  const bool top_k = n > 0 && n < vocab;
  if (top_k) {
    best_k(z, vocab, n, c);
    worst = c[0];
  }
  if (s->top_p < 1) {
    if (top_k) mass = 0;
    for (int i = 0; top_k && i < n; i++) mass += (double)p[c[i].id];
    if (!top_k) n = likely(z, p, vocab, mass, s->top_p, c);
    worst = cut_mass(c, n, p, s->top_p * mass);
  }
  if (s->min_p > 0) {
    const Candidate least = {(real)((double)max + math_log(s->min_p)), INT_MAX};
    if (better(least, worst)) worst = least;
  }
  return worst;
}

/* ---- sampling ------------------------------------------------------------------------- */

/* The first of n probabilities that takes the running sum past `goal`; the last possible one when
 * rounding keeps the sum below.  *part: how far into it the goal is, from 0 to 1. */
static int pass_goal(const real *p, int n, double goal, double at, double *part) {
  int last = -1;
  for (int i = 0; i < n; i++) {
    at += (double)p[i];
    if (at > goal) {
      *part = fmin(1 - 0x1p-53, fmax(0, 1 - (at - goal) / (double)p[i]));
      return i;
    }
    if (p[i] > 0) last = i;
  }
  return last;
}

/* Samples among all tokens; up to rounding their probabilities add up to 1.  Given the token, *part
 * is a uniform number again. */
static int32_t sample_any(const SamplerInput *d, double *part) {
  real p[BLOCK];
  double sum = 0;
  int32_t last = 0;
  for (int at = 0; at < d->vocab; at += BLOCK) {
    const int n = d->vocab - at < BLOCK ? d->vocab - at : BLOCK;
    const double after = sum + logits_probs(d->cpu, n, d->logits + at, d->inv_temp, d->lse, p);
    const int i = after > d->uniform ? pass_goal(p, n, d->uniform, sum, part) : -1;
    if (i >= 0) return at + i;
    sum = after;
    for (int k = n; k-- > 0;)
      if (p[k] > 0) {
        last = at + k;
        break;
      }
  }
  return last;
}

static void write_set(int vocab, int n, const Candidate *kept, uint32_t *set) {
  token_set_begin(set, vocab, n);
  for (int i = 0; i < n; i++) token_set_add(set, vocab, i, kept[i].id);
}

/* Samples among the tokens from `worst` up; kept [vocab] receives their ids and probabilities. */
static int32_t sample_filtered(const SamplerInput *d, const real *z, const real *p, Candidate worst,
                               Candidate *kept, uint32_t *set) {
  double mass = 0, sum = 0;
  int32_t last = 0;
  int n = 0;
  for (int i = 0; i < d->vocab; i++) {
    if (z[i] <= FORBIDDEN || z[i] < worst.z || better(worst, (Candidate){z[i], i})) continue;
    kept[n++] = (Candidate){p[i], i};
    mass += (double)p[i];
  }
  if (set) write_set(d->vocab, n, kept, set);
  for (int i = 0; i < n; i++) {
    sum += (double)kept[i].z;
    if (kept[i].z > 0) last = kept[i].id;
    if (sum > d->uniform * mass) break;
  }
  return last;
}

static int32_t largest(const real *z, int vocab) {
  int best = 0;
  for (int i = 1; i < vocab; i++)
    if (z[i] > z[best]) best = i;
  return best;
}

/* The first token with the largest logit; inv_temp is 1, so one of them equals max. */
static int32_t first(const real *z, int vocab, real max) {
  int i = 0;
  while (i < vocab - 1 && z[i] != max) i++;
  return i;
}

/* Divides positive logits of tokens that have occurred and multiplies the others, once for every
 * token, like transformers. */
static void penalise(const SamplerInput *d, const int32_t *ids, int n, real *z) {
  const real by = (real)d->sampling->repetition_penalty;
  for (int i = 0; i < n; i++) {
    const real x = d->logits[ids[i]];
    z[ids[i]] = x < 0 ? x * by : x / by;
  }
}

static void forbid(const SamplerInput *d, real *x, real value) {
  for (int i = 0; i < d->nforbidden; i++) x[d->forbidden[i]] = value;
  for (int i = 0; d->allowed && i < d->vocab; i++)
    if (!(d->allowed[i >> 5] >> (i & 31) & 1)) x[i] = value;
}

static bool is_forbidden(const SamplerInput *d, int32_t id) {
  for (int i = 0; i < d->nforbidden; i++)
    if (d->forbidden[i] == id) return true;
  return false;
}

size_t sampler_scratch_bytes(int vocab) {
  return (size_t)vocab * (2 * sizeof(real) + sizeof(Candidate));
}

/* Samples where penalties, filters or forbidden tokens change the probabilities. */
static int32_t sample_changed(const SamplerInput *d, void *scratch, uint32_t *set) {
  const Sampling *s = d->sampling;
  const bool penalty = s->repetition_penalty != 1;
  const bool changed = penalty || d->nforbidden > 0 || d->allowed;
  real *z = scratch, *p = z + d->vocab, max = d->max;
  Candidate *c = (Candidate *)(void *)(p + d->vocab);
  if (changed) memcpy(z, d->logits, (size_t)d->vocab * sizeof *z);
  if (penalty) {
    penalise(d, d->prompt, d->prompt_len, z);
    penalise(d, d->ids, d->len, z);
  }
  forbid(d, z, FORBIDDEN);
  if (s->temperature == 0) return largest(z, d->vocab);
  for (int i = 0; i < d->vocab; i++) z[i] = (changed ? z : d->logits)[i] * d->inv_temp;
  forbid(d, z, FORBIDDEN);
  if (changed) max = z[largest(z, d->vocab)];
  const double mass = logits_probs(d->cpu, d->vocab, z, 1, max, p);
  forbid(d, p, 0);
  const Candidate worst = worst_kept(s, z, p, d->vocab, max, mass, c);
  return sample_filtered(d, z, p, worst, c, set);
}

/* Without penalty and filters.  Where the token is a forbidden one, another is sampled among those
 * that are not, so that forbidden tokens without probability change nothing. */
static int32_t sample_plainly(SamplerInput d, void *scratch) {
  double part = 0;
  const int32_t id = sample_any(&d, &part);
  if (!is_forbidden(&d, id)) return id;
  d.uniform = part;
  return sample_changed(&d, scratch, NULL);
}

int32_t sampler_token(const SamplerInput *d, void *scratch, uint32_t *set) {
  const Sampling *s = d->sampling;
  const bool greedy = s->temperature == 0, penalty = s->repetition_penalty != 1;
  if (set) token_set_begin(set, d->vocab, d->vocab);
  if (!penalty && greedy && d->nforbidden == 0 && !d->allowed)
    return first(d->logits, d->vocab, d->max);
  if (!penalty && !greedy && !has_filters(s)) return sample_plainly(*d, scratch);
  return sample_changed(d, scratch, set);
}
