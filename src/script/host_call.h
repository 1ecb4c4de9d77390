/* host_call.h - what the library asks its Lua half for. */
#ifndef GRPO_SCRIPT_HOST_CALL_H
#define GRPO_SCRIPT_HOST_CALL_H

#include <lua.h>

#include "base/buf.h"
#include "base/err.h"
#include "script/lua_vm.h"
#include "text/tokenizer.h"

/* A Lua state with the Lua half, which the caller closes. */
Status host_call_open(Script **out);
/* Calls f(arg), a light userdata, in a state of ours or of a host; what it raises becomes the
 * status. */
Status host_call(lua_State *L, lua_CFunction f, void *arg);

/* tok:chat(messages, options), both as JSON, as text that is appended to *out.  options may be
 * NULL. */
Status host_call_chat(Script *script, const Tokenizer *t, const char *messages, const char *options,
                      Buf *out);

#endif
