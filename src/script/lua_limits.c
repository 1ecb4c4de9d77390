#include "script/lua_limits.h"

#include "script/binding.h"

/* core.limits(limits) -> a userdata with these limits, so that many calls read the table once */
static int l_limits(lua_State *L) {
  Limits limits;
  check_limits(L, 1, &limits);
  *(Limits *)lua_newuserdatauv(L, sizeof limits, 0) = limits;
  luaL_newmetatable(L, LIMITS_TYPE);
  lua_setmetatable(L, -2);
  return 1;
}

/* core.limited(limits, name, f, ...) -> true, results... | false, error */
static int l_limited(lua_State *L) {
  Limits limits;
  check_limits(L, 1, &limits);
  const char *name = check_string(L, 2, NULL);
  if (lua_isnone(L, 3)) return type_error(L, 3, "function");
  bool ok = call_limited(L, &limits, name, lua_gettop(L) - 3, LUA_MULTRET);
  charge_work(L, 0); /* raises if the limited call around this one is at its end too */
  lua_pushboolean(L, ok);
  lua_replace(L, 2);
  return lua_gettop(L) - 1;
}

/* core.protected(f, ...) -> true, results... | false, error */
static int l_protected(lua_State *L) {
  luaL_checkany(L, 1);
  lua_pushboolean(L, 1);
  lua_insert(L, 1);
  if (call_protected(L, lua_gettop(L) - 2, LUA_MULTRET)) return lua_gettop(L);
  lua_pushboolean(L, 0);
  lua_insert(L, -2);
  return 2;
}

CORE_FUNCTIONS(limits, FN(limited), FN(limits), FN(protected))
