/* lua_estimate.h - memory of models and stages before they exist. */
#ifndef GRPO_SCRIPT_LUA_ESTIMATE_H
#define GRPO_SCRIPT_LUA_ESTIMATE_H

#include <lua.h>

void estimate_open(lua_State *L); /* the core table is on top */

#endif
