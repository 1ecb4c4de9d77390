/* core.h - `require "grpo.core"`: the functions and types of all bindings in one table. */
#ifndef GRPO_SCRIPT_CORE_H
#define GRPO_SCRIPT_CORE_H

#include <lua.h>

/* Pushes that table; a lua_CFunction for package.preload. */
int open_core(lua_State *L);

#endif
