/* modules.h - finding the modules of the Lua half, in the binary or below GRPO_LUA. */
#ifndef GRPO_SCRIPT_MODULES_H
#define GRPO_SCRIPT_MODULES_H

#include <lua.h>
#include <stdbool.h>

/* Pushes an embedded module's loader and its path; returns false if there is no such module. */
bool script_push_module(lua_State *L, const char *name);
/* Adds the search for embedded modules to package.searchers: after files on package.path, and
 * before package.cpath, where a grpo.so may be installed. */
void modules_add_searcher(lua_State *L);

#endif
