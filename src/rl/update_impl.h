/* update_impl.h - an update in progress: what update.c and ppo.c share; for src/rl only. */
#ifndef GRPO_RL_UPDATE_IMPL_H
#define GRPO_RL_UPDATE_IMPL_H

#include "rl/engine_impl.h"

/* What of a critic adds up over the passes of a step. */
typedef struct ValueSums {
  double value_loss;         /* of all passes, without value_coef */
  double clipped, positions; /* values held back by the loss's bounds; values in all */
  double approx_kl, tokens;  /* (log p - old log p)^2 / 2 over masked tokens */
} ValueSums;

/* The critic's side of a step.  Arrays are by position (gae.h), in batch order: a unit's positions
 * are a slice of each. */
typedef struct Values {
  int n;
  int *positions;     /* [nseq] */
  int *first, *count; /* [nunits] the slice of a unit */
  real *mask;         /* [n] */
  real *old, *target; /* [n] before the update; returns */
  real *now, *slope;  /* [n] of the current forward; d loss / d value */
  Tensor **out;       /* [nunits] what the head gave in this micro-batch */
  double num;         /* masked positions of this optimizer step */
  double coef, clip;  /* value_coef, clip_value */
  double deviation;   /* of values from the old ones in the first pass */
  ValueSums sums;
} Values;

/* An update in progress. */
typedef struct Update {
  Engine *e;
  const Batch *b;
  const UpdateOptions *o;
  Plan plan;
  int norder;     /* units of this optimizer step: the first of plan.order */
  Values *values; /* NULL: no critic */
  Tensor **out;   /* [units] what the head gave: [2 or 3, tokens]; NULL: left out */
  LossMetrics sums;
  double loss; /* of the policy; update_loss() is all that is descended */
  double ratio_deviation;
  double forward, backward, optimizer; /* seconds */
  int iteration;                       /* optimizer steps before this one */
  bool one_pass;                       /* this iteration's head runs in backward only */
  bool replay;                         /* its layers take what sampling has kept */
  bool surprise;                       /* the head gave something else than the record */
} Update;

/* Lays the step out in the engine's step arena; left_out, end_below: as in PlanOptions. */
Status update_begin(Update *u, const bool *left_out, int end_below);
/* One optimizer step on the units of plan.order. */
Status update_iterate(Update *u, int iteration, double *norm);
/* Of all passes.  The parts are summed apart, each in the units' order: a sum in turns would be
 * rounded as the micro-batches are cut. */
double update_loss(const Update *u);
void update_report(const Update *u, int iterations, double norm, double seconds, StepMetrics *m);
Status update_check_numbers(const Engine *e, const Batch *b, double lr, int iterations);

/* ---- what update.c asks of a critic (ppo.c) ---- */
bool values_shared(const Update *u); /* on the policy's own states */
/* After model_hidden of the policy, or of the trunk: the values of unit i. */
Status values_forward(Update *u, int i, const Pack *p, Tensor *hidden);
/* Adds unit i's value loss, and leaves its gradient in `slope`. */
Status values_loss(Update *u, int i);
/* Forward, loss and backward of the trunk on this micro-batch. */
Status values_train_trunk(Update *u, const MicroBatch *mb);

/* Bytes that engine_ppo takes of the step's arena beside the plan, at most. */
size_t values_bytes(int sequences, int max_new);

#endif
