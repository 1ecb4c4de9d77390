#include "script/lua_grammar.h"

#include "script/binding.h"

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

CORE_PART(grammar) {
  static const luaL_Reg meta[] = {META(gc), {NULL, NULL}}, methods[] = {{NULL, NULL}};
  make_type(L, GRAMMAR_TYPE, meta, methods);
}
