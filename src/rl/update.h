/* update.h - one optimizer step on a rollout, or several (`iterations`). */
#ifndef GRPO_RL_UPDATE_H
#define GRPO_RL_UPDATE_H

#include "grad/value.h"
#include "rl/engine.h"
#include "rl/metrics.h"

/* What a loss written by the user sees of a micro-batch; tensors are [N], borrowed. */
typedef struct LossInput {
  Value *logp, *entropy; /* gradients flow from these into the model */
  /* where a token was put in, mask, advantage and all log-probabilities are 0 */
  Value *old_logp, *ref_logp /* NULL: none */, *sampler_logp, *advantage, *mask;
  int nseq, ntokens;
  const int *lengths;               /* [nseq] */
  double num_sequences, num_tokens; /* of the whole optimizer step */
  int max_new_tokens;
} LossInput;
/* Returns a number that depends on logp or entropy; the engine runs its backward. */
typedef Status (*LossFn)(void *user, const LossInput *in, Value **loss);

typedef struct UpdateOptions {
  LossOptions loss; /* loss.kl > 0 wants engine_reference() before, or kl_estimator full */
  LossFn loss_fn;   /* NULL: loss.kind */
  void *loss_user;
  const double *advantage; /* [completions] */
  /* [tokens of the batch], added; NULL: none.  Injected tokens have no advantage, whatever stands
   * here. */
  const double *token_advantage;
#include "base/option_fields.h"
#include "rl/step_options.def"
  /* and those of an update alone */
#include "base/option_fields.h"
#include "rl/update_options.def"
  uint64_t seed, step; /* of an adapter's dropout; step also for messages */
  /* NULL: none; looked at before each micro-batch until a weight is changed: ELIMIT */
  const volatile int *cancel;
} UpdateOptions;
extern const OptionSet update_option_set; /* but for `loss` */
void update_options_init(UpdateOptions *o, LossKind kind);

Status engine_update(Engine *e, Batch *b, const UpdateOptions *o, StepMetrics *out);

#endif
