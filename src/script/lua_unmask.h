/* lua_unmask.h - m:unmask. */
#ifndef GRPO_SCRIPT_LUA_UNMASK_H
#define GRPO_SCRIPT_LUA_UNMASK_H

#include <lua.h>

void unmask_open(lua_State *L); /* adds a method to models */

#endif
