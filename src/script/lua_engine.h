/* lua_engine.h - engines as Lua objects, for the files that add methods to them. */
#ifndef GRPO_SCRIPT_LUA_ENGINE_H
#define GRPO_SCRIPT_LUA_ENGINE_H

#include "rl/engine.h"
#include "rl/engine_options.h"
#include "script/binding.h"

#define ENGINE_TYPE "grpo.Engine"

Engine *check_engine(lua_State *L, int arg); /* raises if it was closed */
/* Raises also while the engine is running, in a call by its callback, and if the model has gained
 * or lost an adapter since the engine was made. */
Engine *check_idle_engine(lua_State *L, int arg);
/* Marks an engine as running while it may call a script. */
void set_engine_busy(lua_State *L, int arg, bool busy);
/* Reads the sizes of a step from the table at index, but no model, optimizer or inputs. */
void read_engine_options(lua_State *L, int index, const char *where, EngineOptions *o);

#endif
