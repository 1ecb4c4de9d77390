/* update_options.h - the options of an optimizer step on a rollout, and a loss written by the
 * user. */
#ifndef GRPO_RL_UPDATE_OPTIONS_H
#define GRPO_RL_UPDATE_OPTIONS_H

#include "base/options.h"
#include "grad/attrs.h"
#include "grad/value.h"

/* The micro-batch as a loss written by the user sees it; tensors are [N], borrowed. */
typedef struct LossInput {
  Value *logp, *entropy; /* gradients flow from these into the model */
  /* at injected tokens mask, advantage and all log-probabilities are 0 */
  Value *old_logp, *ref_logp /* NULL: none */, *sampler_logp, *advantage, *mask;
  int nseq, ntokens;
  const int *lengths;               /* [nseq] */
  double num_sequences, num_tokens; /* of the whole optimizer step */
  double beta;                      /* the coefficient of a KL in the loss: LossOptions.kl */
  int max_new_tokens;
} LossInput;
/* Returns a number that depends on logp or entropy; the engine runs its backward. */
typedef Status (*LossFn)(void *user, const LossInput *in, Value **loss);

/* Sets the rate and the coefficient of a KL in the loss for the next optimizer step; they come as
 * they were in the one before. */
typedef Status (*BeforeUpdateFn)(void *user, double *lr, double *kl);

/* The divergence that kl_estimator full measures. */
typedef struct DistillOptions {
#include "base/option_fields.h"
#include "rl/distill_options.def"
} DistillOptions;
extern const OptionSet distill_option_set;

typedef struct UpdateOptions {
  LossOptions loss; /* loss.kl > 0 wants engine_reference() before, or kl_estimator full */
  DistillOptions distill;
  LossFn loss_fn; /* NULL: loss.kind */
  void *loss_user;
  BeforeUpdateFn before; /* called before each optimizer step but the first; NULL: none */
  void *before_user;
  /* The advantage of a token is the sum of its completion's and its own.  One of the arrays may be
   * NULL.  Injected tokens have no advantage, whatever stands here. */
  const double *advantage;       /* [completions] */
  const double *token_advantage; /* [tokens of the batch] */
#include "base/option_fields.h"
#include "rl/step_options.def"
  /* and those of an update alone */
#include "base/option_fields.h"
#include "rl/update_options.def"
  uint64_t seed, step; /* of an adapter's dropout and of Clip-Cov; step also for messages */
  /* Older weights than the present ones have sampled the batch, on purpose: the old
   * log-probabilities are then computed in the first iteration, and the record has the sampler's
   * alone. */
  bool older_sampler;
  bool accumulate; /* in place of an optimizer step: accumulate.h; wants iterations 1 */
  /* NULL: none; looked at before each micro-batch until a weight is changed: ELIMIT */
  const volatile int *cancel;
} UpdateOptions;
extern const OptionSet update_option_set; /* without `loss` and `distill` */
void update_options_init(UpdateOptions *o, LossKind kind);

#endif
