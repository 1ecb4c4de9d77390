/* lua_tokenizer.h - tokenizers as Lua values. */
#ifndef GRPO_SCRIPT_LUA_TOKENIZER_H
#define GRPO_SCRIPT_LUA_TOKENIZER_H

#include <lua.h>

#include "text/tokenizer.h"

#define TOKENIZER_TYPE "grpo.Tokenizer"

const Tokenizer *check_tokenizer(lua_State *L, int arg);  /* borrowed */
const Tokenizer *test_tokenizer(lua_State *L, int index); /* NULL: another value */
/* Takes over one reference.  Returns where it is kept: a caller that pushes NULL sets it there. */
const Tokenizer **push_tokenizer(lua_State *L, const Tokenizer *t);

#endif
