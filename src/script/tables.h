/* tables.h - the functions of Lua's table library in bounded time. */
#ifndef GRPO_SCRIPT_TABLES_H
#define GRPO_SCRIPT_TABLES_H

#include <lauxlib.h>

extern const luaL_Reg bounded_tables[]; /* insert, remove, move, concat, unpack, sort */

#endif
