/* rollout.h - sampling the completions of a step. */
#ifndef GRPO_RL_ROLLOUT_H
#define GRPO_RL_ROLLOUT_H

#include "rl/engine.h"

typedef struct RolloutOptions {
  Sampling sampling;
  int group;       /* completions of each prompt */
  uint32_t before; /* completions of each prompt that other rollouts have: where its random numbers
                      continue */
  uint64_t seed;
  uint32_t step;
  const volatile int *cancel;                          /* NULL: none */
  Status (*on_token)(void *user, const Completion *c); /* decode.h; NULL: nothing is called */
  void *on_token_user;
  TurnFn on_turn; /* decode.h; wants EngineOptions.turns.  c->request: of this call's prompts */
  void *on_turn_user;
} RolloutOptions;

Status engine_rollout(Engine *e, BatchSlot slot, int n, const Prompt *prompts,
                      const RolloutOptions *o);
/* Dynamic sampling: only the groups at `slots` (0-based) are rolled out again, other prompts. */
Status engine_replace(Engine *e, BatchSlot slot, int n, const int *slots, const Prompt *prompts,
                      const RolloutOptions *o);
/* Makes the slot's batch ready for o->group completions of each prompt, which are still empty. */
Status rollout_begin(Engine *e, BatchSlot slot, int n, const Prompt *prompts,
                     const RolloutOptions *o);

#endif
