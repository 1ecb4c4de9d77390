/* logits.h - rows of logits: log-probabilities, entropies, KL, and their gradients.
 *
 * logits are [rows, v], with ld = v; z = logits * inv_temp, and lse = log sum exp z.  Row r holds
 * width[r] logits, those of a set of tokens (token_set.h), and targets are places among them.
 * width NULL: every row holds v, the whole vocabulary.
 * Row-invariant: decoding and training get the same bits.
 */
#ifndef GRPO_KERN_LOGITS_H
#define GRPO_KERN_LOGITS_H

#include <stdint.h>

#include "kern/kern.h"

/* logp[r] = z[target] - lse and entropy[r] = -sum p log p.  Results may be NULL; without targets
 * there is no logp. */
void logits_logp(const Ctx *cx, int rows, int v, const int *width, const real *logits,
                 real inv_temp, const int32_t *targets, real *logp, real *entropy, real *lse);
/* Overwrites logits with d loss / d logits, given d loss / d logp and d loss / d entropy (NULL:
 * none). */
void logits_logp_grad(const Ctx *cx, int rows, int v, const int *width, real *logits, real inv_temp,
                      const int32_t *targets, const real *lse, const real *entropy,
                      const real *dlogp, const real *dentropy);
/* How far a reference q is from p: the generalised Jensen-Shannon divergence D of 2306.13649.
 *   beta 1: D = sum p (log p - log q), the reverse KL.   beta 0: D = sum q (log q - log p)
 *   else, with m = beta q + (1 - beta) p: D = beta sum q (log q - log m)
 *                                             + (1 - beta) sum p (log p - log m)
 * top_k > 0: the sums are over the top_k tokens that q likes best (of equal ones the smaller id),
 * and over one more outcome, all other tokens together. */
typedef struct Divergence {
  real beta;
  int top_k; /* 0: all tokens */
} Divergence;

/* kl[r] = D; mean[r] = sum over the outcomes of p * slope, where slope = d D / d p: log p - log q,
 * -q / p, or (1 - beta) (log p - log m).  d NULL: beta 1, top_k 0, and mean is not written, because
 * it is kl.  top: [rows, top_k] scratch, or NULL where top_k is 0 or all tokens. */
void logits_kl(const Ctx *cx, int rows, int v, const int *width, const Divergence *d,
               const real *logits, const real *ref_logits, real inv_temp, const real *lse,
               const real *ref_lse, int32_t *top, real *kl, real *mean);
/* dlogits += inv_temp * dkl * p (slope - mean).  The logits must not be overwritten yet. */
void logits_kl_grad(const Ctx *cx, int rows, int v, const int *width, const Divergence *d,
                    const real *logits, const real *ref_logits, real inv_temp, const real *lse,
                    const real *ref_lse, const real *mean, const real *dkl, int32_t *top,
                    real *dlogits);

/* The numbers of one row from which its tokens' log-probabilities follow; the bits are those of
 * logits_logp. */
typedef struct LogitsRow {
  real max, lse, entropy;
  double log_sum; /* lse - max */
} LogitsRow;
void logits_row(const KernelClass *cpu, int v, const real *logits, real inv_temp, LogitsRow *out);
real logits_row_logp(const LogitsRow *h, real logit, real inv_temp);
/* p = exp(z - lse) of a piece of a row; returns their sum, added up by index modulo 4. */
double logits_probs(const KernelClass *cpu, int n, const real *logits, real inv_temp, real lse,
                    real *p);

#endif
