/* lua_update.h - engine:update. */
#ifndef GRPO_SCRIPT_LUA_UPDATE_H
#define GRPO_SCRIPT_LUA_UPDATE_H

#include <lua.h>

#include "rl/update_options.h"

/* Reads the options of a step from the table at index 4, which is a whole resolved `train` or a
 * part of it, with seed and step.  only: as in read_options(). */
void read_update_options(lua_State *L, unsigned only, UpdateOptions *o);

#endif
