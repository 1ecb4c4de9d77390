#include "grad/covariance.h"

#include <string.h>

#include "grad/quantile.h"

bool covariance_is_used(const LossOptions *o) {
  return o->clip_cov_ratio > 0 || o->kl_cov_ratio > 0;
}

static bool is_masked_in(const CovarianceInput *in, size_t i) {
  return !in->mask || in->mask[i] != 0;
}

/* x = minus the covariance of each masked token.  Returns the number of these tokens. */
static size_t covariances(const CovarianceInput *in, real *x) {
  double logp = 0, advantage = 0;
  size_t count = 0;
  for (size_t i = 0; i < in->n; i++) {
    if (!is_masked_in(in, i)) continue;
    logp += (double)in->logp[i];
    advantage += (double)in->advantage[i];
    count++;
  }
  for (size_t i = 0; i < in->n && count; i++)
    x[i] = (real) - (((double)in->logp[i] - logp / (double)count) *
                     ((double)in->advantage[i] - advantage / (double)count));
  return count;
}

/* Marks the k of these n tokens with the smallest x; k is this share of `count`, and at least 1. */
static void mark(const real *x, uint32_t *at, size_t n, double share, size_t count, int bit,
                 uint8_t *chosen) {
  size_t k = (size_t)(share * (double)count);
  if (k < 1) k = 1;
  if (k > n) k = n;
  smallest(x, at, n, k);
  for (size_t i = 0; i < k; i++) chosen[at[i]] |= (uint8_t)bit;
}

static void choose_kl(const LossOptions *o, const CovarianceInput *in, size_t count, const real *x,
                      uint32_t *at, uint8_t *chosen) {
  size_t n = 0;
  for (size_t i = 0; i < in->n; i++)
    if (is_masked_in(in, i)) at[n++] = (uint32_t)i;
  mark(x, at, n, o->kl_cov_ratio, count, CHOSEN_KL, chosen);
}

/* Overwrites x of the tokens within the bounds by their random numbers. */
static void choose_clip(const LossOptions *o, const CovarianceInput *in, size_t count, real *x,
                        uint32_t *at, uint8_t *chosen) {
  size_t n = 0;
  for (size_t i = 0; i < in->n; i++)
    if (is_masked_in(in, i) && (double)-x[i] > o->clip_cov_low && (double)-x[i] < o->clip_cov_high)
      at[n++] = (uint32_t)i;
  for (size_t k = 0; k < n; k++) x[at[k]] = (real)rng_uniform(&in->key, at[k]);
  mark(x, at, n, o->clip_cov_ratio, count, CHOSEN_CLIP, chosen);
}

void covariance_choose(const LossOptions *o, const CovarianceInput *in, real *x, uint32_t *at,
                       uint8_t *chosen) {
  memset(chosen, 0, in->n);
  const size_t count = covariances(in, x);
  if (o->kl_cov_ratio > 0) choose_kl(o, in, count, x, at, chosen);
  if (o->clip_cov_ratio > 0) choose_clip(o, in, count, x, at, chosen);
}
