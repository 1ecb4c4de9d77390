/* lua_limits.h - core.limited, core.limits, core.protected. */
#ifndef GRPO_SCRIPT_LUA_LIMITS_H
#define GRPO_SCRIPT_LUA_LIMITS_H

#include <lua.h>

void limits_open(lua_State *L); /* the core table is on top */

#endif
