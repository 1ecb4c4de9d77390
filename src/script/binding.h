/* binding.h - everything that a file of bindings uses.  Rules for every C function that Lua can call:
 *
 *   - Failures leave through raise_status() and its relatives: an error object {code=, message=,
 *     where=} whose text is "script.lua:14: message".  The line is that of the first Lua function on
 *     the stack that is not part of the Lua half (lua/grpo, the embedded rewards).
 *   - A C frame owns no heap memory while Lua may throw: memory comes from push_scratch(),
 *     push_buf(), push_ints(), or belongs to a userdata.
 *   - Lua code is called through call_protected() or call_limited() only, except where an error is
 *     meant to pass straight on to our own caller (lua_call from a function that Lua called).
 *
 * Such a file has one skeleton: functions `l_xxx`, which Lua calls; tables of luaL_Reg; and at its end
 * the function NAME_open, which core.c calls once for a state with the table `grpo.core` on top.
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
#include "script/errors.h"
#include "script/limits.h"
#include "script/objects.h"
#include "script/resources.h"
#include "script/script.h"

#endif
