/* given.h - a batch of completions that were not sampled here, as preferences, replay and data of
 * other policies need them.  Every function that takes the batch of a rollout takes this one
 * too. */
#ifndef GRPO_RL_GIVEN_H
#define GRPO_RL_GIVEN_H

#include "rl/engine.h"

typedef struct GivenText {
  const int32_t *ids; /* at least 1 token, at most the engine's max_new_tokens */
  int len;
  Finish finish;
  const uint8_t *sampled; /* [len] as in Batch, wants EngineOptions.turns; NULL: all are sampled */
} GivenText;

typedef struct GivenOptions {
  int group;          /* texts of each prompt */
  double temperature; /* that the log-probabilities are for */
  /* [n * group, max_new_tokens of the engine] of the policy that sampled the texts; NULL: those of
   * the engine's policy, which one forward computes with the entropies.  Given ones come without
   * entropies: these are 0. */
  const float *logp;
} GivenOptions;

/* text [n * group]: prompt after prompt. */
Status engine_batch_given(Engine *e, BatchSlot slot, int n, const Prompt *prompts,
                          const GivenText *text, const GivenOptions *o);

#endif
