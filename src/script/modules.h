/* modules.h - finding the modules of the Lua half, in the binary or below GRPO_LUA. */
#ifndef GRPO_SCRIPT_MODULES_H
#define GRPO_SCRIPT_MODULES_H

#include <lua.h>
#include <stdbool.h>

/* Pushes an embedded module's loader and its path; returns false if there is no such module. */
bool script_push_module(lua_State *L, const char *name);
/* Does as script_push_module for grpo and grpo.NAME; returns false for other names. */
bool modules_push_own(lua_State *L, const char *name);
/* require, of which upvalue 1 is Lua's own: a module of the program is found whatever a script has
 * made of the package library. */
int modules_require(lua_State *L);
/* Adds the search for embedded modules to package.searchers: after files on package.path, and
 * before package.cpath, where a grpo.so may be installed. */
void modules_add_searcher(lua_State *L);

#endif
