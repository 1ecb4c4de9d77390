/* lua_tensor_new.h - functions that make tensors. */
#ifndef GRPO_SCRIPT_LUA_TENSOR_NEW_H
#define GRPO_SCRIPT_LUA_TENSOR_NEW_H

#include <lua.h>

void tensor_new_open(lua_State *L); /* the core table is on top */

#endif
