/* logits.c - rows of logits: log-probabilities, entropies, KL, and their gradients. */
#include <math.h>

#include "base/pool.h"
#include "kern/kernels.h"
#include "kern/logits.h"

typedef struct LogitsJob {
  int v;
  real inv_temp;
  const real *logits, *ref;
  real *grad; /* written: the logits themselves, or dlogits */
  const int32_t *targets;
  const real *lse, *ref_lse, *in, *dlogp, *dent, *dkl;
  real *logp, *entropy, *lse_out, *kl;
} LogitsJob;

static size_t row_at(const LogitsJob *h, int r) { return (size_t)r * (size_t)h->v; }

void logits_row(int v, const real *logits, real inv_temp, LogitsRow *out) {
  RowStats st;
  kernels()->row_stats(v, logits, inv_temp, &st);
  const double log_sum = log(st.sum);
  *out = (LogitsRow){.max = st.max,
                     .log_sum = log_sum,
                     .lse = (real)((double)st.max + log_sum),
                     .entropy = (real)(log_sum - st.sumz / st.sum)};
}

real logits_row_logp(const LogitsRow *h, real logit, real inv_temp) {
  return (real)((double)(logit * inv_temp - h->max) - h->log_sum);
}

double logits_probs(int n, const real *logits, real inv_temp, real lse, real *p) {
  return kernels()->probs(n, logits, inv_temp, lse, p);
}

static void logp_row(void *arg, int r, int worker) {
  (void)worker;
  const LogitsJob *h = arg;
  const real *z = h->logits + row_at(h, r);
  LogitsRow row;
  logits_row(h->v, z, h->inv_temp, &row);
  if (h->lse_out) h->lse_out[r] = row.lse;
  if (h->entropy) h->entropy[r] = row.entropy;
  if (h->logp && h->targets) h->logp[r] = logits_row_logp(&row, z[h->targets[r]], h->inv_temp);
}

void logits_logp(const Ctx *cx, int rows, int v, const real *logits, real inv_temp,
                 const int32_t *targets, real *logp, real *entropy, real *lse) {
  LogitsJob h = {.v = v,
                 .inv_temp = inv_temp,
                 .logits = logits,
                 .targets = targets,
                 .logp = logp,
                 .entropy = entropy,
                 .lse_out = lse};
  pool_run(cx->pool, rows, logp_row, &h);
}

/* d logp / dz = [target] - p;  d entropy / dz = -p (log p + entropy) */
static void logp_grad_row(void *arg, int r, int worker) {
  (void)worker;
  const LogitsJob *h = arg;
  real *z = h->grad + row_at(h, r);
  const real dl = h->dlogp && h->targets ? h->dlogp[r] * h->inv_temp : 0;
  const real de = h->dent ? h->dent[r] * h->inv_temp : 0;
  const real c0 = -dl - (h->dent ? de * h->in[r] : 0);
  kernels()->logp_grad(h->v, z, h->inv_temp, h->lse[r], c0, -de);
  if (h->targets) z[h->targets[r]] += dl;
}

void logits_logp_grad(const Ctx *cx, int rows, int v, real *logits, real inv_temp,
                      const int32_t *targets, const real *lse, const real *entropy,
                      const real *dlogp, const real *dentropy) {
  LogitsJob h = {.v = v,
                 .inv_temp = inv_temp,
                 .grad = logits,
                 .targets = targets,
                 .lse = lse,
                 .in = entropy,
                 .dlogp = dlogp,
                 .dent = entropy ? dentropy : NULL};
  pool_run(cx->pool, rows, logp_grad_row, &h);
}

static void kl_row(void *arg, int r, int worker) {
  (void)worker;
  const LogitsJob *h = arg;
  const size_t at = row_at(h, r);
  h->kl[r] =
      (real)kernels()->kl(h->v, h->logits + at, h->ref + at, h->inv_temp, h->lse[r], h->ref_lse[r]);
}

void logits_kl(const Ctx *cx, int rows, int v, const real *logits, const real *ref_logits,
               real inv_temp, const real *lse, const real *ref_lse, real *kl) {
  LogitsJob h = {.v = v,
                 .inv_temp = inv_temp,
                 .logits = logits,
                 .ref = ref_logits,
                 .lse = lse,
                 .ref_lse = ref_lse,
                 .kl = kl};
  pool_run(cx->pool, rows, kl_row, &h);
}

static void kl_grad_row(void *arg, int r, int worker) {
  (void)worker;
  const LogitsJob *h = arg;
  const size_t at = row_at(h, r);
  kernels()->kl_grad(h->v, h->logits + at, h->ref + at, h->inv_temp, h->lse[r], h->ref_lse[r],
                     h->in[r], h->inv_temp * h->dkl[r], h->grad + at);
}

void logits_kl_grad(const Ctx *cx, int rows, int v, const real *logits, const real *ref_logits,
                    real inv_temp, const real *lse, const real *ref_lse, const real *kl,
                    const real *dkl, real *dlogits) {
  LogitsJob h = {.v = v,
                 .inv_temp = inv_temp,
                 .logits = logits,
                 .ref = ref_logits,
                 .lse = lse,
                 .ref_lse = ref_lse,
                 .in = kl,
                 .dkl = dkl,
                 .grad = dlogits};
  pool_run(cx->pool, rows, kl_grad_row, &h);
}
