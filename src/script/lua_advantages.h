/* lua_advantages.h - advantages from rewards. */
#ifndef GRPO_SCRIPT_LUA_ADVANTAGES_H
#define GRPO_SCRIPT_LUA_ADVANTAGES_H

#include <lua.h>

void advantages_open(lua_State *L); /* the core table is on top */

#endif
