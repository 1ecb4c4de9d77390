/* lua_generate.h - m:generate. */
#ifndef GRPO_SCRIPT_LUA_GENERATE_H
#define GRPO_SCRIPT_LUA_GENERATE_H

#include <lua.h>

void generate_open(lua_State *L); /* adds the method */

#endif
