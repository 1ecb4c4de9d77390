/* read_sampling.h - a table of sampling options read into a Sampling. */
#ifndef GRPO_SCRIPT_READ_SAMPLING_H
#define GRPO_SCRIPT_READ_SAMPLING_H

#include <lua.h>

#include "model/sampler.h"

/* Reads the options of the table at index, also `stop` and `stop_regex`, but does not refuse other
 * fields.  Pushes two values that own the strings and the regex; keep them on the stack while you
 * use *out. */
void read_sampling(lua_State *L, int index, const char *where, Sampling *out);
/* Reads a `sampling` table and refuses unknown fields; ignores group_size.  Pushes as
 * read_sampling. */
void check_sampling(lua_State *L, int index, const char *where, Sampling *out);
/* Reads the field `temperature` for log-probabilities, which must be above 0. */
void read_sampling_temperature(lua_State *L, int index, const char *where, double *temperature);

#endif
