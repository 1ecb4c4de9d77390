/* engine.h - the step API: everything a training loop needs, and nothing of Lua.
 *
 * An Engine ties a policy, a frozen reference (a model or a
 * ReferenceSource), a tokenizer, a decoder and an optimizer together and
 * owns the memory of a step.  A step is: roll out, reference
 * log-probabilities where a KL is wanted, advantages (advantage.h), update.
 * engine_new() takes the memory for the longest prompts and completions that
 * its options allow: later steps take none, whatever their lengths.
 *
 * Results are a function of weights, batch and options: the same bits for any
 * number of threads and any micro_batch_tokens.
 *
 * Errors: EARG for what a caller can get wrong, ENOMEM, EDIVERGED when a loss
 * or a gradient is not finite, ESCRIPT from callbacks.  The optimizer step that
 * met it is then not taken; of several from one rollout those before it stay.
 * One thread at a time.
 */
#ifndef GRPO_RL_ENGINE_H
#define GRPO_RL_ENGINE_H

#include "base/pool.h"
#include "model/model.h"
#include "rl/batch.h"
#include "rl/engine_options.h"
#include "text/tokenizer.h"

typedef struct Engine Engine;

/* The engine holds a reference to the models and the tokenizer (NULL: no stop strings).  The policy
 * is made trainable when o->train. */
Status engine_new(Engine **out, Pool *pool, Model *policy, Model *reference, const Tokenizer *tok,
                  const EngineOptions *o);
void engine_free(Engine *e); /* NULL is fine */
/* EARG if the policy was given an adapter, or lost one, since the engine was made, which then has
 * memory and an optimizer for other parameters.  Every call that computes, saves or loads checks it
 * first. */
Status engine_check_policy(const Engine *e);
/* Optimizer steps that were taken, also before a load that continues them; 0 without training. */
uint64_t engine_optimizer_steps(const Engine *e);
/* Tokens that optimizer steps of this engine have trained on; a token counts once in each of
 * them. */
uint64_t engine_update_tokens(const Engine *e);
/* The parameter with the largest gradient in the last optimizer step (optimizer.h); NULL: none. */
const char *engine_largest_gradient(const Engine *e);
const EngineOptions *engine_options(const Engine *e); /* REUSE_AUTO has been decided */
Model *engine_policy(Engine *e);
Model *engine_reference_model(Engine *e);           /* NULL: none */
const Tokenizer *engine_tokenizer(const Engine *e); /* NULL: none */

/* ---- sampling -------------------------------------------------------------------- */

/* Valid until the next rollout into the same slot.  BATCH_SAMPLE has room for the options' numbers;
 * BATCH_EVAL grows to what it is asked for. */
Batch *engine_batch(Engine *e, BatchSlot slot);
/* ---- state ----------------------------------------------------------------------- */
/* The state beside the model's weights: dir/optimizer.safetensors, and a critic's files
 * (critic.h); exact.  All ranks save together: rank 0 writes what they have.  dir NULL: nothing is
 * written. */
Status engine_save(const Engine *e, const char *dir);
Status engine_load(Engine *e, const char *dir);
/* The optimizer, whose state may also be in memory; NULL without training. */
Optimizer *engine_optimizer(Engine *e);

#endif
