/* resources.h - what the engine lends to a Lua state: threads and scratch memory. */
#ifndef GRPO_SCRIPT_RESOURCES_H
#define GRPO_SCRIPT_RESOURCES_H

#include <lua.h>

#include "base/pool.h"
#include "kern/kern.h"

/* The thread pool, made at the first call with as many threads as core.set_threads said.
 * Raises. */
Pool *script_pool(lua_State *L);
/* The pool with an arena of scratch memory, for value_apply and kernels.  Raises. */
const Ctx *script_ctx(lua_State *L);

#endif
