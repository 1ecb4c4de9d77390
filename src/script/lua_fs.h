/* lua_fs.h - core.fs. */
#ifndef GRPO_SCRIPT_LUA_FS_H
#define GRPO_SCRIPT_LUA_FS_H

#include <lua.h>

void fs_open(lua_State *L); /* the core table is on top */

#endif
