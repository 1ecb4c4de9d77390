#include "script/lua_errors.h"

#include <string.h>

#include "base/nearest.h"
#include "script/binding.h"

static int l_tostring(lua_State *L) {
  if (!lua_istable(L, 1)) return type_error(L, 1, ERROR_TYPE);
  lua_getfield(L, 1, "message");
  if (!lua_isstring(L, -1)) lua_pushliteral(L, "(error without a message)");
  return 1;
}

static int l_concat(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  luaL_tolstring(L, 2, NULL);
  lua_concat(L, 2);
  return 1;
}

/* ---- strict globals ----------------------------------------------------------------- */

/* Pushes the string key of the table at index that is closest to name, or nil. */
static void push_nearest_key(lua_State *L, int index, const char *name) {
  int least = 2 + (int)strnlen(name, 64) / 3;
  index = lua_absindex(L, index);
  lua_pushnil(L); /* best */
  lua_pushnil(L); /* key */
  while (lua_next(L, index)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) != LUA_TSTRING) continue;
    const char *key = lua_tostring(L, -1);
    int d = name_distance(name, key);
    if (d < least || (d == least && lua_isstring(L, -2) && strcmp(key, lua_tostring(L, -2)) < 0)) {
      least = d;
      lua_pushvalue(L, -1);
      lua_replace(L, -3);
    }
  }
}

static int strict_fail(lua_State *L, const char *what, int env) {
  const char *name = luaL_tolstring(L, 2, NULL), *near = NULL;
  push_nearest_key(L, env, name);
  near = lua_tostring(L, -1);
  return raise_new(L, GRPO_EARG, "%s '%s'%s%s%s", what, name, near ? ", did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
}

/* (env, name); upvalue 1: the names declared so far, 2: nil, or a table to look further */
static int l_strict_index(lua_State *L) {
  if (!lua_isnil(L, lua_upvalueindex(2))) {
    lua_pushvalue(L, 2);
    if (lua_gettable(L, lua_upvalueindex(2)) != LUA_TNIL) return 1;
  }
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) { /* the name was declared and holds nil */
    lua_pushnil(L);
    return 1;
  }
  bool own = lua_isnil(L, lua_upvalueindex(2));
  return strict_fail(L, "undefined global", own ? 1 : lua_upvalueindex(2));
}

static int l_strict_newindex(lua_State *L) {
  lua_Debug ar;
  if (lua_getstack(L, 1, &ar)) {
    lua_getinfo(L, "S", &ar);
    if (strcmp(ar.what, "Lua") == 0)
      return raise_new(L, GRPO_EARG,
                       "assignment to the new global '%s' inside a function; write 'local %s', "
                       "or assign it once at the top of the script",
                       luaL_tolstring(L, 2, NULL), lua_tostring(L, 2));
  }
  lua_pushvalue(L, 2);
  lua_pushboolean(L, 1);
  lua_rawset(L, lua_upvalueindex(1));
  lua_settop(L, 3);
  lua_rawset(L, 1);
  return 0;
}

/* core.strict(env[, base]) -> env, which from now on raises if an undefined name is read, or if a
 * function makes a new one */
static int l_strict(lua_State *L) {
  check_table(L, 1);
  lua_settop(L, 2);
  if (!lua_isnil(L, 2)) check_table(L, 2);
  lua_createtable(L, 0, 3); /* env base mt */
  lua_newtable(L);          /* env base mt declared */
  lua_pushvalue(L, 4);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, l_strict_index, 2);
  lua_setfield(L, 3, "__index");
  lua_pushvalue(L, 4);
  lua_pushcclosure(L, l_strict_newindex, 1);
  lua_setfield(L, 3, "__newindex");
  lua_pushvalue(L, 3);
  lua_setmetatable(L, 1);
  lua_settop(L, 1);
  return 1;
}

/* ---- core functions ----------------------------------------------------------------- */

static Status status_of(const char *name) {
  for (int s = 0; s < GRPO_NSTATUS; s++)
    if (name && strcmp(status_name((Status)s), name) == 0) return (Status)s;
  return GRPO_OK;
}

static int l_status_exit(lua_State *L) {
  int code = 1;
  if (lua_istable(L, 1) && lua_getfield(L, 1, "code") == LUA_TSTRING) {
    Status s = status_of(lua_tostring(L, -1));
    if (s != GRPO_OK) code = status_exit(s);
  }
  return give_integer(L, code);
}

/* core.fail(code, message): raises an error object at the user's line */
static int l_fail(lua_State *L) {
  Status s = status_of(check_string(L, 1, NULL));
  if (s == GRPO_OK) return arg_error(L, 1, "unknown error code '%s'", lua_tostring(L, 1));
  push_error(L, s, check_string(L, 2, NULL));
  return lua_error(L);
}

/* core.error(code, message) -> an error object without a position */
static int l_error(lua_State *L) {
  Status s = status_of(check_string(L, 1, NULL));
  if (s == GRPO_OK) return arg_error(L, 1, "unknown error code '%s'", lua_tostring(L, 1));
  check_string(L, 2, NULL);
  push_error(L, s, "");
  lua_pushvalue(L, 2);
  lua_setfield(L, -2, "message");
  return 1;
}

static int l_where(lua_State *L) {
  int level = lua_isnoneornil(L, 1) ? 1 : (int)check_integer(L, 1, 1, 1000);
  push_where(L, level);
  if (strcmp(lua_tostring(L, -1), "?") == 0) lua_pushnil(L); /* no code of the user's is running */
  return 1;
}

static const luaL_Reg functions[] = {FN(error),  FN(fail),  FN(status_exit),
                                     FN(strict), FN(where), {NULL, NULL}};

CORE_PART(errors) { luaL_setfuncs(L, functions, 0); }

void errors_open_type(lua_State *L) {
  static const luaL_Reg meta[] = {META(tostring), META(concat), {NULL, NULL}};
  luaL_newmetatable(L, ERROR_TYPE);
  luaL_setfuncs(L, meta, 0);
  seal_type(L);
  lua_pop(L, 1);
}
