/* lua_regex.h - regular expressions as Lua values. */
#ifndef GRPO_SCRIPT_LUA_REGEX_H
#define GRPO_SCRIPT_LUA_REGEX_H

#include <lua.h>

#include "base/regex.h"

/* The regex of the value on top; a pattern is replaced by its grpo.regex.  Raises for other values;
 * `where` begins the message. */
Regex *to_regex(lua_State *L, const char *where);

#endif
