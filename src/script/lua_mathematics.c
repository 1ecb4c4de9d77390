/* lua_mathematics.c - math.exp, log, sin and others as in section 6.7 of Lua 5.4's manual, with the
 * functions of src/base: C's library rounds them differently from machine to machine.  Names that
 * Lua 5.3 had are among them, because some builds of Lua lack them. */
#include "script/lua_mathematics.h"

#include "base/exponential.h"
#include "base/trigonometry.h"
#include "script/binding.h"

#define ONE_ARGUMENT(name)                                                                         \
  static int l_##name(lua_State *L) { return give_number(L, math_##name(luaL_checknumber(L, 1))); }

ONE_ARGUMENT(exp)
ONE_ARGUMENT(sin)
ONE_ARGUMENT(cos)
ONE_ARGUMENT(tan)
ONE_ARGUMENT(asin)
ONE_ARGUMENT(acos)
ONE_ARGUMENT(log10)
ONE_ARGUMENT(sinh)
ONE_ARGUMENT(cosh)
ONE_ARGUMENT(tanh)

static int l_log(lua_State *L) {
  const double x = luaL_checknumber(L, 1);
  if (lua_isnoneornil(L, 2)) return give_number(L, math_log(x));
  const double base = luaL_checknumber(L, 2);
  if (base == 2) return give_number(L, math_log2(x));
  if (base == 10) return give_number(L, math_log10(x));
  return give_number(L, math_log(x) / math_log(base));
}

static int l_atan(lua_State *L) {
  const double y = luaL_checknumber(L, 1), x = luaL_optnumber(L, 2, 1);
  return give_number(L, math_atan2(y, x));
}

static int l_pow(lua_State *L) {
  const double x = luaL_checknumber(L, 1), y = luaL_checknumber(L, 2);
  return give_number(L, math_pow(x, y));
}

void mathematics_open(lua_State *L, int env) {
  static const luaL_Reg rows[] = {FN(exp),  FN(log),  FN(sin),  FN(cos), FN(tan),
                                  FN(asin), FN(acos), FN(atan), FN(pow), FN(log10),
                                  FN(sinh), FN(cosh), FN(tanh)};
  lua_getfield(L, env, "math");
  for (size_t i = 0; lua_istable(L, -1) && i < sizeof rows / sizeof *rows; i++) {
    lua_pushcfunction(L, rows[i].func);
    lua_setfield(L, -2, rows[i].name);
  }
  lua_pop(L, 1);
}
