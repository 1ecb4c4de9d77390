/* lua_channel.h - core.channel. */
#ifndef GRPO_SCRIPT_LUA_CHANNEL_H
#define GRPO_SCRIPT_LUA_CHANNEL_H

#include <lua.h>

void channel_open(lua_State *L); /* the core table is on top */

#endif
