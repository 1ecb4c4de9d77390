/* guard.h - library functions as limited code sees them. */
#ifndef GRPO_SCRIPT_GUARD_H
#define GRPO_SCRIPT_GUARD_H

#include <lua.h>

/* Replaces the functions that could evade a budget in the table of globals at index env, or in one
 * that stands for it. */
void guard_open(lua_State *L, int env);

#endif
