/* lua_process.h - core.process. */
#ifndef GRPO_SCRIPT_LUA_PROCESS_H
#define GRPO_SCRIPT_LUA_PROCESS_H

#include <lua.h>

void process_open(lua_State *L); /* the core table is on top */

#endif
