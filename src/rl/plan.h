/* plan.h - one optimizer step laid out: units, masks and per-token arrays.
 *
 * Every number that the loss divides by is known here, before the first forward, so a step may be
 * cut into micro-batches at will.  Arrays are per completion token, in batch order, so a unit is a
 * slice of each.
 */
#ifndef GRPO_RL_PLAN_H
#define GRPO_RL_PLAN_H

#include "base/arena.h"
#include "rl/batch.h"
#include "rl/units.h"
#include "rl/update_options.h"

/* How a step is cut, and what is in no loss beside what UpdateOptions leave out. */
typedef struct PlanCut {
  int micro_batch_tokens; /* 0: one unit at a time */
  int end_below;          /* see units_of_batch() */
  const bool *left_out;   /* [completions] that are in no loss; NULL: none */
} PlanCut;

typedef struct MicroBatch {
  int first, n;  /* units, by their place in the step's order */
  double tokens; /* masked tokens */
} MicroBatch;

typedef struct Plan {
  int nseq, ntokens, nunits, nbatches;
  int *length;                          /* [nseq] */
  Unit *unit;                           /* [nunits] */
  int *order;                           /* [nunits] units as this step takes them; all, 0, 1, ...
                                              but in PPO's minibatches */
  int *place;                           /* [nunits] of the unit's group among those of the step */
  bool *silent;                         /* [nunits] every advantage times mask is 0 */
  MicroBatch *batch;                    /* [nbatches] */
  real *advantage, *mask, *top_entropy; /* [ntokens] */
  uint8_t *chosen;                      /* [ntokens] see covariance.h; NULL: no token is chosen */
  uint8_t *sampled;                     /* [ntokens] 0: injected; NULL: all tokens are sampled */
  real *old_logp, *old_entropy, *ref_logp; /* [ntokens]; ref_logp NULL when the batch has none */
  real *kl_mask; /* [ntokens] 0: the reference does not measure the token; NULL: it measures all */
  real *sampler_logp;   /* [ntokens]; NULL: the weights before the update have sampled, and old_logp
                         is theirs */
  real *logp, *entropy; /* [ntokens] of the current forward */
  real *dlogp, *dentropy, *dkl; /* [ntokens] what the loss sends back */
  double num_sequences, num_tokens, num_kept;
} Plan;

/* Bytes that plan_make takes of the arena at most. */
size_t plan_bytes(int sequences, int max_new);
Status plan_make(Arena *a, const Batch *b, const UpdateOptions *o, const PlanCut *cut, Plan *out);

/* The log-probabilities under the weights that have sampled [ntokens]. */
static inline const real *plan_sampler_logp(const Plan *p) {
  return p->sampler_logp ? p->sampler_logp : p->old_logp;
}

/* Fills what the loss of a unit reads, all of *out but options and metrics. */
void plan_loss(const Plan *p, const MicroBatch *mb, const Unit *unit, PolicyLossAttr *out);

/* Cut n units, in this order, into micro-batches of at most micro_batch_tokens rows, or of one
 * unit. Returns their number. */
int plan_cut(int n, const int *order, const Unit *unit, int micro_batch_tokens, MicroBatch *out);

#endif
