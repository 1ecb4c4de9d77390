/* lua_grammar.h - grammars that sampling is bound to, as Lua values. */
#ifndef GRPO_SCRIPT_LUA_GRAMMAR_H
#define GRPO_SCRIPT_LUA_GRAMMAR_H

#include <lua.h>

#include "text/grammar.h"

/* Pushes the grammar of the text at `index`, in GBNF or a regular expression, which lives as long
 * as that value.  Raises; `where` begins the message. */
Grammar *push_grammar(lua_State *L, int index, bool regex, const char *where);

#endif
