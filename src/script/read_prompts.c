#include "script/read_prompts.h"

#include "script/binding.h"

/* Appends the ids of the string or list on top; `flags` are those of tokenizer_encode. */
static void read_ids(lua_State *L, const Tokenizer *tok, unsigned flags, const char *what,
                     IntBuf *ids) {
  size_t n, before = ids->len;
  if (lua_type(L, -1) != LUA_TSTRING) {
    check_ids(L, -1, what, ids);
  } else {
    const char *text = lua_tolstring(L, -1, &n);
    if (!tok)
      raise_new(L, GRPO_EARG, "%s: a string needs a tokenizer; give token ids (tok:encode)", what);
    want_ok(L, tokenizer_encode(tok, text, n, flags, ids));
  }
  if (ids->len == before) raise_new(L, GRPO_EARG, "%s: is empty; want at least one token", what);
}

void read_prompt(lua_State *L, const Tokenizer *tok, const char *what, IntBuf *ids) {
  read_ids(L, tok, TOK_ADD_SPECIAL, what, ids);
}

int prompt_len(const Prompts *p, int i) { return (int)(p->at[i + 1] - p->at[i]); }

/* Pushes the memory of n prompts. */
static Prompts push_prompts(lua_State *L, int n) {
  Prompts p = {.n = n};
  p.ids = push_ints(L);
  p.at = push_scratch(L, (size_t)n + 1, sizeof *p.at);
  return p;
}

static Prompts read_list(lua_State *L, int index, const Tokenizer *tok, unsigned flags,
                         const char *what) {
  Prompts p = push_prompts(L, (int)lua_rawlen(L, index));
  for (int i = 0; i < p.n; i++) {
    const char *name = lua_pushfstring(L, "%s[%d]", what, i + 1);
    lua_rawgeti(L, index, i + 1);
    read_ids(L, tok, flags, name, p.ids);
    p.at[i + 1] = p.ids->len;
    lua_pop(L, 2);
  }
  return p;
}

Prompts read_prompts(lua_State *L, int index, const Tokenizer *tok, bool single, const char *what) {
  if (!single) return read_list(L, index, tok, TOK_ADD_SPECIAL, what);
  Prompts p = push_prompts(L, 1);
  lua_pushvalue(L, index);
  read_prompt(L, tok, what, p.ids);
  p.at[1] = p.ids->len;
  lua_pop(L, 1);
  return p;
}

Prompts read_prompt_completions(lua_State *L, int index, const Tokenizer *tok, const char *what) {
  return read_list(L, index, tok, 0, what);
}
