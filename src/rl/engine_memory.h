/* engine_memory.h - the memory that an engine takes, found by building one of outlines
 * (model_memory.h) and running its largest units while memory is measured (base/mem.h): whatever
 * an operation, an optimizer or a cache takes is in it by itself. */
#ifndef GRPO_RL_ENGINE_MEMORY_H
#define GRPO_RL_ENGINE_MEMORY_H

#include "model/model_memory.h"
#include "rl/engine_build.h"

/* The needs of an engine with these options, at the longest texts that they allow.  form: how the
 * policy would be kept; NULL: as it is.  A policy that would get an adapter has its own base as
 * reference.  EARG or ENOMEM where reuse_rollout is REUSE_ON and cannot be. */
Status engine_measure(Pool *pool, const Model *policy, const Model *reference /* NULL: none */,
                      const EngineOptions *o, const ModelForm *form, EngineNeeds *out);

#endif
