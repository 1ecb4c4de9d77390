/* engine_impl.h - an engine's functions and its inside, for the files of src/rl and their tests. */
#ifndef GRPO_RL_ENGINE_IMPL_H
#define GRPO_RL_ENGINE_IMPL_H

#include "rl/engine.h"
#include "rl/engine_struct.h"

#endif
