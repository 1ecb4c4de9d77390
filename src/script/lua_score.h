/* lua_score.h - a model's forward pass: m:score, m:logits, m:logprobs. */
#ifndef GRPO_SCRIPT_LUA_SCORE_H
#define GRPO_SCRIPT_LUA_SCORE_H

#include <lua.h>

void score_open(lua_State *L); /* adds the methods */

#endif
