/* lua_system.h - clocks, terminal, signals, threads, memory. */
#ifndef GRPO_SCRIPT_LUA_SYSTEM_H
#define GRPO_SCRIPT_LUA_SYSTEM_H

#include <lua.h>

void system_open(lua_State *L); /* the core table is on top */

#endif
