/* lua_checkpoint.h - checkpoints of a run. */
#ifndef GRPO_SCRIPT_LUA_CHECKPOINT_H
#define GRPO_SCRIPT_LUA_CHECKPOINT_H

#include <lua.h>

void checkpoint_open(lua_State *L); /* the core table is on top */

#endif
