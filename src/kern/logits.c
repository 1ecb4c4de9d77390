/* logits.c - rows of logits: log-probabilities, entropies, KL, and their gradients. */
#include <math.h>
#include <stdlib.h>

#include "base/exponential.h"
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
  real *logp, *entropy, *lse_out, *kl, *mean_out;
  const Divergence *d;                               /* NULL: the reverse KL over all tokens */
  int32_t *top;                                      /* [rows, d->top_k] */
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
  const double log_sum = math_log(st.sum);
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

/* ---- divergences over the best tokens and the rest ------------------------------------------ */

/* Is token a a better choice than b? */
static bool better(const real *q, int32_t a, int32_t b) {
  return q[a] > q[b] || (q[a] == q[b] && a < b);
}

/* Sinks id from place i of a heap of n ids, whose worst is at the top. */
static void sink(const real *q, int32_t *heap, int n, int i, int32_t id) {
  for (int child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && better(q, heap[child], heap[child + 1])) child++;
    if (!better(q, id, heap[child])) break;
    heap[i] = heap[child];
  }
  heap[i] = id;
}

static int ascending(const void *a, const void *b) {
  const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* top [k] = the ids of the k largest of q [v], k < v, in rising order */
static void choose(const real *q, int v, int k, int32_t *top) {
  for (int i = 0; i < k; i++) top[i] = i;
  for (int i = k / 2; i-- > 0;) sink(q, top, k, i, top[i]);
  for (int id = k; id < v; id++)
    if (better(q, id, top[0])) sink(q, top, k, 0, id);
  qsort(top, (size_t)k, sizeof *top, ascending);
}

/* One outcome: its part of the divergence, and the slope. */
typedef struct Outcome {
  double value, slope;
} Outcome;

static Outcome outcome(double beta, double log_p, double log_q) {
  const double p = math_exp(log_p), q = math_exp(log_q);
  if (beta == 1) return (Outcome){p > 0 ? p * (log_p - log_q) : 0, log_p - log_q};
  if (beta == 0) return (Outcome){q > 0 ? q * (log_q - log_p) : 0, -math_exp(log_q - log_p)};
  const double m = math_log(beta * q + (1 - beta) * p);
  const double of_p = p > 0 ? (1 - beta) * (log_p - m) : 0;
  return (Outcome){p * of_p + (q > 0 ? beta * q * (log_q - m) : 0), of_p};
}

/* A logit of -inf counts as FLOOR, so that no slope is infinite. */
static double log_prob(real logit, real inv_temp, real lse) {
  enum { FLOOR = -700 };
  return fmax(FLOOR, (double)(logit * inv_temp) - (double)lse);
}

/* The log of what is left of 1; at least 1e-7 is, so that its log and its slope are finite. */
static double log_rest(double sum) { return math_log(fmax(1 - sum, 1e-7)); }

typedef struct TopRow {
  const LogitsJob *h;
  int r;
  size_t at;
  int32_t *top;
} TopRow;

static Outcome of_token(const TopRow *t, int32_t id, double *p, double *q) {
  const LogitsJob *h = t->h;
  const double log_p = log_prob(h->logits[t->at + (size_t)id], h->inv_temp, h->lse[t->r]);
  const double log_q = log_prob(h->ref[t->at + (size_t)id], h->inv_temp, h->ref_lse[t->r]);
  *p += math_exp(log_p);
  *q += math_exp(log_q);
  return outcome((double)h->d->beta, log_p, log_q);
}

static TopRow top_row(const LogitsJob *h, int r, size_t at) {
  const TopRow t = {h, r, at, h->top + (size_t)r * (size_t)h->d->top_k};
  choose(h->ref + at, h->v, h->d->top_k, t.top);
  return t;
}

static Outcome rest_of(const LogitsJob *h, double p, double q) {
  return outcome((double)h->d->beta, log_rest(p), log_rest(q));
}

static void top_kl_row(const LogitsJob *h, int r, size_t at) {
  const TopRow t = top_row(h, r, at);
  double p = 0, q = 0, value = 0, mean = 0;
  for (int i = 0; i < h->d->top_k; i++) {
    const double before = p;
    const Outcome o = of_token(&t, t.top[i], &p, &q);
    value += o.value;
    mean += (p - before) * o.slope;
  }
  const Outcome rest = rest_of(h, p, q);
  h->kl[r] = (real)(value + rest.value);
  h->mean_out[r] = (real)(mean + math_exp(log_rest(p)) * rest.slope);
}

/* All tokens get the slope of the rest, then the best ones their own. */
static void top_kl_grad_row(const LogitsJob *h, int r, size_t at) {
  const TopRow t = top_row(h, r, at);
  const double c = (double)h->inv_temp * (double)h->dkl[r];
  double p = 0, q = 0;
  for (int i = 0; i < h->d->top_k; i++) of_token(&t, t.top[i], &p, &q);
  const Outcome rest = rest_of(h, p, q);
  real *d = h->grad + at;
  const real *z = h->logits + at;
  kernels(h->cpu)->kl_grad(h->v, z, z, h->inv_temp, h->lse[r], h->lse[r],
                           (real)((double)h->in[r] - rest.slope), (real)c, d);
  for (int i = 0; i < h->d->top_k; i++) {
    double own = 0;
    const Outcome o = of_token(&t, t.top[i], &own, &q);
    d[t.top[i]] += (real)(c * own * (o.slope - rest.slope));
  }
}

/* ---- divergences over all tokens ------------------------------------------------------------ */

static void kl_row(const LogitsJob *h, int r, size_t at) {
  h->kl[r] = (real)kernels(h->cpu)->kl(width_of(h, r), h->logits + at, h->ref + at, h->inv_temp,
                                       h->lse[r], h->ref_lse[r]);
  if (h->mean_out) h->mean_out[r] = h->kl[r];
}

static void jsd_row(const LogitsJob *h, int r, size_t at) {
  double mean;
  h->kl[r] = (real)kernels(h->cpu)->jsd(width_of(h, r), h->logits + at, h->ref + at, h->inv_temp,
                                        h->lse[r], h->ref_lse[r], h->d->beta, &mean);
  h->mean_out[r] = (real)mean;
}

static void kl_grad_row(const LogitsJob *h, int r, size_t at) {
  kernels(h->cpu)->kl_grad(width_of(h, r), h->logits + at, h->ref + at, h->inv_temp, h->lse[r],
                           h->ref_lse[r], h->in[r], h->inv_temp * h->dkl[r], h->grad + at);
}

static void jsd_grad_row(const LogitsJob *h, int r, size_t at) {
  kernels(h->cpu)->jsd_grad(width_of(h, r), h->logits + at, h->ref + at, h->inv_temp, h->lse[r],
                            h->ref_lse[r], h->d->beta, h->in[r], h->inv_temp * h->dkl[r],
                            h->grad + at);
}

static bool is_top(const LogitsJob *h) { return h->d && h->d->top_k > 0 && h->d->top_k < h->v; }
static bool is_jsd(const LogitsJob *h) { return h->d && h->d->beta != 1; }

void logits_kl(const Ctx *cx, int rows, int v, const int *width, const Divergence *d,
               const real *logits, const real *ref_logits, real inv_temp, const real *lse,
               const real *ref_lse, int32_t *top, real *kl, real *mean) {
  LogitsJob h = {.cpu = cx->cpu, .v = v, .width = width, .inv_temp = inv_temp, .logits = logits};
  h.d = d, h.ref = ref_logits, h.lse = lse, h.ref_lse = ref_lse, h.top = top, h.kl = kl;
  h.mean_out = d ? mean : NULL;
  h.row = is_top(&h) ? top_kl_row : is_jsd(&h) ? jsd_row : kl_row;
  pool_run(cx->pool, rows, one_row, &h);
}

void logits_kl_grad(const Ctx *cx, int rows, int v, const int *width, const Divergence *d,
                    const real *logits, const real *ref_logits, real inv_temp, const real *lse,
                    const real *ref_lse, const real *mean, const real *dkl, int32_t *top,
                    real *dlogits) {
  LogitsJob h = {.cpu = cx->cpu, .v = v, .width = width, .inv_temp = inv_temp, .logits = logits};
  h.d = d, h.ref = ref_logits, h.lse = lse, h.ref_lse = ref_lse, h.in = mean, h.dkl = dkl;
  h.top = top, h.grad = dlogits;
  h.row = is_top(&h) ? top_kl_grad_row : is_jsd(&h) ? jsd_grad_row : kl_grad_row;
  pool_run(cx->pool, rows, one_row, &h);
}
