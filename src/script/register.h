/* register.h - prepares a Lua state, our own or a host's, for grpo. */
#ifndef GRPO_SCRIPT_REGISTER_H
#define GRPO_SCRIPT_REGISTER_H

#include <lua.h>

/* Pops a Script and binds it to the state (script_of).  It puts grpo.core into package.preload,
 * makes embedded modules loadable, and makes the type of error objects. */
void script_register(lua_State *L);
/* Does what script_register left undone when there was no memory. */
void script_complete(lua_State *L);

#endif
