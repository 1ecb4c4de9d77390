/* lua_rollout.h - methods of an engine: rollout, replace, reference. */
#ifndef GRPO_SCRIPT_LUA_ROLLOUT_H
#define GRPO_SCRIPT_LUA_ROLLOUT_H

#include <lua.h>

void rollout_open(lua_State *L); /* adds the methods */

#endif
