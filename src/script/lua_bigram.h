/* lua_bigram.h - bigram models of token ids, which can be the reference of an engine. */
#ifndef GRPO_SCRIPT_LUA_BIGRAM_H
#define GRPO_SCRIPT_LUA_BIGRAM_H

#include <lua.h>

#include "rl/bigram.h"

Bigram *check_bigram(lua_State *L, int arg);

#endif
