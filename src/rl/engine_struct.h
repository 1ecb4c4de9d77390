/* engine_struct.h - the inside of an Engine, for the files of src/rl and their tests. */
#ifndef GRPO_RL_ENGINE_STRUCT_H
#define GRPO_RL_ENGINE_STRUCT_H

#include "model/gradient_tree.h"
#include "model/lora_weights.h"
#include "rl/critic.h"
#include "rl/engine_options.h"
#include "rl/plan.h"

typedef struct Engine {
  Pool *pool;
  Model *policy, *reference; /* reference: NULL when there is none */
  const Lora *adapter;       /* the policy's when the engine was made; NULL: none */
  const Tokenizer *tok;
  EngineOptions o;
  Decoder *decoder;
  Optimizer *optimizer; /* NULL without training */
  Critic *critic;       /* NULL: none */
  GradientTree *tree;   /* of the policy, and of a shared critic's head; NULL without training */
  GradientTree *critic_tree; /* of a separate critic; NULL: none */
  Batch batch[BATCH_SLOTS];
  Completion *completion; /* decoder_run fills them; then they go to their slots in the batch */
  Request *request;
  int max_completions, max_requests;
  Tape tape;                      /* activations of the units in memory */
  Tape loss_tape;                 /* the loss of one unit */
  Arena step;                     /* the plan of an update */
  RolloutActivations activations; /* of BATCH_SAMPLE's rollout, where they are recorded */
  real *gradient_sum;             /* [trainable] (accumulate.h); NULL: nothing was accumulated */
  bool has_activations;           /* of the whole rollout */
  bool own_activations;           /* of this rank's groups alone */
  uint64_t update_tokens;         /* that optimizer steps have trained on */
  bool told_large_unit;           /* the notice about micro_batch_tokens is given once */
} Engine;

static inline bool engine_has_reference(const Engine *e) { return e->reference || e->o.source.of; }

/* The random numbers of an adapter's dropout for one unit; they do not depend on the units
 * beside it. */
static inline RngKey dropout_key(uint64_t seed, uint64_t step, int unit, int iteration) {
  return (RngKey){.seed = seed,
                  .stream = RNG_DROPOUT,
                  .step = (uint32_t)step,
                  .prompt = (uint32_t)unit,
                  .sample = (uint32_t)iteration};
}

#endif
