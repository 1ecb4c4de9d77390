/* foreign_vm.h - running in a Lua state that belongs to a host program. */
#ifndef GRPO_SCRIPT_FOREIGN_VM_H
#define GRPO_SCRIPT_FOREIGN_VM_H

#include <lua.h>

#include "script/embedded.h"

/* Gives a host's Lua state what script_open gives our own, but leaves its globals, allocator and
 * hooks alone.  The state owns the Script.  The first call per state attaches, later calls do
 * nothing.  It raises strings. */
void script_attach(lua_State *L, const EmbeddedFile *files, lua_CFunction core);

#endif
