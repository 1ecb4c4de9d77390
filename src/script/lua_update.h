/* lua_update.h - engine:update. */
#ifndef GRPO_SCRIPT_LUA_UPDATE_H
#define GRPO_SCRIPT_LUA_UPDATE_H

#include <lua.h>

#include "rl/update_options.h"

/* Reads the options of a step from the table at index 4, which is a whole resolved `train` or a
 * part of it, with seed and step.  only: as in read_options(). */
void read_update_options(lua_State *L, unsigned only, UpdateOptions *o);

/* Where a step calls `before`: a function without arguments that gives the rate and the KL's
 * coefficient of the next optimizer step. */
typedef struct LuaBefore {
  lua_State *L;
  int function; /* stack index */
  int error;    /* registry reference of what it raised, or LUA_NOREF */
} LuaBefore;

/* Reads `before` from the table at index 4 and pushes it; fills in o->before if it is given.  b
 * must live as long as o. */
void read_before(lua_State *L, UpdateOptions *o, LuaBefore *b);
/* Raises what was raised in a function that the engine called; error: LUA_NOREF if nothing was. */
void raise_kept(lua_State *L, int error);

#endif
