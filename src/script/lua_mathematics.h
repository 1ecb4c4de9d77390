/* lua_mathematics.h - Lua's functions of mathematics, computed by base/exponential.h and others. */
#ifndef GRPO_SCRIPT_LUA_MATHEMATICS_H
#define GRPO_SCRIPT_LUA_MATHEMATICS_H

#include <lua.h>

/* Replaces math.exp, log, sin and others in the table of globals at index env.  The operator ^
 * calls pow in Lua's library; in the program that is the one of src/power.c. */
void mathematics_open(lua_State *L, int env);

#endif
