/* lua_update.h - engine:update. */
#ifndef GRPO_SCRIPT_LUA_UPDATE_H
#define GRPO_SCRIPT_LUA_UPDATE_H

#include <lua.h>

#include "rl/update_options.h"
#include "script/lua_engine.h"

/* Reads the options of a step from the table at index 4, which is a whole resolved `train` or a
 * part of it, with seed and step.  only: as in read_options(). */
void read_update_options(lua_State *L, unsigned only, UpdateOptions *o);

/* Where a step calls `before`: a function without arguments that gives the rate and the KL's
 * coefficient of the next optimizer step. */
typedef struct UpdateBefore {
  EngineCall *call;
  int function; /* stack index */
} UpdateBefore;

/* Reads `before` from the table at index 4 and pushes it; fills in o->before if it is given.  b
 * must live as long as o. */
void read_update_before(EngineCall *call, UpdateOptions *o, UpdateBefore *b);

#endif
