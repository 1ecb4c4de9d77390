/* lua_advantages.h - advantages from rewards, and what a step reads of its completions. */
#ifndef GRPO_SCRIPT_LUA_ADVANTAGES_H
#define GRPO_SCRIPT_LUA_ADVANTAGES_H

#include <lua.h>

#include "rl/batch.h"

/* Each pushes scratch memory.  index: a list of completions, tables like `c` of a reward. */
double *push_advantage_rewards(lua_State *L, int index, int *n); /* [n] c.reward; NaN: none */
/* [tokens of b] c[field] of each completion, a number or a list with one for each token; NaN: none.
 * Without a field the list at index has these numbers and lists itself. */
double *push_advantage_numbers(lua_State *L, int index, const char *field, const Batch *b);

#endif
