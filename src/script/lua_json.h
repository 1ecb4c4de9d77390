/* lua_json.h - JSON values as Lua values, and back. */
#ifndef GRPO_SCRIPT_LUA_JSON_H
#define GRPO_SCRIPT_LUA_JSON_H

#include <lua.h>
#include <stddef.h>

#include "base/buf.h"
#include "formats/json.h"

void push_json(lua_State *L, const Json *j); /* pushes the value */
/* Pushes the value of a JSON text; `what` names it in errors. */
void push_json_text(lua_State *L, const char *text, size_t len, const char *what);
void put_json(lua_State *L, int index, Buf *b, int indent); /* appends; 0: one line */

void json_open(lua_State *L); /* the core table is on top */

#endif
