/* foreign_vm.h - living in a Lua state that somebody else made. */
#ifndef GRPO_SCRIPT_FOREIGN_VM_H
#define GRPO_SCRIPT_FOREIGN_VM_H

#include <lua.h>

#include "script/embedded.h"

/* Gives the Lua state of a host what script_open gives our own, but leaves its globals, allocator and
 * hooks alone; the state owns the Script.  Once for a state; later calls do nothing.  Raises a string. */
void script_attach(lua_State *L, const EmbeddedFile *files, lua_CFunction core);
/* core.guard, core.is_guest; the core table is on top. */
void foreign_open(lua_State *L);

#endif
