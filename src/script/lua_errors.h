/* lua_errors.h - error objects as Lua sees them. */
#ifndef GRPO_SCRIPT_LUA_ERRORS_H
#define GRPO_SCRIPT_LUA_ERRORS_H

#include <lua.h>

void errors_open_type(lua_State *L); /* makes the type; once for a state */
/* core.fail, core.error, core.strict, ...; the core table is on top. */
void errors_open(lua_State *L);

#endif
