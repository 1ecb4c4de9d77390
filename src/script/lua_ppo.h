/* lua_ppo.h - engine:ppo. */
#ifndef GRPO_SCRIPT_LUA_PPO_H
#define GRPO_SCRIPT_LUA_PPO_H

#include <lua.h>

void ppo_open(lua_State *L); /* adds the method */

#endif
