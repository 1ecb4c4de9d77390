#include "script/read_prompts.h"

#include "script/binding.h"

void read_prompt(lua_State *L, const Tokenizer *tok, const char *what, IntBuf *ids) {
  size_t n, before = ids->len;
  if (lua_type(L, -1) != LUA_TSTRING) {
    check_ids(L, -1, what, ids);
  } else {
    const char *text = lua_tolstring(L, -1, &n);
    if (!tok)
      raise_new(L, GRPO_EARG, "%s: a string needs a tokenizer; give token ids (tok:encode)", what);
    want_ok(L, tokenizer_encode(tok, text, n, TOK_ADD_SPECIAL, ids));
  }
  if (ids->len == before) raise_new(L, GRPO_EARG, "%s: is empty; want at least one token", what);
}

int prompt_len(const Prompts *p, int i) { return (int)(p->at[i + 1] - p->at[i]); }

Prompts read_prompts(lua_State *L, int index, const Tokenizer *tok, bool single, const char *what) {
  Prompts p = {.n = single ? 1 : (int)lua_rawlen(L, index)};
  p.ids = push_ints(L);
  p.at = push_scratch(L, (size_t)p.n + 1, sizeof *p.at);
  for (int i = 0; i < p.n; i++) {
    if (single)
      lua_pushvalue(L, index);
    else
      lua_rawgeti(L, index, i + 1);
    const char *name = single ? what : lua_pushfstring(L, "%s[%d]", what, i + 1);
    if (!single) lua_insert(L, -2);
    read_prompt(L, tok, name, p.ids);
    p.at[i + 1] = p.ids->len;
    lua_pop(L, single ? 1 : 2);
  }
  return p;
}
