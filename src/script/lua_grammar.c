#include "script/lua_grammar.h"

#include "script/binding.h"
#include "script/lua_tokenizer.h"
#include "text/grammar_match.h"

static const char GRAMMAR_TYPE[] = "grpo.grammar";

static int l_gc(lua_State *L) {
  Grammar **g = luaL_checkudata(L, 1, GRAMMAR_TYPE);
  grammar_free(*g);
  *g = NULL;
  return 0;
}

Grammar *push_grammar(lua_State *L, int index, bool regex, const char *where) {
  size_t n;
  if (lua_type(L, index) != LUA_TSTRING)
    raise_new(L, GRPO_EARG, "%s: want a string, got %s", where, luaL_typename(L, index));
  Grammar **g = lua_newuserdatauv(L, sizeof *g, 0);
  *g = NULL;
  luaL_setmetatable(L, GRAMMAR_TYPE);
  const char *text = lua_tolstring(L, index, &n);
  const Status s = (regex ? grammar_from_regex : grammar_from_gbnf)(g, text, n);
  if (s != GRPO_OK) raise_status(L, err_context(s, "%s", where));
  return *g;
}

static Status begin(Grammar *g, const Tokenizer *tok) {
  const int32_t eos = tokenizer_eos(tok);
  const uint32_t *allowed;
  Matcher *m;
  int n = 0;
  try(matcher_new(&m, g, tok, tokenizer_size(tok), &eos, eos >= 0));
  Status s = matcher_allowed(m, 0, &allowed, &n);
  matcher_free(m);
  return s != GRPO_OK || n > 0
             ? s
             : fail(GRPO_EARG, "no token of the vocabulary can begin a text of it");
}

/* core.grammar_problem(text, regex, tokenizer) -> why nothing could be sampled, or nil */
static int l_problem(lua_State *L) {
  Grammar *g = push_grammar(L, 1, lua_toboolean(L, 2), "grammar");
  if (begin(g, check_tokenizer(L, 3)) == GRPO_OK) return 0;
  return give_string(L, err_message());
}

CORE_PART(grammar) {
  static const luaL_Reg meta[] = {META(gc), {NULL, NULL}}, methods[] = {{NULL, NULL}};
  static const luaL_Reg functions[] = {{"grammar_problem", l_problem}, {NULL, NULL}};
  make_type(L, GRAMMAR_TYPE, meta, methods);
  luaL_setfuncs(L, functions, 0);
}
