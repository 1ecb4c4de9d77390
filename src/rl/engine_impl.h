/* engine_impl.h - the inside of an Engine, for the files of src/rl and their tests. */
#ifndef GRPO_RL_ENGINE_IMPL_H
#define GRPO_RL_ENGINE_IMPL_H

#include "rl/critic.h"
#include "rl/engine.h"
#include "rl/plan.h"

struct Engine {
  Pool *pool;
  Model *policy, *reference; /* reference: NULL when there is none */
  const Tokenizer *tok;
  EngineOptions o;
  Decoder *decoder;
  Optimizer *optimizer; /* NULL without training */
  Critic *critic;       /* NULL: none */
  Batch batch[BATCH_SLOTS];
  Completion *completion; /* what decoder_run fills, before it goes to its slots */
  Request *request;
  int max_completions, max_requests;
  Tape tape;               /* activations of the units in memory */
  Tape loss_tape;          /* the loss of one unit */
  Arena step;              /* the plan of an update */
  RolloutActivations kept; /* activations of BATCH_SAMPLE's rollout */
  bool kept_whole;         /* all of it */
  bool told_large_unit;    /* the notice about micro_batch_tokens is given once */
  bool two_passes;         /* for tests: an update takes nothing that was recorded or kept */
  uint64_t one_pass_units; /* units whose record stood in for the head's result, ever */
  uint64_t replayed_units; /* and whose activations for its forward */
};

/* Where an adapter's dropout draws for one unit: the same whatever is in memory beside it. */
static inline RngKey dropout_key(uint64_t seed, uint64_t step, int unit, int iteration) {
  return (RngKey){.seed = seed,
                  .stream = RNG_DROPOUT,
                  .step = (uint32_t)step,
                  .prompt = (uint32_t)unit,
                  .sample = (uint32_t)iteration};
}

#endif
