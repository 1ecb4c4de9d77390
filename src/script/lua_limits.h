/* lua_limits.h - limited and protected calls as Lua makes them. */
#ifndef GRPO_SCRIPT_LUA_LIMITS_H
#define GRPO_SCRIPT_LUA_LIMITS_H

#include <lua.h>

void limits_open(lua_State *L); /* the core table is on top */

#endif
