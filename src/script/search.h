/* search.h - Lua's search for modules that are files, limited to regular files. */
#ifndef GRPO_SCRIPT_SEARCH_H
#define GRPO_SCRIPT_SEARCH_H

#include <lua.h>

void search_open(lua_State *L);

#endif
