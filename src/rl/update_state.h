/* update_state.h - an update in progress: what the files that make an optimizer step share. */
#ifndef GRPO_RL_UPDATE_STATE_H
#define GRPO_RL_UPDATE_STATE_H

#include <string.h>

#include "rl/engine_impl.h"
#include "rl/nonfinite.h"
#include "rl/plan.h"
#include "rl/update_options.h"

/* The critic's sums over all passes of a step. */
typedef struct ValueSums {
  double value_loss;         /* without value_coef */
  double clipped, positions; /* values that the loss's bounds hold back; all values */
  double approx_kl, tokens;  /* sum of (log p - old log p)^2 / 2 over masked tokens; their number */
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
  Tensor **out;       /* [nunits] the value head's output in this micro-batch */
  double num;         /* masked positions of this optimizer step */
  double coef, clip;  /* value_coef, clip_value */
  double deviation;   /* largest |value - old value| in the first pass */
  ValueSums sums;
} Values;

static inline void value_sums_add(ValueSums *to, const ValueSums *from) {
  to->value_loss += from->value_loss;
  to->clipped += from->clipped;
  to->positions += from->positions;
  to->approx_kl += from->approx_kl;
  to->tokens += from->tokens;
}

/* The losses of a unit and its metrics, or those of a whole pass. */
typedef struct UnitLoss {
  double loss, aux_loss;
  LossMetrics sums;
  ValueSums values;
  double deviation; /* see Values */
} UnitLoss;

typedef struct Update {
  Engine *e;
  const Batch *b;
  const UpdateOptions *o;
  Plan plan;
  int norder;           /* units of this optimizer step: the first of plan.order */
  int groups;           /* of these units */
  int first, end;       /* this rank's units: the places first .. end - 1 of plan.order */
  Values *values;       /* NULL: no critic */
  const Pack **routers; /* [units] whose routes this micro-batch's forward has counted; NULL: no
                           auxiliary loss */
  Tensor **out; /* [units] log-probabilities, entropies (and full KLs): [2 or 3, tokens]; NULL: the
                     unit needs no forward */
  bool shared;  /* this rank has the units of its groups, and other ranks have the others */
  bool sampled_own;   /* it has also sampled them */
  UnitLoss *of_place; /* [units] by place in plan.order, of this pass; NULL: one rank alone */
  LossMetrics sums;
  double rows;     /* of this optimizer step's sequences */
  double tokens;   /* in the loss, of the whole rollout */
  double loss;     /* of the policy alone; update_loss() adds what follows and the critic's */
  double aux_loss; /* of routers, without its coefficient */
  double ratio_deviation;              /* largest |ratio - 1| in the first iteration */
  double forward, backward, optimizer; /* seconds */
  int iteration;                       /* optimizer steps before this one */
  Divergence divergence;               /* o->distill for the kernels */
  bool one_pass;                       /* the output projection runs in backward only (record.h) */
  bool replay;                         /* layers take the rollout's activations */
  bool mismatch;                       /* the forward gave something else than the record */
  Nonfinite *nonfinite; /* looks for a value that is not finite; NULL: as nearly always */
} Update;

/* The results that follow are of this unit.  ends: its last tokens have rows, for a critic. */
static inline void update_name_unit(Update *u, const Unit *unit, bool ends) {
  if (!u->nonfinite) return;
  u->nonfinite->unit = unit;
  u->nonfinite->end_below = ends ? u->e->o.max_new_tokens : 0;
}

/* The loss whose gradient is taken, over all passes.  Policy, routers and critic are summed apart,
 * each in the units' order, because one running sum would be rounded differently for other
 * micro-batches. */
static inline double update_loss(const Update *u) {
  const Values *v = u->values;
  const double loss = u->routers ? u->loss + u->e->o.router_aux_loss_coef * u->aux_loss : u->loss;
  return v ? loss + v->coef * v->sums.value_loss : loss;
}

/* Takes the sums of the passes so far, and sets them again. */
static inline UnitLoss update_sums(const Update *u) {
  UnitLoss l = {.loss = u->loss, .aux_loss = u->aux_loss, .sums = u->sums};
  if (u->values) l.values = u->values->sums;
  return l;
}
static inline void update_restore(Update *u, const UnitLoss *l) {
  u->loss = l->loss;
  u->aux_loss = l->aux_loss;
  u->sums = l->sums;
  if (u->values) u->values->sums = l->values;
}

/* Copies the gradient by x to [x->n] reals; zeros where nothing reached it.  x may be NULL. */
static inline void update_store_gradient(const Tensor *x, real *to) {
  if (x && x->grad_live)
    memcpy(to, x->grad, x->n * sizeof *to);
  else if (x)
    memset(to, 0, x->n * sizeof *to);
}

static inline bool update_has_reference(const Update *u) { return engine_has_reference(u->e); }

/* Is the KL over the whole vocabulary measured, which needs the reference in each forward? */
static inline bool update_wants_full_kl(const Update *u) {
  return update_has_reference(u) && u->o->loss.kl != 0 && u->o->loss.kl_estimator == KL_FULL;
}

/* The divergence that it measures; NULL: the reverse KL over the whole vocabulary. */
static inline const Divergence *update_divergence(Update *u) {
  const DistillOptions *d = &u->o->distill;
  const int top_k = d->top_k < model_config(u->e->policy)->vocab_size ? d->top_k : 0;
  u->divergence = (Divergence){(real)d->beta, top_k};
  return d->beta == 1 && top_k == 0 ? NULL : &u->divergence;
}

#endif
