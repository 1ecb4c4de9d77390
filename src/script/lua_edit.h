/* lua_edit.h - core.edit. */
#ifndef GRPO_SCRIPT_LUA_EDIT_H
#define GRPO_SCRIPT_LUA_EDIT_H

#include <lua.h>

void edit_open(lua_State *L); /* the core table is on top */

#endif
