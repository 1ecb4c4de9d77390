/* lua_regex.c - grpo.regex: PCRE2 behind an interface like that of string.find.
 *
 * Positions are bytes, counted from 1.  A match that reaches PCRE2's limits raises ELIMIT.  A weak
 * table keeps compiled patterns.
 */
#include <string.h>

#include "script/binding.h"
#include "script/lua_regex.h"

#define REGEX_TYPE "grpo.Regex"

typedef struct LuaRegex {
  Regex *re;   /* NULL once collected */
  Regex *full; /* the pattern anchored at both ends; made by the first fullmatch */
  unsigned flags;
} LuaRegex; /* user value 1: the pattern */

static LuaRegex *check_regex(lua_State *L) {
  LuaRegex *r = check_object(L, 1, REGEX_TYPE);
  if (!r->re) arg_error(L, 1, "the regex was closed");
  return r;
}

/* ---- making one --------------------------------------------------------------------- */

static unsigned parse_flags(lua_State *L, const char *flags) {
  unsigned bits = 0;
  for (; *flags; flags++) {
    switch (*flags) {
    case 'i':
      bits |= REGEX_ICASE;
      break;
    case 's':
      bits |= REGEX_DOTALL;
      break;
    case 'm':
      bits |= REGEX_MULTI;
      break;
    case 'x':
      bits |= REGEX_EXTENDED;
      break;
    default:
      arg_error(L, 2, "unknown flag '%c', want some of \"ismx\"", *flags);
    }
  }
  return bits;
}

/* grpo.regex(pattern[, flags]); upvalue 1: the cache, from "flags/pattern" to a regex */
static int l_regex(lua_State *L) {
  size_t n;
  const char *pattern = check_string(L, 1, &n);
  unsigned flags = lua_isnoneornil(L, 2) ? 0 : parse_flags(L, check_string(L, 2, NULL));
  lua_settop(L, 1);
  lua_pushfstring(L, "%d/", (int)flags);
  lua_pushvalue(L, 1);
  lua_concat(L, 2); /* pattern key */
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TUSERDATA && ((LuaRegex *)lua_touserdata(L, 3))->re)
    return 1;
  LuaRegex *r = new_object(L, sizeof *r, 1);
  *r = (LuaRegex){.flags = flags};
  luaL_setmetatable(L, REGEX_TYPE);
  want_ok(L, regex_compile(&r->re, pattern, n, flags));
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  lua_pushvalue(L, 2);
  lua_pushvalue(L, -2);
  lua_rawset(L, lua_upvalueindex(1));
  return 1;
}

static int l_gc(lua_State *L) {
  LuaRegex *r = check_object(L, 1, REGEX_TYPE);
  regex_free(r->re);
  regex_free(r->full);
  *r = (LuaRegex){0};
  return 0;
}

static int l_close(lua_State *L) {
  check_object(L, 1, REGEX_TYPE);
  return in_use(L) ? 0 : l_gc(L);
}

static int l_tostring(lua_State *L) {
  LuaRegex *r = check_object(L, 1, REGEX_TYPE);
  lua_getiuservalue(L, 1, 1);
  lua_pushfstring(L, "grpo.Regex: /%s/%s%s%s%s", lua_isstring(L, -1) ? lua_tostring(L, -1) : "",
                  r->flags & REGEX_ICASE ? "i" : "", r->flags & REGEX_DOTALL ? "s" : "",
                  r->flags & REGEX_MULTI ? "m" : "", r->flags & REGEX_EXTENDED ? "x" : "");
  return 1;
}

/* ---- matching ----------------------------------------------------------------------- */

typedef struct Match {
  Regex *re;
  const char *s;
  size_t len;
  const size_t *at; /* bounds of the groups; valid until the next call of run */
} Match;

static bool run(lua_State *L, Match *m, size_t start) {
  bool found;
  enum { SEARCH = 8 };
  charge_work(L, (m->len - start) / 16);
  const Status st = regex_exec(m->re, m->s, m->len, start, &found, &m->at);
  charge_work(L, SEARCH + regex_steps(m->re));
  want_ok(L, st);
  return found;
}

/* Reads the subject (argument 2) and the start (argument 3); false: the start is past the end. */
static bool subject(lua_State *L, Match *m, size_t *start) {
  LuaRegex *r = check_regex(L);
  m->re = r->re;
  m->s = check_string(L, 2, &m->len);
  lua_Integer init =
      lua_isnoneornil(L, 3) ? 1 : check_integer(L, 3, LUA_MININTEGER, LUA_MAXINTEGER);
  if (init < 0) init = init < -(lua_Integer)m->len ? 1 : (lua_Integer)m->len + init + 1;
  if (init == 0) init = 1;
  *start = (size_t)init - 1;
  return *start <= m->len;
}

/* Pushes false for a group that took no part in the match. */
static void push_group(lua_State *L, const Match *m, int i) {
  if (m->at[2 * i] == REGEX_UNSET)
    lua_pushboolean(L, 0);
  else
    lua_pushlstring(L, m->s + m->at[2 * i], m->at[2 * i + 1] - m->at[2 * i]);
}

/* Pushes the captures, or the whole match if there are none. */
static int push_groups(lua_State *L, const Match *m) {
  int n = regex_captures(m->re);
  if (n == 0) return push_group(L, m, 0), 1;
  luaL_checkstack(L, n, "too many captures");
  for (int i = 1; i <= n; i++) push_group(L, m, i);
  return n;
}

/* Where to look next: we never find an empty match twice, nor begin inside a character. */
static size_t after(const Match *m) {
  size_t end = m->at[1];
  if (m->at[0] != end) return end;
  end++;
  while (end < m->len && ((unsigned char)m->s[end] & 0xc0) == 0x80) end++;
  return end;
}

static int l_test(lua_State *L) {
  Match m;
  size_t start;
  return give_boolean(L, subject(L, &m, &start) && run(L, &m, start));
}

static int l_match(lua_State *L) {
  Match m;
  size_t start;
  if (subject(L, &m, &start) && run(L, &m, start)) return push_groups(L, &m);
  lua_pushnil(L);
  return 1;
}

static int l_fullmatch(lua_State *L) {
  Match m;
  size_t start, n;
  LuaRegex *r = check_regex(L);
  lua_settop(L, 2);
  subject(L, &m, &start);
  if (!r->full) {
    lua_getiuservalue(L, 1, 1);
    const char *pattern = lua_tolstring(L, -1, &n);
    want_ok(L, regex_compile(&r->full, pattern, n, r->flags | REGEX_ANCHORED_FULL));
  }
  m.re = r->full;
  if (run(L, &m, 0)) return push_groups(L, &m);
  lua_pushnil(L);
  return 1;
}

static int l_find(lua_State *L) {
  Match m;
  size_t start;
  if (!subject(L, &m, &start) || !run(L, &m, start)) {
    lua_pushnil(L);
    return 1;
  }
  lua_pushinteger(L, (lua_Integer)m.at[0] + 1);
  lua_pushinteger(L, (lua_Integer)m.at[1]);
  return 2 + (regex_captures(m.re) ? push_groups(L, &m) : 0);
}

static int l_count(lua_State *L) {
  Match m;
  size_t start;
  lua_Integer n = 0;
  bool more = subject(L, &m, &start);
  for (; more && start <= m.len && run(L, &m, start); start = after(&m)) n++;
  return give_integer(L, n);
}

/* exec -> a table with m[0], m[1].., m.name, m.start, m.stop */
static int l_exec(lua_State *L) {
  Match m;
  size_t start;
  if (!subject(L, &m, &start) || !run(L, &m, start)) {
    lua_pushnil(L);
    return 1;
  }
  int n = regex_captures(m.re);
  lua_createtable(L, n, 3);
  set_integer(L, "start", (lua_Integer)m.at[0] + 1);
  set_integer(L, "stop", (lua_Integer)m.at[1]);
  for (int i = 0; i <= n; i++) {
    const char *name = regex_name(m.re, i);
    push_group(L, &m, i);
    if (name && i) {
      lua_pushvalue(L, -1);
      lua_setfield(L, -3, name);
    }
    lua_rawseti(L, -2, i);
  }
  return 1;
}

/* Upvalues: the regex, the subject, the next start. */
static int l_gmatch_next(lua_State *L) {
  LuaRegex *r = lua_touserdata(L, lua_upvalueindex(1));
  Match m = {.re = r->re};
  if (!r->re) return raise_new(L, GRPO_EARG, "the regex was closed");
  m.s = lua_tolstring(L, lua_upvalueindex(2), &m.len);
  size_t start = (size_t)lua_tointeger(L, lua_upvalueindex(3));
  if (start > m.len || !run(L, &m, start)) {
    lua_pushnil(L);
    return 1;
  }
  lua_pushinteger(L, (lua_Integer)after(&m));
  lua_replace(L, lua_upvalueindex(3));
  return push_groups(L, &m);
}

static int l_gmatch(lua_State *L) {
  Match m;
  size_t start;
  subject(L, &m, &start);
  lua_settop(L, 2);
  lua_pushinteger(L, (lua_Integer)start);
  lua_pushcclosure(L, l_gmatch_next, 3);
  return 1;
}

/* ---- replacing ---------------------------------------------------------------------- */

static void put_template(lua_State *L, Buf *b, const Match *m) {
  size_t n;
  const char *r = lua_tolstring(L, 3, &n), *end = r + n;
  for (; r < end; r++) {
    if (*r != '%') {
      buf_putc(b, *r);
      continue;
    }
    r++;
    if (r < end && *r == '%') {
      buf_putc(b, '%');
    } else if (r < end && *r >= '0' && *r <= '9') {
      int g = *r - '0', groups = regex_captures(m->re);
      /* If there are no groups, %1 is the whole match, as in string.gsub. */
      if (g > groups && !(g == 1 && groups == 0))
        raise_new(L, GRPO_EARG, "gsub: the replacement names group %d, but the pattern has %d", g,
                  groups);
      if (g > groups) g = 0;
      if (m->at[2 * g] != REGEX_UNSET)
        buf_put(b, m->s + m->at[2 * g], m->at[2 * g + 1] - m->at[2 * g]);
    } else {
      raise_new(L, GRPO_EARG, "gsub: invalid use of '%%' in the replacement (write %%%% for a %%)");
    }
  }
}

/* Appends the replacement of the match; false and nil leave the match as it is. */
static void put_replacement(lua_State *L, Buf *b, const Match *m) {
  size_t from = m->at[0], to = m->at[1], n;
  switch (lua_type(L, 3)) {
  case LUA_TSTRING:
    put_template(L, b, m);
    return;
  case LUA_TTABLE:
    push_group(L, m, regex_captures(m->re) ? 1 : 0);
    lua_gettable(L, 3);
    break;
  default:
    lua_pushvalue(L, 3);
    lua_call(L, push_groups(L, m), 1); /* it may run this regex again, which overwrites m->at */
  }
  if (!lua_toboolean(L, -1)) {
    buf_put(b, m->s + from, to - from);
  } else if (lua_isstring(L, -1)) {
    const char *r = lua_tolstring(L, -1, &n);
    buf_put(b, r, n);
  } else {
    raise_new(L, GRPO_EARG, "gsub: the replacement is a %s, want a string or false",
              luaL_typename(L, -1));
  }
  lua_pop(L, 1);
}

static int l_gsub(lua_State *L) {
  Match m;
  size_t start = 0, copied = 0;
  lua_Integer n = 0, max = LUA_MAXINTEGER;
  if (!lua_isnoneornil(L, 4)) max = check_integer(L, 4, LUA_MININTEGER, LUA_MAXINTEGER);
  LuaRegex *r = check_regex(L);
  m.re = r->re;
  m.s = check_string(L, 2, &m.len);
  if (lua_type(L, 3) == LUA_TNUMBER) lua_tostring(L, 3);
  int type = lua_type(L, 3);
  if (type != LUA_TSTRING && type != LUA_TTABLE && type != LUA_TFUNCTION)
    return type_error(L, 3, "string, table or function");
  lua_settop(L, 3);
  Buf *b = push_buf(L);
  for (; n < max && start <= m.len && run(L, &m, start); n++) {
    size_t next = after(&m), end = m.at[1];
    buf_put(b, m.s + copied, m.at[0] - copied);
    put_replacement(L, b, &m);
    copied = end;
    start = next;
  }
  buf_put(b, m.s + copied, m.len - copied);
  want_ok(L, buf_status(b));
  push_bytes(L, b);
  keep_buf(L, b);
  lua_pushinteger(L, n);
  return 2;
}

Regex *to_regex(lua_State *L, const char *where) {
  size_t n;
  LuaRegex *r = luaL_testudata(L, -1, REGEX_TYPE);
  if (r && r->re) return r->re;
  if (lua_type(L, -1) != LUA_TSTRING)
    raise_new(L, GRPO_EARG, "%s: want a pattern or a grpo.regex, got %s", where,
              luaL_typename(L, -1));
  r = new_object(L, sizeof *r, 1);
  *r = (LuaRegex){0};
  luaL_setmetatable(L, REGEX_TYPE);
  const char *pattern = lua_tolstring(L, -2, &n);
  Status st = regex_compile(&r->re, pattern, n, 0);
  if (st) raise_status(L, err_context(st, "%s", where));
  lua_pushvalue(L, -2);
  lua_setiuservalue(L, -2, 1);
  lua_remove(L, -2);
  return r->re;
}

/* ---- registration ------------------------------------------------------------------- */

CORE_PART(regex) {
  static const luaL_Reg methods[] = {FN(test), FN(match),  FN(fullmatch), FN(find),    FN(count),
                                     FN(exec), FN(gmatch), FN(gsub),      {NULL, NULL}};
  static const luaL_Reg meta[] = {META(gc), META(close), META(tostring), {NULL, NULL}};
  make_type(L, REGEX_TYPE, meta, methods);
  lua_newtable(L); /* the cache, whose values are weak */
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushcclosure(L, l_regex, 1);
  lua_setfield(L, -2, "regex");
}
