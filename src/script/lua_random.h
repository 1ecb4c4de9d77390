/* lua_random.h - the engine's random numbers for Lua, and math.random from a function of ours. */
#ifndef GRPO_SCRIPT_LUA_RANDOM_H
#define GRPO_SCRIPT_LUA_RANDOM_H

#include <lua.h>

/* Replaces math.random and math.randomseed in the table of globals at index env. */
void seeded_random_open(lua_State *L, int env);

#endif
