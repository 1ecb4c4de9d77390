/* tables.c - table.insert, remove, move, concat, unpack and sort in bounded time.
 *
 * Lua's functions loop over as many elements as a table says that it has, and one element may take
 * long: a chain of __index, a comparison of long strings.  Here are the same loops (Lua 5.4,
 * section 6.6), which are paid for before they begin and look at the clock on their way.  Upvalue 1
 * is Lua's own function (guard.c).
 */
#include "script/tables.h"

#include <limits.h>

#include "script/budget.h"

enum {
  LOOK = 64, /* elements between two looks, each as long as ELEMENT instructions */
  ELEMENT = 16
};

/* ---- arguments ---------------------------------------------------------------------- */

/* Argument arg must be a table, or have the metamethod that this use of it calls first. */
static void check_tab(lua_State *L, int arg, const char *event) {
  if (lua_istable(L, arg)) return;
  if (luaL_getmetafield(L, arg, event) == LUA_TNIL) luaL_checktype(L, arg, LUA_TTABLE);
  lua_pop(L, 1);
}

static lua_Integer length(lua_State *L) {
  check_tab(L, 1, "__len");
  return luaL_len(L, 1);
}

/* The number of whole numbers from first to last. */
static lua_Unsigned span(lua_Integer first, lua_Integer last) {
  return first > last ? 0 : (lua_Unsigned)last - (lua_Unsigned)first + 1;
}

/* Lua's own function, which raises the error for arguments that are wrong. */
static int refuse(lua_State *L) { return lua_tocfunction(L, lua_upvalueindex(1))(L); }

/* ---- moving ------------------------------------------------------------------------- */

static void look(lua_State *L, lua_Unsigned i) {
  if (i % LOOK == LOOK - 1) spend_time(L, LOOK * ELEMENT);
}

/* tab[t], tab[t+1], ... = t1[f], t1[f+1], ..., n elements, beginning with the first or the last. */
static void move(lua_State *L, lua_Integer f, lua_Unsigned n, int tab, lua_Integer t,
                 bool last_first) {
  for (lua_Unsigned i = 0; i < n; i++) {
    const lua_Integer k = (lua_Integer)(last_first ? n - 1 - i : i);
    look(L, i);
    lua_geti(L, 1, f + k);
    lua_seti(L, tab, t + k);
  }
}

static int l_insert(lua_State *L) {
  const lua_Integer end = (lua_Integer)((lua_Unsigned)length(L) + 1);
  lua_Integer at = end;
  charge_work(L, 4);
  if (lua_gettop(L) == 3) {
    at = luaL_checkinteger(L, 2);
    if ((lua_Unsigned)at - 1u >= (lua_Unsigned)end) return refuse(L);
    charge_work(L, span(at, end));
    move(L, at, (lua_Unsigned)end - (lua_Unsigned)at, 1, at + 1, true);
  } else if (lua_gettop(L) != 2) {
    return refuse(L);
  }
  lua_seti(L, 1, at);
  return 0;
}

static int l_remove(lua_State *L) {
  const lua_Integer size = length(L);
  lua_Integer at = luaL_optinteger(L, 2, size);
  if (at != size && (lua_Unsigned)at - 1u > (lua_Unsigned)size) return refuse(L);
  charge_work(L, 4 + span(at, size));
  lua_geti(L, 1, at); /* the result */
  if (at < size) {
    move(L, at + 1, (lua_Unsigned)size - (lua_Unsigned)at, 1, at, false);
    at = size;
  }
  lua_pushnil(L);
  lua_seti(L, 1, at);
  return 1;
}

static int l_move(lua_State *L) {
  const lua_Integer f = luaL_checkinteger(L, 2), e = luaL_checkinteger(L, 3),
                    t = luaL_checkinteger(L, 4);
  const int tab = lua_isnoneornil(L, 5) ? 1 : 5;
  check_tab(L, 1, "__index");
  check_tab(L, tab, "__newindex");
  if (e >= f) {
    luaL_argcheck(L, f > 0 || e < LUA_MAXINTEGER + f, 3, "too many elements to move");
    const lua_Integer n = e - f + 1;
    luaL_argcheck(L, t <= LUA_MAXINTEGER - n + 1, 4, "destination wrap around");
    charge_work(L, 4 + (lua_Unsigned)n);
    const bool last_first = t > f && t <= e && (tab == 1 || lua_compare(L, 1, tab, LUA_OPEQ));
    move(L, f, (lua_Unsigned)n, tab, t, last_first);
  }
  lua_pushvalue(L, tab);
  return 1;
}

/* ---- reading ------------------------------------------------------------------------ */

/* The result is built in a buffer that the collector does not see, so room is made for it first. */
static void room_for_concat(lua_State *L, size_t separator, lua_Integer first, lua_Integer last) {
  size_t total = 0;
  if (!lua_istable(L, 1)) return;
  for (lua_Unsigned i = 0, n = span(first, last); i < n; i++) {
    look(L, i);
    const int type = lua_rawgeti(L, 1, first + (lua_Integer)i);
    total += separator + (type == LUA_TNUMBER ? 24 : type == LUA_TSTRING ? lua_rawlen(L, -1) : 0);
    lua_pop(L, 1);
  }
  make_room(L, 2 * total);
}

static int l_concat(lua_State *L) {
  luaL_Buffer b;
  lua_Integer last = length(L);
  size_t size;
  const char *separator = luaL_optlstring(L, 2, "", &size);
  const lua_Integer first = luaL_optinteger(L, 3, 1);
  last = luaL_optinteger(L, 4, last);
  const lua_Unsigned n = span(first, last);
  charge_work(L, 4 + n);
  room_for_concat(L, size, first, last);
  lua_settop(L, 4);
  luaL_buffinit(L, &b);
  for (lua_Unsigned i = 0; i < n; i++) {
    look(L, i);
    if (i > 0) luaL_addlstring(&b, separator, size);
    lua_geti(L, 1, first + (lua_Integer)i);
    if (!lua_isstring(L, -1)) { /* Lua's function finds that, too, and nothing else */
      lua_pushinteger(L, first + (lua_Integer)i);
      lua_pushvalue(L, -1);
      lua_replace(L, 3);
      lua_replace(L, 4);
      return refuse(L);
    }
    luaL_addvalue(&b);
  }
  luaL_pushresult(&b);
  return 1;
}

static int l_unpack(lua_State *L) {
  const lua_Integer first = luaL_optinteger(L, 2, 1),
                    last = luaL_opt(L, luaL_checkinteger, 3, luaL_len(L, 1));
  const lua_Unsigned n = span(first, last);
  if (first > last) return 0;
  if (n == 0 || n >= (lua_Unsigned)INT_MAX || !lua_checkstack(L, (int)n))
    return luaL_error(L, "too many results to unpack");
  charge_work(L, 4 + 2 * n); /* twice, because the stack grows and shrinks */
  for (lua_Unsigned i = 0; i < n; i++) {
    look(L, i);
    lua_geti(L, 1, first + (lua_Integer)i);
  }
  return (int)n;
}

/* ---- sorting ------------------------------------------------------------------------ */

static size_t string_bytes(lua_State *L, int arg) {
  return lua_type(L, arg) == LUA_TSTRING ? lua_rawlen(L, arg) : 0;
}

/* (a, b) -> a < b; upvalue 1: a comparison in C, or nil */
static int l_before(lua_State *L) {
  const size_t a = string_bytes(L, 1), b = string_bytes(L, 2);
  lua_settop(L, 2);
  charge_work(L, (a < b ? a : b) / 16);
  spend_time(L, ELEMENT);
  if (lua_isnil(L, lua_upvalueindex(1))) {
    lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPLT));
    return 1;
  }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 2, 1);
  return 1;
}

/* Lua's own function sorts, because the order of equal elements is that of its algorithm. */
static int l_sort(lua_State *L) {
  const lua_Integer n = length(L);
  lua_Unsigned rounds = 0;
  for (lua_Integer rest = n; rest > 0; rest /= 2) rounds++;
  charge_work(L, 4);
  for (; rounds > 0; rounds--) charge_work(L, (lua_Unsigned)n);
  lua_settop(L, 2);
  if (lua_isnil(L, 2) || lua_iscfunction(L, 2)) lua_pushcclosure(L, l_before, 1);
  return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

const luaL_Reg bounded_tables[] = {{"insert", l_insert}, {"remove", l_remove}, {"move", l_move},
                                   {"concat", l_concat}, {"unpack", l_unpack}, {"sort", l_sort},
                                   {NULL, NULL}};
