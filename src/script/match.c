/* match.c - string.find, match, gmatch and gsub in bounded time.
 *
 * Lua's patterns can take exponential time, which no hook sees.  Here is the same language (Lua
 * 5.4, section 6.4.1), but every step of the matcher is charged to the running budget.  Outside
 * limited calls Lua's own functions run, except for gmatch, because a limited call may use an
 * iterator that was made outside.
 */
#include "script/match.h"

#include <ctype.h>
#include <string.h>

#include "script/budget.h"
#include "script/errors.h"

enum {
  MAX_CAPTURES = 32,
  MAX_DEPTH = 200,      /* of recursion, as in Lua */
  STEPS_AT_ONCE = 2048, /* matcher steps between two charges */
  OPEN = -1,            /* length of a capture whose end is not reached yet */
  POSITION = -2         /* length of the capture () */
};

typedef struct Matcher {
  lua_State *L;
  const char *s, *s_end; /* subject */
  const char *p_end;     /* pattern */
  int depth, steps;
  int level; /* captures so far */
  struct {
    const char *at;
    ptrdiff_t len;
  } capture[MAX_CAPTURES];
} Matcher;

static const char *match(Matcher *m, const char *s, const char *p);

static void step(Matcher *m, size_t n) {
  if (n < (size_t)m->steps) {
    m->steps -= (int)n;
    return;
  }
  m->steps = STEPS_AT_ONCE;
  charge_work(m->L, STEPS_AT_ONCE + n);
}

static int malformed(Matcher *m, const char *what) {
  return raise_new(m->L, GRPO_EARG, "malformed pattern (%s)", what);
}

/* ---- one character ------------------------------------------------------------------ */

static const char *class_end(Matcher *m, const char *p) {
  if (p == m->p_end) malformed(m, "ends unexpectedly");
  if (*p++ == '%') {
    if (p == m->p_end) malformed(m, "ends with '%'");
    return p + 1;
  }
  if (p[-1] != '[') return p;
  if (p < m->p_end && *p == '^') p++;
  do {
    if (p == m->p_end) malformed(m, "missing ']'");
    if (*p++ == '%') {
      if (p == m->p_end) malformed(m, "missing ']'");
      p++;
    }
  } while (p == m->p_end || *p != ']');
  return p + 1;
}

static int is_zero(int c) { return c == 0; }

static bool in_class(int c, int class) {
  static int (*const classes[256])(int) = {
      ['a'] = isalpha, ['c'] = iscntrl,  ['d'] = isdigit, ['g'] = isgraph,
      ['l'] = islower, ['p'] = ispunct,  ['s'] = isspace, ['u'] = isupper,
      ['w'] = isalnum, ['x'] = isxdigit, ['z'] = is_zero /* deprecated, as in Lua */};
  int (*const is)(int) = classes[tolower(class)];
  if (!is) return class == c;
  return (is(c) != 0) != (isupper(class) != 0);
}

/* p points to '[', last to its ']'. */
static bool in_set(int c, const char *p, const char *last) {
  bool found = true;
  if (p[1] == '^') found = false, p++;
  while (++p < last) {
    if (*p == '%') {
      if (in_class(c, (unsigned char)*++p)) return found;
    } else if (p[1] == '-' && p + 2 < last) {
      if ((unsigned char)*p <= c && c <= (unsigned char)p[2]) return found;
      p += 2;
    } else if ((unsigned char)*p == c) {
      return found;
    }
  }
  return !found;
}

static bool single(Matcher *m, const char *s, const char *p, const char *ep) {
  if (s >= m->s_end) return false;
  int c = (unsigned char)*s;
  switch (*p) {
  case '.':
    return true;
  case '%':
    return in_class(c, (unsigned char)p[1]);
  case '[':
    step(m, (size_t)(ep - p));
    return in_set(c, p, ep - 1);
  default:
    return (unsigned char)*p == c;
  }
}

/* ---- items -------------------------------------------------------------------------- */

static const char *match_balance(Matcher *m, const char *s, const char *p) {
  if (p + 1 >= m->p_end) malformed(m, "missing arguments to '%b'");
  if (s >= m->s_end || *s != *p) return NULL;
  int depth = 1;
  while (++s < m->s_end) {
    step(m, 1);
    if (*s == p[1]) {
      if (--depth == 0) return s + 1;
    } else if (*s == *p) {
      depth++;
    }
  }
  return NULL;
}

static const char *match_longest(Matcher *m, const char *s, const char *p, const char *ep) {
  ptrdiff_t i = 0;
  while (single(m, s + i, p, ep)) step(m, 1), i++;
  for (; i >= 0; i--) {
    const char *e = match(m, s + i, ep + 1);
    if (e) return e;
  }
  return NULL;
}

static const char *match_shortest(Matcher *m, const char *s, const char *p, const char *ep) {
  for (;; s++) {
    const char *e = match(m, s, ep + 1);
    if (e) return e;
    if (!single(m, s, p, ep)) return NULL;
  }
}

static const char *open_capture(Matcher *m, const char *s, const char *p, ptrdiff_t kind) {
  if (m->level >= MAX_CAPTURES) raise_new(m->L, GRPO_EARG, "too many captures");
  m->capture[m->level].at = s;
  m->capture[m->level].len = kind;
  m->level++;
  const char *e = match(m, s, p);
  if (!e) m->level--;
  return e;
}

static const char *close_capture(Matcher *m, const char *s, const char *p) {
  int l = m->level - 1;
  while (l >= 0 && m->capture[l].len != OPEN) l--;
  if (l < 0) raise_new(m->L, GRPO_EARG, "invalid pattern capture");
  m->capture[l].len = s - m->capture[l].at;
  const char *e = match(m, s, p);
  if (!e) m->capture[l].len = OPEN;
  return e;
}

static const char *match_back(Matcher *m, const char *s, int digit) {
  int l = digit - '1';
  if (l < 0 || l >= m->level || m->capture[l].len == OPEN)
    raise_new(m->L, GRPO_EARG, "invalid capture index %%%d", l + 1);
  if (m->capture[l].len == POSITION) return NULL; /* a place matches no text */
  const size_t n = (size_t)m->capture[l].len;
  step(m, n);
  if ((size_t)(m->s_end - s) < n || memcmp(m->capture[l].at, s, n) != 0) return NULL;
  return s + n;
}

static bool at_frontier(Matcher *m, const char *s, const char *p, const char *ep) {
  step(m, (size_t)(ep - p));
  int before = s == m->s ? 0 : (unsigned char)s[-1], here = s < m->s_end ? (unsigned char)*s : 0;
  return !in_set(before, p, ep - 1) && in_set(here, p, ep - 1);
}

/* Matches %b, %f or %1.  *next becomes the rest of the pattern, and *s the rest of the subject, or
 * NULL if it does not match.  Returns false for another item. */
static bool match_special(Matcher *m, const char **s, const char *p, const char **next) {
  int c = p + 1 < m->p_end ? (unsigned char)p[1] : 0;
  if (c == 'b') {
    *s = match_balance(m, *s, p + 2);
    *next = p + 4;
  } else if (c == 'f') {
    p += 2;
    if (p >= m->p_end || *p != '[') malformed(m, "missing '[' after '%f'");
    *next = class_end(m, p);
    if (!at_frontier(m, *s, p, *next)) *s = NULL;
  } else if (isdigit(c)) {
    *s = match_back(m, *s, c);
    *next = p + 2;
  } else {
    return false;
  }
  return true;
}

static const char *match_here(Matcher *m, const char *s, const char *p) {
  while (p < m->p_end) {
    step(m, 1);
    const char *next;
    if (*p == '(') {
      bool position = p + 1 < m->p_end && p[1] == ')';
      return open_capture(m, s, p + (position ? 2 : 1), position ? POSITION : OPEN);
    }
    if (*p == ')') return close_capture(m, s, p + 1);
    if (*p == '$' && p + 1 == m->p_end) return s == m->s_end ? s : NULL;
    if (*p == '%' && match_special(m, &s, p, &next)) {
      if (!s) return NULL;
      p = next;
      continue;
    }
    const char *ep = class_end(m, p);
    int suffix = ep < m->p_end ? *ep : 0;
    bool here = single(m, s, p, ep);
    if (!here && (suffix == '*' || suffix == '-')) { /* without recursion, as in Lua */
      p = ep + 1;
      continue;
    }
    if (suffix == '*') return match_longest(m, s, p, ep);
    if (suffix == '-') return match_shortest(m, s, p, ep);
    if (suffix == '+') return here ? match_longest(m, s + 1, p, ep) : NULL;
    if (suffix == '?') {
      const char *e = here ? match(m, s + 1, ep + 1) : NULL;
      if (e) return e;
      p = ep + 1;
      continue;
    }
    if (!here) return NULL;
    s++;
    p = ep;
  }
  return s;
}

static const char *match(Matcher *m, const char *s, const char *p) {
  if (m->depth-- == 0) raise_new(m->L, GRPO_EARG, "pattern too complex");
  const char *e = match_here(m, s, p);
  m->depth++;
  return e;
}

/* ---- captures to Lua ---------------------------------------------------------------- */

static void push_capture(Matcher *m, int i, const char *s, const char *e) {
  if (i >= m->level) {
    if (i != 0) raise_new(m->L, GRPO_EARG, "invalid capture index %%%d", i + 1);
    lua_pushlstring(m->L, s, (size_t)(e - s));
  } else if (m->capture[i].len == POSITION) {
    lua_pushinteger(m->L, m->capture[i].at - m->s + 1);
  } else if (m->capture[i].len == OPEN) {
    raise_new(m->L, GRPO_EARG, "unfinished capture");
  } else {
    lua_pushlstring(m->L, m->capture[i].at, (size_t)m->capture[i].len);
  }
}

/* Pushes all captures, or the whole match if there are none and s is given. */
static int push_captures(Matcher *m, const char *s, const char *e) {
  int n = m->level == 0 && s ? 1 : m->level;
  luaL_checkstack(m->L, n, "too many captures");
  for (int i = 0; i < n; i++) push_capture(m, i, s, e);
  return n;
}

static void start(Matcher *m, lua_State *L, const char *s, size_t ls, const char *p, size_t lp) {
  *m = (Matcher){
      .L = L, .s = s, .s_end = s + ls, .p_end = p + lp, .depth = MAX_DEPTH, .steps = STEPS_AT_ONCE};
  charge_work(L, 16);
}

static const char *match_again(Matcher *m, const char *s, const char *p) {
  m->level = 0;
  m->depth = MAX_DEPTH;
  return match(m, s, p);
}

/* ---- find, match -------------------------------------------------------------------- */

static size_t start_position(lua_Integer pos, size_t len) {
  if (pos > 0) return (size_t)pos;
  if (pos == 0) return 1;
  if (pos < -(lua_Integer)len) return 1;
  return len + (size_t)pos + 1;
}

static bool has_specials(const char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (memchr("^$*+?.([%-", p[i], 10)) return true;
  return false;
}

static int find_plain(lua_State *L, const char *s, size_t ls, const char *p, size_t lp,
                      size_t init) {
  const char *e = lp == 0 ? s + init : memmem(s + init, ls - init, p, lp);
  charge_work(L, 16 + (e ? (size_t)(e - s) - init : ls - init) / 4); /* for the bytes we read */
  if (!e) {
    lua_pushnil(L);
    return 1;
  }
  lua_pushinteger(L, e - s + 1);
  lua_pushinteger(L, (lua_Integer)((size_t)(e - s) + lp));
  return 2;
}

static int find_or_match(lua_State *L, bool find) {
  size_t ls, lp;
  const char *s = luaL_checklstring(L, 1, &ls), *p = luaL_checklstring(L, 2, &lp);
  size_t init = start_position(luaL_optinteger(L, 3, 1), ls) - 1;
  if (init > ls) {
    lua_pushnil(L);
    return 1;
  }
  if (find && (lua_toboolean(L, 4) || !has_specials(p, lp)))
    return find_plain(L, s, ls, p, lp, init);
  Matcher m;
  bool anchor = *p == '^' && lp > 0;
  if (anchor) p++, lp--;
  start(&m, L, s, ls, p, lp);
  for (const char *at = s + init; at <= m.s_end; at++) {
    const char *e = match_again(&m, at, p);
    if (e && find) {
      lua_pushinteger(L, at - s + 1);
      lua_pushinteger(L, e - s);
      return push_captures(&m, NULL, NULL) + 2;
    }
    if (e) return push_captures(&m, at, e);
    if (anchor) break;
    step(&m, 1);
  }
  lua_pushnil(L);
  return 1;
}

static int l_find(lua_State *L) { return find_or_match(L, true); }
static int l_match(lua_State *L) { return find_or_match(L, false); }

/* ---- gmatch: upvalues subject, pattern, next start, end of the last match ----------- */

static int l_gmatch_next(lua_State *L) {
  size_t ls, lp;
  const char *s = lua_tolstring(L, lua_upvalueindex(1), &ls);
  const char *p = lua_tolstring(L, lua_upvalueindex(2), &lp);
  lua_Integer from = lua_tointeger(L, lua_upvalueindex(3)),
              last = lua_tointeger(L, lua_upvalueindex(4));
  Matcher m;
  start(&m, L, s, ls, p, lp);
  for (; from <= (lua_Integer)ls; from++) {
    const char *e = match_again(&m, s + from, p);
    step(&m, 1);
    if (!e || e - s == last) continue;
    lua_pushinteger(L, e - s);
    lua_copy(L, -1, lua_upvalueindex(3));
    lua_replace(L, lua_upvalueindex(4));
    return push_captures(&m, s + from, e);
  }
  return 0;
}

static int l_gmatch(lua_State *L) {
  size_t ls;
  luaL_checklstring(L, 1, &ls);
  luaL_checkstring(L, 2);
  size_t init = start_position(luaL_optinteger(L, 3, 1), ls) - 1;
  lua_settop(L, 2);
  lua_pushinteger(L, init > ls ? (lua_Integer)ls + 1 : (lua_Integer)init);
  lua_pushinteger(L, -1);
  lua_pushcclosure(L, l_gmatch_next, 4);
  return 1;
}

/* ---- gsub --------------------------------------------------------------------------- */

static void add_template(Matcher *m, luaL_Buffer *b, const char *s, const char *e) {
  size_t n;
  const char *r = lua_tolstring(m->L, 3, &n), *end = r + n;
  step(m, n);
  for (; r < end; r++) {
    if (*r != '%') {
      luaL_addchar(b, *r);
      continue;
    }
    r++;
    if (r < end && *r == '%') {
      luaL_addchar(b, '%');
    } else if (r < end && *r == '0') {
      luaL_addlstring(b, s, (size_t)(e - s));
    } else if (r < end && isdigit((unsigned char)*r)) {
      push_capture(m, *r - '1', s, e);
      luaL_tolstring(m->L, -1, NULL);
      lua_remove(m->L, -2);
      luaL_addvalue(b);
    } else {
      raise_new(m->L, GRPO_EARG, "invalid use of '%%' in replacement string");
    }
  }
}

/* Appends the replacement of the match s..e; returns false if the match stays as it is. */
static bool add_replacement(Matcher *m, luaL_Buffer *b, const char *s, const char *e, int type) {
  lua_State *L = m->L;
  if (type == LUA_TFUNCTION) {
    lua_pushvalue(L, 3);
    lua_call(L, push_captures(m, s, e), 1);
  } else if (type == LUA_TTABLE) {
    push_capture(m, 0, s, e);
    lua_gettable(L, 3);
  } else {
    add_template(m, b, s, e);
    return true;
  }
  if (!lua_toboolean(L, -1)) {
    lua_pop(L, 1);
    luaL_addlstring(b, s, (size_t)(e - s));
    return false;
  }
  if (!lua_isstring(L, -1))
    raise_new(L, GRPO_EARG, "invalid replacement value (a %s)", luaL_typename(L, -1));
  luaL_addvalue(b);
  return true;
}

static int l_gsub(lua_State *L) {
  size_t ls, lp;
  const char *s = luaL_checklstring(L, 1, &ls), *p = luaL_checklstring(L, 2, &lp), *last = NULL;
  int type = lua_type(L, 3);
  lua_Integer max = luaL_optinteger(L, 4, (lua_Integer)ls + 1), n = 0;
  if (type == LUA_TNUMBER) lua_tostring(L, 3), type = LUA_TSTRING;
  if (type != LUA_TSTRING && type != LUA_TTABLE && type != LUA_TFUNCTION)
    return type_error(L, 3, "string, function or table");
  bool anchor = lp > 0 && *p == '^', changed = false;
  if (anchor) p++, lp--;
  Matcher m;
  luaL_Buffer b;
  start(&m, L, s, ls, p, lp);
  make_room(L, 3 * ls);
  luaL_buffinit(L, &b);
  while (n < max) {
    const char *e = match_again(&m, s, p);
    step(&m, 1);
    if (e && e != last) {
      n++;
      if (add_replacement(&m, &b, s, e, type)) changed = true;
      s = last = e;
    } else if (s < m.s_end) {
      luaL_addchar(&b, *s++);
    } else {
      break;
    }
    if (anchor) break;
  }
  if (!changed) {
    lua_pushvalue(L, 1);
  } else {
    luaL_addlstring(&b, s, (size_t)(m.s_end - s));
    luaL_pushresult(&b);
  }
  lua_pushinteger(L, n);
  return 2;
}

const luaL_Reg bounded_matchers[] = {
    {"find", l_find}, {"match", l_match}, {"gmatch", l_gmatch}, {"gsub", l_gsub}, {NULL, NULL}};
