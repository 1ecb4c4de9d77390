/* lua_random.h - math.random on a stream that is given. */
#ifndef GRPO_SCRIPT_LUA_RANDOM_H
#define GRPO_SCRIPT_LUA_RANDOM_H

#include <lua.h>

/* Replaces math.random and math.randomseed in the table of globals at index env. */
void seeded_random_open(lua_State *L, int env);
void random_open(
    lua_State *L); /* core.rng, core.permute, core.reseed_math; the core table is on top */

#endif
