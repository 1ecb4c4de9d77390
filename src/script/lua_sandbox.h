/* lua_sandbox.h - core.sandbox. */
#ifndef GRPO_SCRIPT_LUA_SANDBOX_H
#define GRPO_SCRIPT_LUA_SANDBOX_H

#include <lua.h>

void sandbox_open(lua_State *L); /* the core table is on top */

#endif
