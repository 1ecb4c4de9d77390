/* update.h - one optimizer step on a rollout, or several (`iterations`). */
#ifndef GRPO_RL_UPDATE_H
#define GRPO_RL_UPDATE_H

#include "rl/engine.h"
#include "rl/metrics.h"
#include "rl/update_options.h"

Status engine_update(Engine *e, Batch *b, const UpdateOptions *o, StepMetrics *out);

#endif
