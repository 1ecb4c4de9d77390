/* lua_json.h - JSON values as Lua values, and back. */
#ifndef GRPO_SCRIPT_LUA_JSON_H
#define GRPO_SCRIPT_LUA_JSON_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "formats/json.h"

void push_json(lua_State *L, const Json *j);
void push_json_null(lua_State *L); /* core.json_null */
/* A mark of a table that is written as an object even when it is empty. */
bool is_json_object(lua_State *L, int index);
void set_json_object(lua_State *L, int index);
/* Pushes the value of a JSON text; `what` names the text in errors. */
void push_json_text(lua_State *L, const char *text, size_t len, const char *what);
/* Pushes the value of a text of data; json_parse_rows() says what may stand there. */
void push_json_rows(lua_State *L, const char *text, size_t len, const char *what);
/* Appends the JSON text of the value at index; indent 0: on one line. */
void put_json(lua_State *L, int index, Buf *b, int indent);

#endif
