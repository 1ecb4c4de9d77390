/* lua_denoise.h - methods of an engine for masked training: denoise, masked_loss. */
#ifndef GRPO_SCRIPT_LUA_DENOISE_H
#define GRPO_SCRIPT_LUA_DENOISE_H

#include <lua.h>

void denoise_open(lua_State *L); /* adds the methods */

#endif
