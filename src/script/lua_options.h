/* lua_options.h - the engine's options and the rules between them. */
#ifndef GRPO_SCRIPT_LUA_OPTIONS_H
#define GRPO_SCRIPT_LUA_OPTIONS_H

#include <lua.h>

void options_open(lua_State *L); /* the core table is on top */

#endif
