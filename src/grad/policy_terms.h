/* policy_terms.h - one sequence of a policy loss, and the term each loss has for it.
 *
 * All in double.  A term is what the loss's formula says before averaging; its derivatives stand
 * beside its value.  The ratios, masks and corrections in `Sequence` are made by op_policy_loss.c.
 */
#ifndef GRPO_GRAD_POLICY_TERMS_H
#define GRPO_GRAD_POLICY_TERMS_H

#include <stdbool.h>

#include "grad/attrs.h"

/* How a loss's terms are averaged. */
typedef enum Average {
  BY_SEQUENCE, /* sum / n_i, then over the step's sequences */
  BY_LENGTH,   /* sum / (sequences x max_new_tokens) */
  BY_TOKEN,    /* sum / tokens of the step */
  BY_BATCH,    /* sum / tokens of the micro-batch */
  BY_SUM       /* sum, then over the step's sequences */
} Average;

/* One sequence; arrays have n entries.  Where the mask is 0, logp and diff are 0. */
typedef struct Sequence {
  int n;
  double mass, count; /* sum of the mask; the same, at least 1 */
  double *mask;       /* m */
  double *kept;       /* top-entropy mask */
  double *advantage;  /* A */
  double *logp;       /* l */
  double *diff;       /* d = l - old */
  double *log_ratio;  /* lw, as `importance` says */
  double *ratio;      /* w = exp(lw) */
  double *factor;     /* sampler correction and off-policy mask of the policy term */
  double log_weight;  /* vespo: log W, clamped */
} Sequence;

typedef struct Term {
  double value, d_ratio, d_logp; /* derivatives by w and, directly, by l */
} Term;

typedef struct LossRule {
  /* either a term per token ... */
  Term (*token)(const LossOptions *o, const Sequence *s, int t);
  /* ... or one per sequence, which writes d term / d l to d_logp[n] */
  double (*sequence)(const LossOptions *o, const Sequence *s, double *d_logp);
  Average average;
  bool entropy_by_token; /* the entropy bonus is divided by all tokens, not by the kept ones */
  bool clips;            /* has clip metrics */
} LossRule;

extern const LossRule loss_rules[LOSS_COUNT];

double clamp_to(double x, double low, double high); /* NaN stays NaN */
double exp_clamped(double x);                       /* exp of x clamped to +-20 */
double exp_clamped_slope(double x);                 /* its derivative */
double sequence_ratio(const Sequence *s);           /* rloo's w: exp of the sum of d */
double ratio_cap(const LossOptions *o);             /* cispo's: cispo_cap or 1 + clip_high */

#endif
