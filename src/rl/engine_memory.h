/* engine_memory.h - the memory that an engine takes, from the shapes of its models and the
 * longest texts. */
#ifndef GRPO_RL_ENGINE_MEMORY_H
#define GRPO_RL_ENGINE_MEMORY_H

#include "model/decode.h"
#include "model/gradient_tree.h"
#include "model/model_plan.h"
#include "model/rollout_activations.h"
#include "rl/engine_options.h"

/* Bytes, by who takes them; `total` is their sum. */
typedef struct EngineBytes {
  size_t weights, reference, optimizer, critic, cache, batch, masks, activations, kept, total;
} EngineBytes;
void engine_estimate(const ModelPlan *policy, const ModelPlan *reference /* NULL: none */,
                     const EngineOptions *o, EngineBytes *out);

/* Bytes of the step's arena: what the largest step of these options lays out. */
size_t engine_step_bytes(const EngineOptions *o);
/* Bytes of the tape's arena: what the forward and backward take of the rows that may be in
 * memory at once. */
size_t engine_activation_bytes(const ModelPlan *policy, const ModelPlan *reference /* NULL: none */,
                               const EngineOptions *o);
/* The steps of the engine's trees of gradients. */
TreeSteps engine_tree_steps(const EngineOptions *o, int rank, int ranks);
DecoderLimits engine_decoder_limits(const EngineOptions *o);
/* Decides reuse_rollout: o->reuse_rollout becomes REUSE_ON, with a plan of the store in *kept, or
 * REUSE_OFF.  EARG or ENOMEM where it was REUSE_ON and cannot be. */
Status engine_decide_reuse(const ModelPlan *policy, const ModelPlan *reference /* NULL: none */,
                           EngineOptions *o, RolloutActivations *kept);

#endif
