/* lua_batch.h - what engine:rollout returns; a batch is stale once its slot is rolled out again. */
#ifndef GRPO_SCRIPT_LUA_BATCH_H
#define GRPO_SCRIPT_LUA_BATCH_H

#include <lua.h>

#include "rl/batch.h"
#include "rl/engine.h"

void push_batch(lua_State *L, int engine_arg, BatchSlot slot);
/* *slot becomes the slot of the batch; slot may be NULL. */
Batch *check_batch(lua_State *L, int arg, BatchSlot *slot);

#endif
