/* lua_autograd.h - backward, detach, no_grad, scope, AdamW. */
#ifndef GRPO_SCRIPT_LUA_AUTOGRAD_H
#define GRPO_SCRIPT_LUA_AUTOGRAD_H

#include <lua.h>

void autograd_open(lua_State *L); /* the core table is on top */

#endif
