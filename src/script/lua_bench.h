/* lua_bench.h - rates of this machine. */
#ifndef GRPO_SCRIPT_LUA_BENCH_H
#define GRPO_SCRIPT_LUA_BENCH_H

#include <lua.h>

void bench_open(lua_State *L); /* the core table is on top */

#endif
