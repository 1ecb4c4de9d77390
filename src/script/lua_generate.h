/* lua_generate.h - sampling options out of a Lua table; the model's generate, logits, score. */
#ifndef GRPO_SCRIPT_LUA_GENERATE_H
#define GRPO_SCRIPT_LUA_GENERATE_H

#include <lua.h>

#include "model/decode.h"

/* The `sampling` table: every option of that section; group_size is ignored.  Pushes two values, what
 * its strings belong to and its regex: keep them on the stack while they are used. */
void check_sampling(lua_State *L, int index, const char *where, Sampling *out);

/* The field `temperature` of log-probabilities, which is above 0. */
void read_temperature(lua_State *L, int index, const char *where, double *temperature);

void generate_open(lua_State *L); /* adds methods to models */

#endif
