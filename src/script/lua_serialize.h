/* lua_serialize.h - Lua values as exact bytes, for tr.state. */
#ifndef GRPO_SCRIPT_LUA_SERIALIZE_H
#define GRPO_SCRIPT_LUA_SERIALIZE_H

#include <lua.h>

void serialize_open(lua_State *L); /* the core table is on top */

#endif
