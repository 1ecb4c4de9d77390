/* engine.h - the step API: everything a training loop needs, and nothing of Lua.
 *
 * An Engine ties a policy, a frozen reference (a model or a bigram), a tokenizer, a decoder and an
 * optimizer together and owns the memory of a step.  A step is: roll out,
 * reference log-probabilities where a KL is wanted, advantages (advantage.h),
 * update.  engine_new() takes the memory for the longest prompts and
 * completions that its options allow: later steps take none, whatever their
 * lengths.
 *
 * Results are a function of weights, batch and options: the same bits for any
 * number of threads and any micro_batch_tokens.
 *
 * Errors: EARG for what a caller can get wrong, ENOMEM, EDIVERGED when a loss
 * or a gradient is not finite (the weights are then as they were), ESCRIPT
 * from callbacks.  One thread at a time.
 */
#ifndef GRPO_RL_ENGINE_H
#define GRPO_RL_ENGINE_H

#include "base/pool.h"
#include "grad/value.h"
#include "model/decode.h"
#include "model/estimate.h"
#include "model/model.h"
#include "model/optimizer.h"
#include "rl/batch.h"
#include "rl/bigram.h"
#include "rl/critic.h"
#include "rl/units.h"
#include "text/tokenizer.h"

typedef struct Engine Engine;

/* Are activations of generation kept for the first iteration's forward?  Results are the same.
 * REUSE_AUTO: when they take at most a quarter of the machine's memory and half of what is free
 * beside the engine's own; not with gradient checkpointing, nor with an adapter's dropout. */
typedef enum ReuseRollout { REUSE_OFF, REUSE_AUTO, REUSE_ON } ReuseRollout;

typedef struct EngineOptions {
  int prompts_per_step, group_size;
  int max_prompt_tokens, max_new_tokens; /* together within the model's context */
  int micro_batch_tokens;                /* rows in memory at once; 0: one unit, the least */
  bool gradient_checkpointing;           /* see model_set_checkpointing() */
  ReuseRollout reuse_rollout;            /* REUSE_ON: EARG or ENOMEM where it cannot be */
  bool train;                            /* take gradients and optimizer state */
  bool turns;    /* tokens may be put in while sampling: BATCH_SAMPLE and BATCH_EVAL say which */
  bool examples; /* take memory for engine_sft and engine_nll at once, not when first called */
  OptimizerOptions optimizer;
  Bigram *bigram;    /* the reference, in place of a model; the engine holds it too; NULL: none */
  CriticKind critic; /* for engine_ppo; CRITIC_SHARED: not with reuse_rollout */
} EngineOptions;
void engine_options_init(EngineOptions *o); /* the option table's defaults */

/* Bytes, by who takes them; `total` is their sum. */
typedef struct EngineBytes {
  size_t weights, reference, optimizer, critic, cache, batch, activations, kept, total;
} EngineBytes;
void engine_estimate(const ModelPlan *policy, const ModelPlan *reference /* NULL: none */,
                     const EngineOptions *o, EngineBytes *out);

/* The engine holds a reference to the models and the tokenizer (NULL: no stop strings).  The policy
 * is made trainable when o->train. */
Status engine_new(Engine **out, Pool *pool, Model *policy, Model *reference, const Tokenizer *tok,
                  const EngineOptions *o);
void engine_free(Engine *e);                          /* NULL is fine */
const EngineOptions *engine_options(const Engine *e); /* REUSE_AUTO is settled */
Model *engine_policy(Engine *e);
Model *engine_reference_model(Engine *e); /* NULL: none */

/* ---- sampling -------------------------------------------------------------------- */
typedef enum BatchSlot { BATCH_SAMPLE, BATCH_EVAL, BATCH_SLOTS } BatchSlot;

typedef struct RolloutOptions {
  Sampling sampling;
  int group; /* completions of each prompt */
  uint64_t seed;
  uint32_t step;
  const volatile int *cancel; /* NULL: none */
  TurnFn on_turn; /* decode.h; wants EngineOptions.turns.  c->request: of this call's prompts */
  void *on_turn_user;
} RolloutOptions;

/* Valid until the next rollout into the same slot.  BATCH_SAMPLE has room for the options' numbers;
 * BATCH_EVAL grows to what it is asked for. */
Batch *engine_batch(Engine *e, BatchSlot slot);
Status engine_rollout(Engine *e, BatchSlot slot, int n, const Prompt *prompts,
                      const RolloutOptions *o);
/* Dynamic sampling: only the groups at `slots` (0-based) are rolled out again, other prompts. */
Status engine_replace(Engine *e, BatchSlot slot, int n, const int *slots, const Prompt *prompts,
                      const RolloutOptions *o);
/* Fills the batch's reference log-probabilities, at its sampling temperature. */
Status engine_reference(Engine *e, Batch *b);

/* ---- training -------------------------------------------------------------------- */

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
  const double
      *token_advantage;     /* [tokens of the batch], added; NULL: none.  What was put in has no
                                  * advantage, whatever stands here */
  double lr, max_grad_norm; /* max_grad_norm 0: no clipping */
  int iterations;
  bool mask_truncated, skip_zero_std_groups;
  double top_entropy_quantile;
  uint64_t seed, step; /* of an adapter's dropout; step also for messages */
  /* NULL: none; looked at before each micro-batch until a weight is changed: ELIMIT */
  const volatile int *cancel;
} UpdateOptions;
void update_options_init(UpdateOptions *o, LossKind kind);

/* metrics.def; NaN: does not apply */
typedef struct StepMetrics {
#define METRIC(field, name) double field;
#include "rl/metrics.def"
#undef METRIC
} StepMetrics;
void step_metrics_init(StepMetrics *m); /* all NaN */

Status engine_update(Engine *e, Batch *b, const UpdateOptions *o, StepMetrics *out);

/* Proximal policy optimization: advantages and targets of the critic from GAE (gae.h), then
 * `epochs` passes over the rollout in `minibatches` parts, an optimizer step each. */
typedef struct PpoOptions {
  LossOptions loss;           /* clip, clip_high, delta, entropy; averaged over tokens */
  const double *score;        /* [completions] NaN: none, the completion is left out */
  const double *token_reward; /* [tokens of the batch]; NULL: none */
  double gamma, lambda, value_coef, clip_value;
  double kl_coef; /* of a token's reward; > 0 wants engine_reference() before */
  KlEstimator kl_estimator;
  bool whiten_rewards, mask_truncated;
  double top_entropy_quantile;
  int epochs, minibatches; /* minibatches: at most as many as prompts */
  double lr, max_grad_norm;
  uint64_t seed, step;
  const volatile int *cancel; /* as in UpdateOptions */
} PpoOptions;
void ppo_options_init(PpoOptions *o);
/* advantage [tokens of the batch]: those that the policy term had, for whoever looks at them; NULL: not
 * wanted. */
Status engine_ppo(Engine *e, Batch *b, const PpoOptions *o, double *advantage, StepMetrics *out);

typedef struct SftOptions {
  double lr, max_grad_norm;
  uint64_t seed, step; /* as in UpdateOptions */
  const volatile int *cancel;
} SftOptions;
/* One optimizer step of maximum likelihood on the targets; the mean is over all target tokens. */
Status engine_sft(Engine *e, int n, const Example *examples, const SftOptions *o, StepMetrics *out);
/* Mean negative log-likelihood of the targets; nothing is changed. */
Status engine_nll(Engine *e, int n, const Example *examples, double *mean, int64_t *tokens);

/* ---- state ----------------------------------------------------------------------- */
/* What must be kept beside the model's weights: dir/optimizer.safetensors, and a critic's files
 * (critic.h); exact. */
Status engine_save(const Engine *e, const char *dir);
Status engine_load(Engine *e, const char *dir);

#endif
