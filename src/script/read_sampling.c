#include "script/read_sampling.h"

#include <string.h>

#include "script/binding.h"
#include "script/lua_grammar.h"
#include "script/lua_regex.h"
#include "script/read_options.h"

/* Pops a value and appends it to the table at `held`, which is made if it is nil. */
static void hold(lua_State *L, int held) {
  if (lua_isnil(L, held)) {
    lua_newtable(L);
    lua_replace(L, held);
  }
  lua_rawseti(L, held, (lua_Integer)lua_rawlen(L, held) + 1);
}

static void read_stop(lua_State *L, int index, int held, const char *where, Sampling *out) {
  if (lua_getfield(L, index, "stop") == LUA_TNIL) {
    lua_pop(L, 1);
    return;
  }
  int list = lua_gettop(L);
  if (lua_type(L, list) == LUA_TSTRING) { /* make it a list of one string */
    lua_newtable(L);
    lua_pushvalue(L, list);
    lua_rawseti(L, -2, 1);
    lua_replace(L, list);
  }
  if (!lua_istable(L, list))
    raise_new(L, GRPO_EARG, "%s.stop: want a list of strings, got %s", where,
              luaL_typename(L, list));
  size_t n = lua_rawlen(L, list);
  if (n == 0) {
    lua_pop(L, 1);
    return;
  }
  const char **stop = push_scratch(L, n, sizeof *stop);
  hold(L, held);
  for (size_t i = 0; i < n; i++) {
    size_t len = 0;
    if (lua_rawgeti(L, list, (lua_Integer)i + 1) == LUA_TSTRING)
      stop[i] = lua_tolstring(L, -1, &len);
    if (!stop[i])
      raise_new(L, GRPO_EARG, "%s.stop: item %d is a %s, want a string", where, (int)i + 1,
                luaL_typename(L, -1));
    if (!len || strlen(stop[i]) != len)
      raise_new(L, GRPO_EARG, "%s.stop: item %d %s; remove it", where, (int)i + 1,
                len ? "has a zero byte, which no text has"
                    : "is empty, which would end every completion");
    hold(L, held);
  }
  out->num_stop = (int)n;
  out->stop = stop;
  lua_pop(L, 1);
}

/* The option `name`, a grammar or a regular expression. */
static void read_grammar(lua_State *L, int index, int held, const char *where, const char *name,
                         Sampling *out) {
  if (lua_getfield(L, index, name) == LUA_TNIL) {
    lua_pop(L, 1);
    return;
  }
  if (out->grammar)
    raise_new(L, GRPO_EARG, "%s.%s: there is a grammar already; give grammar or regex, not both",
              where, name);
  const int text = lua_gettop(L);
  const char *path = lua_pushfstring(L, "%s.%s", where, name);
  out->grammar = push_grammar(L, text, strcmp(name, "regex") == 0, path);
  hold(L, held);
  lua_pop(L, 2);
}

static const char *const others[] = {"stop",    "stop_regex", "group_size", "renormalize",
                                     "grammar", "regex",      NULL};
static const OptionSet *const sampling_sets[] = {&sampling_option_set, NULL};

void read_sampling(lua_State *L, int index, const char *where, Sampling *out) {
  lua_pushnil(L);
  const int held = lua_gettop(L), regex = held + 1;
  lua_pushnil(L);
  if (!lua_istable(L, index)) return;
  read_options(L, index, where, &sampling_option_set, 0, out);
  read_stop(L, index, held, where, out);
  read_grammar(L, index, held, where, "grammar", out);
  read_grammar(L, index, held, where, "regex", out);
  if (lua_getfield(L, index, "stop_regex") != LUA_TNIL) {
    const char *name = lua_pushfstring(L, "%s.stop_regex", where);
    lua_insert(L, -2);
    out->stop_regex = to_regex(L, name);
    lua_replace(L, regex);
    lua_pop(L, 1);
  } else {
    lua_pop(L, 1);
  }
}

void read_sampling_temperature(lua_State *L, int index, const char *where, double *temperature) {
  const Option *o = option_find(&sampling_option_set, "sampling.temperature");
  field_number(L, index, where, "temperature", 1e-6, o->high, temperature);
}

void check_sampling(lua_State *L, int index, const char *where, Sampling *out) {
  index = lua_absindex(L, index);
  check_option_fields(L, index, where, sampling_sets, others);
  read_sampling(L, index, where, out);
}
