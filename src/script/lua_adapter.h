/* lua_adapter.h - low-rank adapters of models. */
#ifndef GRPO_SCRIPT_LUA_ADAPTER_H
#define GRPO_SCRIPT_LUA_ADAPTER_H

#include <lua.h>

void adapter_open(lua_State *L); /* the core table is on top */

#endif
