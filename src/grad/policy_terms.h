/* policy_terms.h - one sequence of a policy loss, and the term each loss has for it.
 *
 * All in double.  A term is what the loss's formula says before averaging; its derivatives stand
 * beside its value.  The ratios, masks and corrections in `Sequence` are made by op_policy_loss.c.
 */
#ifndef GRPO_GRAD_POLICY_TERMS_H
#define GRPO_GRAD_POLICY_TERMS_H

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
  double *kept;       /* top-entropy mask, 0 where Clip-Cov chose the token */
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

/* On which side is the policy term cut there, where the advantage pulls?  0 or 1. */
typedef struct Clipped {
  double low, high, count;
} Clipped;

enum LossTrait {
  ENTROPY_BY_TOKEN = 1,  /* the entropy bonus is divided by all tokens, not by the kept ones */
  KL_BY_SEQUENCE = 2,    /* the KL is averaged over each sequence, whatever the policy term does */
  SEQUENCE_ONLY = 4,     /* defined with importance = "sequence" only */
  OWN_WEIGHT = 8,        /* has a weight of its own in place of importance */
  TOKEN_GRADIENT = 16,   /* importance = "sequence" means IMPORTANCE_SEQUENCE_TOKEN */
  SEQUENCE_WEIGHT = 32,  /* reads Sequence.log_weight, which takes the sampler correction in */
  SEQUENCE_CLIPPED = 64, /* clip metrics count sequences, by sequence_ratio() */
  NO_ADVANTAGE = 128
};

typedef struct LossRule {
  /* either a term per token ... */
  Term (*token)(const LossOptions *o, const Sequence *s, int t);
  /* ... or one per sequence, which writes d term / d l to d_logp[n] */
  double (*sequence)(const LossOptions *o, const Sequence *s, double *d_logp);
  Average average;
  Clipped (*clipped)(const LossOptions *o, double w, double advantage); /* NULL: never clips */
  unsigned traits;
} LossRule;

extern const LossRule loss_rules[LOSS_COUNT];

double clamp_to(double x, double low, double high); /* NaN stays NaN */
double exp_clamped(double x);                       /* exp of x clamped to +-20 */
double exp_clamped_slope(double x);                 /* its derivative */
double sequence_ratio(const Sequence *s);           /* rloo's w: exp of the sum of d */
double kl_k3(double d); /* the k3 estimate of the KL for d = log p - log p_ref, clamped */

#endif
