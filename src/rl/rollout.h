/* rollout.h - sampling the completions of a step. */
#ifndef GRPO_RL_ROLLOUT_H
#define GRPO_RL_ROLLOUT_H

#include "base/buf.h"
#include "rl/engine.h"

typedef struct RolloutOptions {
  Sampling sampling;
  int group; /* completions of each prompt */
  int first; /* sample index of the first of them */
  uint64_t seed;
  uint32_t step;
  const volatile int *cancel; /* NULL: none */
  TurnFn on_turn; /* decode.h; wants EngineOptions.turns.  c->request: of this call's prompts */
  void *on_turn_user;
  Status (*on_token)(void *user, const Completion *c); /* decode.h; NULL: nothing is called */
  void *on_token_user;
} RolloutOptions;

Status engine_rollout(Engine *e, BatchSlot slot, int n, const Prompt *prompts,
                      const RolloutOptions *o);
/* Dynamic sampling: only the groups at `slots` (0-based) are rolled out again, other prompts. */
Status engine_replace(Engine *e, BatchSlot slot, int n, const int *slots, const Prompt *prompts,
                      const RolloutOptions *o);

/* ---- in parts, some of which are sampled elsewhere ------------------------------------- */

/* They do what engine_rollout and engine_replace do before sampling. */
Status engine_begin_rollout(Engine *e, BatchSlot slot, int n, const Prompt *prompts,
                            const RolloutOptions *o);
Status engine_begin_replace(Engine *e, BatchSlot slot, int n, const int *slots,
                            const Prompt *prompts, const RolloutOptions *o);
/* Samples completions o->first .. o->first + o->group - 1 of the groups at `slots`, whose prompts
 * these are.  A status of o->on_token ends it and is returned; the part may then be sampled again,
 * or taken.  Batch.seconds is the caller's to set. */
Status engine_sample_part(Engine *e, BatchSlot slot, int n, const int *slots, const Prompt *prompts,
                          const RolloutOptions *o);
/* The same completions as engine_put_batch() has written them in another process, which has sampled
 * these prompts with options of that `first` and `group`.  EFORMAT: it has not. */
Status engine_take_part(Engine *e, BatchSlot slot, int n, const int *slots, int first, int count,
                        const char *bytes, size_t len);
void engine_put_batch(const Engine *e, BatchSlot slot, Buf *to);
/* Samples completion which[i] once more, whose prompt is prompts[i]; same[i]: it has the same bits.
 * For completions of one turn. */
Status engine_check_samples(Engine *e, BatchSlot slot, int n, const int *which,
                            const Prompt *prompts, const RolloutOptions *o, bool *same);

#endif
