/* resources.h - what the engine lends to a Lua state: threads and scratch memory. */
#ifndef GRPO_SCRIPT_RESOURCES_H
#define GRPO_SCRIPT_RESOURCES_H

#include <lua.h>

#include "base/pool.h"
#include "kern/kern.h"

/* The engine's pool; made at the first call with the number of core.set_threads.  Raises. */
Pool *script_pool(lua_State *L);
/* The pool and a scratch arena for value_apply and kernels.  Raises. */
const Ctx *script_ctx(lua_State *L);

#endif
