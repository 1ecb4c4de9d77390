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
#include "model/model.h"
#include "model/optimizer.h"
#include "rl/batch.h"
#include "rl/bigram.h"
#include "rl/critic.h"
#include "text/tokenizer.h"

typedef struct Engine Engine;

/* Are activations of generation kept for the first iteration's forward?  Results are the same.
 * REUSE_AUTO: when they take at most a quarter of the machine's memory and half of what is free
 * beside the engine's own; not with gradient checkpointing, nor with an adapter's dropout. */
typedef enum ReuseRollout { REUSE_OFF, REUSE_AUTO, REUSE_ON } ReuseRollout;

/* max_prompt_tokens and max_new_tokens are together within the model's context; micro_batch_tokens
 * 0: one unit, the least; gradient_checkpointing: see model_set_checkpointing(); critic: for
 * engine_ppo, CRITIC_SHARED not with reuse_rollout. */
typedef struct EngineOptions {
#include "base/option_fields.h"
#include "rl/engine_options.def"
  int max_new_tokens;         /* sampling.max_new_tokens */
  ReuseRollout reuse_rollout; /* REUSE_ON: EARG or ENOMEM where it cannot be */
  bool train;                 /* take gradients and optimizer state */
  bool turns;    /* tokens may be put in while sampling: BATCH_SAMPLE and BATCH_EVAL say which */
  bool examples; /* take memory for engine_sft and engine_nll at once, not when first called */
  OptimizerOptions optimizer;
  Bigram *bigram; /* the reference, in place of a model; the engine holds it too; NULL: none */
} EngineOptions;
extern const OptionSet engine_option_set;
void engine_options_init(EngineOptions *o); /* the rows' initial values, without a critic */
/* What has no meaning together, whatever the model; dropout: of its adapter, or 0. */
Status engine_options_check(const EngineOptions *o, double dropout);

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

/* Valid until the next rollout into the same slot.  BATCH_SAMPLE has room for the options' numbers;
 * BATCH_EVAL grows to what it is asked for. */
Batch *engine_batch(Engine *e, BatchSlot slot);
/* ---- state ----------------------------------------------------------------------- */
/* What must be kept beside the model's weights: dir/optimizer.safetensors, and a critic's files
 * (critic.h); exact. */
Status engine_save(const Engine *e, const char *dir);
Status engine_load(Engine *e, const char *dir);

#endif
