/* lua_serialize.h - `tr.state` as exact bytes. */
#ifndef GRPO_SCRIPT_LUA_SERIALIZE_H
#define GRPO_SCRIPT_LUA_SERIALIZE_H

#include <lua.h>

void serialize_open(lua_State *L); /* the core table is on top */

#endif
