/* lua_turns.h - the field on_turn of a rollout: a Lua function is called at the end of each
 * turn. */
#ifndef GRPO_SCRIPT_LUA_TURNS_H
#define GRPO_SCRIPT_LUA_TURNS_H

#include <lua.h>

#include "base/intbuf.h"
#include "rl/rollout.h"

typedef struct LuaTurns {
  lua_State *L;
  int function; /* stack index */
  IntBuf ids;   /* of a reply, in scratch memory as long as a completion */
  int error;    /* registry reference of what it raised, or LUA_NOREF */
} LuaTurns;

/* Reads on_turn of the table at index `options` into o; leaves values on the stack. */
void turns_begin(lua_State *L, int options, RolloutOptions *o, LuaTurns *t);
/* Raises the error of the function, or else the failure of the rollout, if there is one. */
void turns_end(LuaTurns *t, Status s);

#endif
