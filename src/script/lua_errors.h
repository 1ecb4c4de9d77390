/* lua_errors.h - error objects, strict globals and nearest names for Lua. */
#ifndef GRPO_SCRIPT_LUA_ERRORS_H
#define GRPO_SCRIPT_LUA_ERRORS_H

#include <lua.h>

void errors_open_type(lua_State *L); /* makes the type; once per state, before core */

#endif
