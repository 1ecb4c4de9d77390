/* logits.c - rows of logits: log-probabilities, entropies, KL, and their gradients. */
#include <math.h>

#include "base/pool.h"
#include "kern/dispatch.h"
#include "kern/kernels.h"
#include "kern/logits.h"

typedef struct LogitsJob LogitsJob;
struct LogitsJob {
  const KernelClass *cpu;
  int v;
  const int *width; /* [rows] */
  real inv_temp;
  const real *logits, *ref;
  real *grad; /* written: the logits themselves, or dlogits */
  const int32_t *targets;
  const real *lse, *ref_lse, *in, *dlogp, *dent, *dkl;
  real *logp, *entropy, *lse_out, *kl;
  void (*row)(const LogitsJob *h, int r, size_t at); /* row r, whose logits begin at `at` */
};

static void one_row(void *arg, int r, int worker) {
  (void)worker;
  const LogitsJob *h = arg;
  h->row(h, r, (size_t)r * (size_t)h->v);
}

static int width_of(const LogitsJob *h, int r) { return h->width ? h->width[r] : h->v; }

void logits_row(const KernelClass *cpu, int v, const real *logits, real inv_temp, LogitsRow *out) {
  RowStats st;
  kernels(cpu)->row_stats(v, logits, inv_temp, &st);
  const double log_sum = log(st.sum);
  *out = (LogitsRow){.max = st.max,
                     .log_sum = log_sum,
                     .lse = (real)((double)st.max + log_sum),
                     .entropy = (real)(log_sum - st.sumz / st.sum)};
}

real logits_row_logp(const LogitsRow *h, real logit, real inv_temp) {
  return (real)((double)(logit * inv_temp - h->max) - h->log_sum);
}

double logits_probs(const KernelClass *cpu, int n, const real *logits, real inv_temp, real lse,
                    real *p) {
  return kernels(cpu)->probs(n, logits, inv_temp, lse, p);
}

static void logp_row(const LogitsJob *h, int r, size_t at) {
  const real *z = h->logits + at;
  LogitsRow row;
  logits_row(h->cpu, width_of(h, r), z, h->inv_temp, &row);
  if (h->lse_out) h->lse_out[r] = row.lse;
  if (h->entropy) h->entropy[r] = row.entropy;
  if (h->logp && h->targets) h->logp[r] = logits_row_logp(&row, z[h->targets[r]], h->inv_temp);
}

void logits_logp(const Ctx *cx, int rows, int v, const int *width, const real *logits,
                 real inv_temp, const int32_t *targets, real *logp, real *entropy, real *lse) {
  LogitsJob h = {.cpu = cx->cpu,
                 .row = logp_row,
                 .v = v,
                 .width = width,
                 .inv_temp = inv_temp,
                 .logits = logits};
  h.targets = targets, h.logp = logp, h.entropy = entropy, h.lse_out = lse;
  pool_run(cx->pool, rows, one_row, &h);
}

/* d logp / dz = [target] - p;  d entropy / dz = -p (log p + entropy) */
static void logp_grad_row(const LogitsJob *h, int r, size_t at) {
  real *z = h->grad + at;
  const real dl = h->dlogp && h->targets ? h->dlogp[r] * h->inv_temp : 0;
  const real de = h->dent ? h->dent[r] * h->inv_temp : 0;
  const real c0 = -dl - (h->dent ? de * h->in[r] : 0);
  kernels(h->cpu)->logp_grad(width_of(h, r), z, h->inv_temp, h->lse[r], c0, -de);
  if (h->targets) z[h->targets[r]] += dl;
}

void logits_logp_grad(const Ctx *cx, int rows, int v, const int *width, real *logits, real inv_temp,
                      const int32_t *targets, const real *lse, const real *entropy,
                      const real *dlogp, const real *dentropy) {
  LogitsJob h = {.cpu = cx->cpu,
                 .row = logp_grad_row,
                 .v = v,
                 .width = width,
                 .inv_temp = inv_temp,
                 .grad = logits};
  h.targets = targets, h.lse = lse, h.in = entropy, h.dlogp = dlogp;
  h.dent = entropy ? dentropy : NULL;
  pool_run(cx->pool, rows, one_row, &h);
}

static void kl_row(const LogitsJob *h, int r, size_t at) {
  h->kl[r] = (real)kernels(h->cpu)->kl(width_of(h, r), h->logits + at, h->ref + at, h->inv_temp,
                                       h->lse[r], h->ref_lse[r]);
}

void logits_kl(const Ctx *cx, int rows, int v, const int *width, const real *logits,
               const real *ref_logits, real inv_temp, const real *lse, const real *ref_lse,
               real *kl) {
  LogitsJob h = {.cpu = cx->cpu,
                 .row = kl_row,
                 .v = v,
                 .width = width,
                 .inv_temp = inv_temp,
                 .logits = logits};
  h.ref = ref_logits, h.lse = lse, h.ref_lse = ref_lse, h.kl = kl;
  pool_run(cx->pool, rows, one_row, &h);
}

static void kl_grad_row(const LogitsJob *h, int r, size_t at) {
  kernels(h->cpu)->kl_grad(width_of(h, r), h->logits + at, h->ref + at, h->inv_temp, h->lse[r],
                           h->ref_lse[r], h->in[r], h->inv_temp * h->dkl[r], h->grad + at);
}

void logits_kl_grad(const Ctx *cx, int rows, int v, const int *width, const real *logits,
                    const real *ref_logits, real inv_temp, const real *lse, const real *ref_lse,
                    const real *kl, const real *dkl, real *dlogits) {
  LogitsJob h = {.cpu = cx->cpu,
                 .row = kl_grad_row,
                 .v = v,
                 .width = width,
                 .inv_temp = inv_temp,
                 .logits = logits};
  h.ref = ref_logits, h.lse = lse, h.ref_lse = ref_lse, h.in = kl, h.dkl = dkl, h.grad = dlogits;
  pool_run(cx->pool, rows, one_row, &h);
}
