/* lua_advantages.h - advantages from rewards, and what a step reads of its completions. */
#ifndef GRPO_SCRIPT_LUA_ADVANTAGES_H
#define GRPO_SCRIPT_LUA_ADVANTAGES_H

#include <lua.h>

#include "rl/batch.h"

/* Each pushes scratch memory.  index: a list of completions, tables like `c` of a reward. */
double *push_completion_rewards(lua_State *L, int index, int *n); /* [n] c.reward; NaN: none */
/* [tokens of b] c.advantage: a number, or a list with one for each token */
const double *push_completion_advantages(lua_State *L, int index, const Batch *b);
/* index: a list of n lists, whose numbers come one after another; NaN: none.  *lengths: [n] */
double *push_token_rewards(lua_State *L, int index, int n, int **lengths);

#endif
