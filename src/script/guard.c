/* guard.c - guarded versions of library functions, for limited code (see guard.h).
 *
 * They are installed once per state; in a host's state they live beside the originals
 * (foreign_vm.c).  Outside limited calls they behave exactly like the originals.
 */
#include "script/guard.h"

#include <lauxlib.h>
#include <lualib.h>
#include <string.h>

#include "base/mem.h"
#include "script/budget.h"
#include "script/errors.h"
#include "script/interrupt.h"
#include "script/match.h"
#include "script/tables.h"

/* Calls the replaced function, which is upvalue 1. */
static int call_original(lua_State *L) {
  lua_CFunction f = lua_tocfunction(L, lua_upvalueindex(1));
  return f(L);
}

/* The bytes of a string, or of a number, which becomes a string; 0 for another value. */
static size_t length_of(lua_State *L, int arg) {
  size_t n = 0;
  if (lua_isstring(L, arg)) lua_tolstring(L, arg, &n);
  return n;
}

/* The bytes of a string; 0 for another value, which stays as it is. */
static size_t string_bytes(lua_State *L, int arg) {
  return lua_type(L, arg) == LUA_TSTRING ? lua_rawlen(L, arg) : 0;
}

/* Reads an integer as the originals do: 2^50 and "7" count too. */
static lua_Integer integer_or(lua_State *L, int arg, lua_Integer otherwise) {
  int whole;
  const lua_Integer n = lua_tointegerx(L, arg, &whole);
  return whole ? n : otherwise;
}

/* ---- protected calls ---------------------------------------------------------------- */

static int finish_pcall(lua_State *L, int status, lua_KContext extra) {
  if (status == LUA_OK || status == LUA_YIELD) return lua_gettop(L) - (int)extra;
  if (budget_ended(L, status)) return lua_error(L);
  lua_pushboolean(L, 0);
  lua_insert(L, -2);
  return 2;
}

static int l_pcall(lua_State *L) {
  luaL_checkany(L, 1);
  lua_pushboolean(L, 1);
  lua_insert(L, 1);
  return finish_pcall(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, finish_pcall), 0);
}

static int l_handler(lua_State *L) {
  if (budget_spent(L)) return 1;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, 1);
  return 1;
}

static int l_xpcall(lua_State *L) {
  int n = lua_gettop(L);
  luaL_checktype(L, 2, LUA_TFUNCTION); /* f handler args */
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, l_handler, 1);
  lua_replace(L, 2);
  lua_pushboolean(L, 1);
  lua_pushvalue(L, 1);
  lua_rotate(L, 3, 2); /* f handler true f args */
  return finish_pcall(L, lua_pcallk(L, n - 2, LUA_MULTRET, 2, 2, finish_pcall), 2);
}

/* ---- coroutines, with the budget carried along --------------------------------------- */

/* Calls f of Lua's library, which runs the coroutine co and returns true, ... or false, error. */
static int run(lua_State *L, lua_State *co, lua_CFunction f) {
  lua_State *before = enter_thread(L, co);
  lua_State *outer = interrupt_target(co);
  const int n = f(L);
  interrupt_target(outer);
  leave_thread(L, before);
  if (!lua_toboolean(L, -n) && budget_ended(L, lua_status(co))) return lua_error(L);
  return n;
}

static int l_resume(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  return co ? run(L, co, lua_tocfunction(L, lua_upvalueindex(1))) : call_original(L);
}

/* Upvalues: the coroutine, Lua's coroutine.resume. */
static int l_wrapped(lua_State *L) {
  lua_State *co = lua_tothread(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  const int n = run(L, co, lua_tocfunction(L, lua_upvalueindex(2)));
  if (lua_toboolean(L, -n)) return n - 1;
  int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_State *before = enter_thread(L, co);
    status = lua_resetthread(co); /* closes the coroutine's variables */
    leave_thread(L, before);
    lua_xmove(co, L, 1);
  }
  if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

/* Upvalue 2: Lua's coroutine.resume. */
static int l_wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushcclosure(L, l_wrapped, 2);
  return 1;
}

/* May co be closed?  If not, the original raises an error. */
static bool is_idle(lua_State *L, lua_State *co) {
  lua_Debug ar;
  return co && co != L && (lua_status(co) != LUA_OK || !lua_getstack(co, 0, &ar));
}

/* coroutine.close runs what closes the variables of the coroutine. */
static int l_close(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  if (!is_limited(L) || !is_idle(L, co)) return call_original(L);
  return run(L, co, lua_tocfunction(L, lua_upvalueindex(1)));
}

/* ---- strings that are made ---------------------------------------------------------- */

/* Functions that build their result in a buffer, which the collector does not see.  Upvalue 2: how
 * often the buffer and the result together hold the bytes of the arguments. */
static int l_build(lua_State *L) {
  if (is_limited(L)) {
    size_t n = 0;
    for (int i = lua_gettop(L); i > 0; i--) n += string_bytes(L, i);
    charge_work(L, 8 + n / 16);
    make_room(L, n * (size_t)lua_tointeger(L, lua_upvalueindex(2)));
  }
  return call_original(L);
}

static int l_rep(lua_State *L) {
  size_t l = length_of(L, 1), lsep = length_of(L, 3);
  const lua_Integer n = integer_or(L, 2, 0);
  if (!lua_isstring(L, 1) || !(lua_isnoneornil(L, 3) || lua_isstring(L, 3)))
    return call_original(L);    /* it raises the error */
  if (n > 0 && l + lsep == 0) { /* the original would loop n times */
    lua_pushliteral(L, "");
    return 1;
  }
  if (n > 0 && is_limited(L) && (lua_Unsigned)n < MEM_MOST / (l + lsep)) {
    make_room(L, (size_t)n * (l + lsep));
    charge_work(L, 8 + (size_t)n);
  }
  return call_original(L);
}

/* Upvalue 2: the replacement that runs in bounded time. */
static int l_bounded(lua_State *L) {
  if (!is_limited(L)) return call_original(L);
  lua_CFunction f = lua_tocfunction(L, lua_upvalueindex(2));
  return f(L);
}

/* ---- refusals ----------------------------------------------------------------------- */

static int l_refuse(lua_State *L) {
  if (is_limited(L))
    return raise_new(L, GRPO_ELIMIT, "%s is not available in rewards, schedules and hooks",
                     lua_tostring(L, lua_upvalueindex(2)));
  return call_original(L);
}

static int l_setmetatable(lua_State *L) {
  if (lua_istable(L, 2) && is_limited(L)) {
    lua_pushliteral(L, "__gc");
    if (lua_rawget(L, 2) != LUA_TNIL)
      return raise_new(L, GRPO_ELIMIT,
                       "finalizers (__gc) are not available in rewards, schedules and hooks");
    lua_pop(L, 1);
  }
  return call_original(L);
}

/* The function that reads a chunk, whose pieces are charged for; upvalue 1: the script's. */
static int l_reader(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_call(L, 0, 1);
  charge_work(L, 8 + string_bytes(L, -1));
  return 1;
}

/* load returns errors of the function that reads the chunk, and of memory. */
static int l_load(lua_State *L) {
  if (!is_limited(L)) return call_original(L);
  charge_work(L, 100 + string_bytes(L, 1));
  if (lua_gettop(L) < 3) lua_settop(L, 3);
  lua_pushliteral(L, "t");
  lua_replace(L, 3);
  if (lua_isfunction(L, 1)) {
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, l_reader, 1);
    lua_replace(L, 1);
  }
  const int n = call_original(L);
  if (lua_isnil(L, -n) && budget_ended(L, LUA_OK)) return lua_error(L);
  return n;
}

static int l_tonumber(lua_State *L) {
  if (is_limited(L)) charge_work(L, 1 + string_bytes(L, 1) / 4);
  return call_original(L);
}

static int l_collectgarbage(lua_State *L) {
  if (is_limited(L) && !(lua_isstring(L, 1) && strcmp(lua_tostring(L, 1), "count") == 0)) {
    charge_work(L, 8);
    lua_pushinteger(L, 0);
    return 1;
  }
  return call_original(L);
}

/* ---- installation ------------------------------------------------------------------- */

/* Replaces NAME in the table at index `library` by a closure of f over the original and the nextra
 * values on top, which are popped. */
static void replace(lua_State *L, int library, const char *name, lua_CFunction f, int nextra) {
  if (lua_getfield(L, library, name) == LUA_TNIL || !lua_iscfunction(L, -1)) {
    lua_pop(L, 1 + nextra); /* a host has removed it, or has its own */
    return;
  }
  lua_insert(L, -1 - nextra);
  lua_pushcclosure(L, f, 1 + nextra);
  lua_setfield(L, library, name);
}

static void guard_coroutines(lua_State *L, int lib) {
  if (lua_getfield(L, lib, "resume") == LUA_TFUNCTION && lua_iscfunction(L, -1))
    replace(L, lib, "wrap", l_wrap, 1);
  replace(L, lib, "resume", l_resume, 0);
  replace(L, lib, "close", l_close, 0);
}

static void guard_strings(lua_State *L, int lib) {
  static const struct {
    const char *name;
    int times;
  } rows[] = {{"upper", 2}, {"lower", 2}, {"reverse", 2}, {"format", 1}, {"pack", 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    lua_pushinteger(L, rows[i].times);
    replace(L, lib, rows[i].name, l_build, 1);
  }
  for (const luaL_Reg *r = bounded_matchers; r->name; r++) {
    if (strcmp(r->name, "gmatch") == 0) { /* an iterator may be made outside and used inside */
      lua_pushcfunction(L, r->func);
      lua_setfield(L, lib, r->name);
      continue;
    }
    lua_pushcfunction(L, r->func);
    replace(L, lib, r->name, l_bounded, 1);
  }
  replace(L, lib, "rep", l_rep, 0);
}

static void guard_tables(lua_State *L, int lib) {
  for (const luaL_Reg *r = bounded_tables; r->name; r++) {
    lua_pushcfunction(L, r->func);
    replace(L, lib, r->name, l_bounded, 1);
  }
}

static void refuse(lua_State *L, int env, const char *library, const char *const *names) {
  lua_getfield(L, env, library);
  for (; *names; names++) {
    lua_pushfstring(L, "%s.%s", library, *names);
    replace(L, lua_gettop(L) - 1, *names, l_refuse, 1);
  }
  lua_pop(L, 1);
}

void guard_open(lua_State *L, int env) {
  static const char *const debug_names[] = {"sethook",    "setmetatable", "getregistry",
                                            "getupvalue", "setupvalue",   "upvaluejoin",
                                            "setlocal",   "setuservalue", NULL};
  static const char *const os_names[] = {"exit", NULL};
  int base = lua_gettop(L);
  replace(L, env, "pcall", l_pcall, 0);
  replace(L, env, "xpcall", l_xpcall, 0);
  replace(L, env, "setmetatable", l_setmetatable, 0);
  replace(L, env, "load", l_load, 0);
  replace(L, env, "tonumber", l_tonumber, 0);
  replace(L, env, "collectgarbage", l_collectgarbage, 0);
  lua_getfield(L, env, "coroutine");
  guard_coroutines(L, lua_gettop(L));
  lua_getfield(L, env, "string");
  guard_strings(L, lua_gettop(L));
  lua_getfield(L, env, "table");
  guard_tables(L, lua_gettop(L));
  lua_settop(L, base);
  refuse(L, env, "debug", debug_names);
  refuse(L, env, "os", os_names);
}
