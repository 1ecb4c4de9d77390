/* guard.h - guarded versions of library functions, for limited code. */
#ifndef GRPO_SCRIPT_GUARD_H
#define GRPO_SCRIPT_GUARD_H

#include <lua.h>

/* Replaces the functions that could evade a budget in the table of globals at index env; another
 * environment may take the place of the globals. */
void guard_open(lua_State *L, int env);

#endif
