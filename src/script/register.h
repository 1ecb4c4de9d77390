/* register.h - what every Lua state with a Script gets, our own or a host's. */
#ifndef GRPO_SCRIPT_REGISTER_H
#define GRPO_SCRIPT_REGISTER_H

#include <lua.h>

/* Pops the Script and makes it the state's: script_of, grpo.core in package.preload, embedded modules,
 * the type of error objects. */
void script_register(lua_State *L);

#endif
