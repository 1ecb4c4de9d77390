/* lua_sft.h - methods of an engine for demonstrations: sft, nll. */
#ifndef GRPO_SCRIPT_LUA_SFT_H
#define GRPO_SCRIPT_LUA_SFT_H

#include <lua.h>

#include "base/intbuf.h"
#include "rl/sft.h"

/* Pushes the list of { prompt=ids, target=ids [, mask=booleans] } at index 2; `what` begins the
 * messages.  The ids are in *store, which is pushed, too. */
Example *push_sft_examples(lua_State *L, const char *what, int *n, IntBuf **store);
/* Reads lr, max_grad_norm, seed and step from the table at index 3. */
void read_sft_options(lua_State *L, const char *where, SftOptions *o);

#endif
