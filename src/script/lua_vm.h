/* lua_vm.h - a Lua state of our own. */
#ifndef GRPO_SCRIPT_LUA_VM_H
#define GRPO_SCRIPT_LUA_VM_H

#include <lua.h>

#include "base/err.h"
#include "script/embedded.h"
#include "script/script.h"

/* files: the table of embedded files (embedded.h); core: opens `grpo.core` (core.h).  The new state
 * has the standard libraries, grpo.core in package.preload, and finds embedded modules after files
 * on package.path, but grpo and grpo.NAME before them. */
Status script_open(Script **out, const EmbeddedFile *files, lua_CFunction core);
void script_close(Script *s); /* NULL is fine */

#endif
