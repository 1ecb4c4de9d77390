/* binding.h - everything that a file of bindings includes, and the rules for C functions that Lua
 * calls:
 *
 *   - A failure leaves through raise_status() and its relatives: they raise an error object {code=,
 *     message=, where=} whose text is "script.lua:14: message".  The line is that of the innermost
 *     Lua function on the stack that is not part of the Lua half (lua/grpo, the embedded rewards).
 *   - A C frame owns no heap memory while Lua may throw.  Memory comes from push_scratch(),
 *     push_buf() or push_ints(), or belongs to a userdata.
 *   - Lua code is called through call_protected() or call_limited() only.  The exception is
 *     lua_call() in a function that Lua called, if an error shall pass on to that caller.
 *
 * Every file of bindings has one skeleton: functions `l_xxx`, which Lua calls; functions
 * `protected_xxx`, which C runs in a protected call; tables of luaL_Reg; and at the end
 * CORE_PART(NAME), CORE_FUNCTIONS or CORE_METHODS, which core.c lists, or in an extension
 * EXTENSION_PART(NAME).
 */
#ifndef GRPO_SCRIPT_BINDING_H
#define GRPO_SCRIPT_BINDING_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/intbuf.h"
#include "script/args.h"
#include "script/budget.h"
#include "script/errors.h"
#include "script/limits.h"
#include "script/objects.h"
#include "script/parts.h"
#include "script/resources.h"
#include "script/script.h"

/* Rows of luaL_Reg: FN(append) is {"append", l_append}, META(gc) is {"__gc", l_gc}. */
#define FN(name)                                                                                   \
  { #name, l_##name }
#define META(name)                                                                                 \
  { "__" #name, l_##name }

/* Defines NAME_open, which core.c calls once per Lua state with the table `grpo.core` on top. */
#define CORE_PART(name)                                                                            \
  CorePart name##_open;                                                                            \
  void name##_open(lua_State *L)

/* Parts that only add functions to grpo.core, or methods to a type, given as rows. */
#define CORE_FUNCTIONS(name, ...)                                                                  \
  CORE_PART(name) {                                                                                \
    static const luaL_Reg functions[] = {__VA_ARGS__, {NULL, NULL}};                               \
    luaL_setfuncs(L, functions, 0);                                                                \
  }
#define CORE_METHODS(name, type, ...)                                                              \
  CORE_PART(name) {                                                                                \
    static const luaL_Reg methods[] = {__VA_ARGS__, {NULL, NULL}};                                 \
    add_methods(L, type, methods);                                                                 \
  }

#endif
