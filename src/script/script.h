/* script.h - a Script is one Lua state with what the engine lends it: the thread pool, scratch
 * memory and the limits on script code.
 */
#ifndef GRPO_SCRIPT_SCRIPT_H
#define GRPO_SCRIPT_SCRIPT_H

#include <lua.h>
#include <stddef.h>

#include "script/embedded.h"

typedef struct Script Script;

/* The Script of a state; NULL before script_register (lua_vm.h). */
Script *script_of(lua_State *L);
lua_State *script_state(Script *s);
const EmbeddedFile *script_embedded(lua_State *L, const char *name, size_t len); /* NULL: none */

#endif
