/* lua_engine.h - engines as Lua objects, for the files that add methods to them. */
#ifndef GRPO_SCRIPT_LUA_ENGINE_H
#define GRPO_SCRIPT_LUA_ENGINE_H

#include "rl/engine.h"
#include "rl/engine_options.h"
#include "script/binding.h"

#define ENGINE_TYPE "grpo.Engine"

Engine *check_engine(lua_State *L, int arg); /* raises if it was closed */

/* A method that makes an engine work.  Between engine_call_begin and ENGINE_CALL it reads its
 * arguments:
 *
 *   EngineCall call = engine_call_begin(L);
 *   ...
 *   ENGINE_CALL(&call, engine_nll(call.engine, n, x, &mean, &tokens));
 *
 * The engine is busy meanwhile, so that what it calls cannot start it again.  A function of a
 * script that the engine calls must not raise through it: engine_call_fail keeps the error, and
 * ENGINE_CALL raises it after the engine has returned. */
typedef struct EngineCall {
  lua_State *L;
  Engine *engine;       /* argument 1 */
  IntBuf *ids;          /* memory of the arguments, given back after the call; NULL: none */
  bool has_step_values; /* it gives a script tensors that end with the step */
  int error;            /* registry reference of what a script raised, or LUA_NOREF */
} EngineCall;

/* Raises if argument 1 is not an engine, or is closed or busy. */
EngineCall engine_call_begin(lua_State *L);
/* Keeps the error on top, which `what` has raised, and returns it as a failure. */
Status engine_call_fail(EngineCall *call, const char *what);
/* Raises what a script or the engine has failed with. */
#define ENGINE_CALL(call, status) (engine_call_start(call), engine_call_end(call, status))
void engine_call_start(EngineCall *call);
void engine_call_end(EngineCall *call, Status s);

/* Reads the sizes of a step from the table at index, but no model, optimizer or inputs. */
void read_engine_options(lua_State *L, int index, const char *where, EngineOptions *o);

#endif
