/* engine_build.h - putting an engine together, and how much memory each of its parts takes. */
#ifndef GRPO_RL_ENGINE_BUILD_H
#define GRPO_RL_ENGINE_BUILD_H

#include "rl/engine_struct.h"

/* Bytes, by what they are for; `total` is their sum, and `held` the part that existing models have
 * taken already. */
typedef struct EngineBytes {
  size_t weights, reference, optimizer, critic, cache, batch, masks, activations, kept;
  size_t total, held;
} EngineBytes;

/* The sizes that an engine is built with. */
typedef struct EngineNeeds {
  EngineOptions options;          /* reuse_rollout is not REUSE_AUTO */
  RolloutActivations activations; /* for REUSE_ON */
  size_t tape;                    /* bytes of the tape's arena; 0: it grows */
  int nodes;                      /* of the tape */
  EngineBytes bytes;
} EngineNeeds;

/* An engine that has taken its memory.  bytes: the parts that are made here are added to it. */
Status engine_build(Engine **out, Pool *pool, Model *policy, Model *reference, const Tokenizer *tok,
                    const EngineNeeds *needs, EngineBytes *bytes);
void engine_unbuild(Engine *e); /* NULL is fine */

#endif
