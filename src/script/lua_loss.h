/* lua_loss.h - grpo.loss, grpo.loss_from_logits. */
#ifndef GRPO_SCRIPT_LUA_LOSS_H
#define GRPO_SCRIPT_LUA_LOSS_H

#include <lua.h>

void loss_open(lua_State *L); /* the core table is on top */

#endif
