#include "script/environment.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

static const char environment_key; /* of the registry */

const char *const environment_libraries[] = {"coroutine", "string", "table", "utf8",
                                             "debug",     "os",     "math",  NULL};

void push_copy(lua_State *L, int index) {
  index = lua_absindex(L, index);
  lua_newtable(L);
  if (!lua_istable(L, index)) return;
  lua_pushnil(L);
  while (lua_next(L, index)) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
}

void environment_bind(lua_State *L) { lua_rawsetp(L, LUA_REGISTRYINDEX, &environment_key); }

void environment_enter(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &environment_key) == LUA_TNIL || !lua_setupvalue(L, -2, 1))
    lua_pop(L, 1);
}

void environment_push(lua_State *L, const char *name) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &environment_key) == LUA_TNIL) {
    lua_pop(L, 1);
    lua_pushglobaltable(L);
  }
  lua_getfield(L, -1, name);
  lua_remove(L, -2);
}

void push_module(lua_State *L, const char *name) {
  environment_push(L, "require");
  lua_pushstring(L, name);
  lua_call(L, 1, 1);
}

/* Gives the table on top a metatable whose __index and __newindex are the value at index. */
static void set_fallback(lua_State *L, int index) {
  index = lua_absindex(L, index);
  lua_createtable(L, 0, 3);
  lua_pushvalue(L, index);
  lua_setfield(L, -2, "__index");
  lua_pushvalue(L, index);
  lua_setfield(L, -2, "__newindex");
  lua_setmetatable(L, -2);
}

/* ---- package ------------------------------------------------------------------------ */

/* (package, name): the script's package.path, which is a text, whatever the script has made of it;
 * upvalue 1: its package */
static int l_package_index(lua_State *L) {
  static const char *const texts[] = {"path", "cpath", NULL};
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TSTRING) return 1;
  for (const char *const *name = texts; *name; name++)
    if (lua_type(L, 2) == LUA_TSTRING && strcmp(lua_tostring(L, 2), *name) == 0)
      lua_pushliteral(L, "");
  return 1;
}

/* Pushes our package: its functions and tables are ours, the paths and searchers those of the
 * script's, which is at index. */
static void push_package(lua_State *L, int index) {
  static const char *const ours[] = {"config", "loaded", "loadlib", "preload", "searchpath", NULL};
  lua_newtable(L);
  for (const char *const *name = ours; *name; name++) {
    lua_getfield(L, index, *name);
    lua_setfield(L, -2, *name);
  }
  set_fallback(L, index);
  lua_getmetatable(L, -1);
  lua_pushvalue(L, index);
  lua_pushcclosure(L, l_package_index, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

/* ---- methods of strings ------------------------------------------------------------- */

/* Strings share one metatable.  Its __index is our copy of the library, which looks further in the
 * script's `string`.  getmetatable("") gives a stand-in, in which __index reads as `string`; what a
 * script writes there takes effect, but another __index comes after our copy. */

/* (string, name); upvalues: our copy, the script's __index */
static int l_method(lua_State *L) {
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  lua_settop(L, 2);
  if (lua_isfunction(L, lua_upvalueindex(2))) {
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_insert(L, 1);
    lua_call(L, 2, 1);
  } else {
    lua_gettable(L, lua_upvalueindex(2));
  }
  return 1;
}

static bool is_key(lua_State *L, const char *name) {
  return lua_type(L, 2) == LUA_TSTRING && strcmp(lua_tostring(L, 2), name) == 0;
}

/* (stand-in, name) -> value; upvalues: the metatable, our copy, the script's `string` */
static int l_stand_in_index(lua_State *L) {
  lua_pushvalue(L, 2);
  lua_rawget(L, lua_upvalueindex(1));
  if (!is_key(L, "__index")) return 1;
  if (lua_rawequal(L, -1, lua_upvalueindex(2)))
    lua_pushvalue(L, lua_upvalueindex(3));
  else
    lua_getupvalue(L, -1, 2);
  return 1;
}

/* (stand-in, name, value); upvalues: as above */
static int l_stand_in_newindex(lua_State *L) {
  static const char *const ours[] = {"__metatable", "__name", "__tostring", NULL};
  for (const char *const *name = ours; *name; name++)
    if (is_key(L, *name))
      return luaL_error(L, "the field %s of the metatable of strings cannot be changed", *name);
  if (is_key(L, "__index")) {
    const bool usual = lua_isnil(L, 3) || lua_rawequal(L, 3, lua_upvalueindex(3));
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_insert(L, 3);
    if (usual)
      lua_settop(L, 3);
    else
      lua_pushcclosure(L, l_method, 2);
  }
  lua_rawset(L, lua_upvalueindex(1));
  return 0;
}

/* Our copy of the library and the script's `string` are on top, and are popped. */
static void open_methods(lua_State *L) {
  const int script = lua_gettop(L), own = script - 1, metatable = script + 2;
  lua_pushvalue(L, own);
  set_fallback(L, script);
  lua_settop(L, script);
  lua_pushliteral(L, "");
  lua_getmetatable(L, -1); /* own script "" metatable */
  lua_pushvalue(L, own);
  lua_setfield(L, metatable, "__index");
  static const luaL_Reg fields[] = {{"__index", l_stand_in_index},
                                    {"__newindex", l_stand_in_newindex}};
  lua_newtable(L);
  lua_createtable(L, 0, 3);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    lua_pushvalue(L, metatable);
    lua_pushvalue(L, own);
    lua_pushvalue(L, script);
    lua_pushcclosure(L, fields[i].func, 3);
    lua_setfield(L, -2, fields[i].name);
  }
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, -2);
  lua_setfield(L, metatable, "__metatable");
  lua_settop(L, own - 1);
}

/* ---- the whole ---------------------------------------------------------------------- */

void environment_open(lua_State *L, lua_CFunction require) {
  lua_pushglobaltable(L);
  const int globals = lua_gettop(L), env = globals + 1;
  push_copy(L, globals);
  set_fallback(L, globals);
  for (const char *const *name = environment_libraries; *name; name++) {
    lua_getfield(L, globals, *name);
    push_copy(L, -1);
    lua_setfield(L, env, *name);
    lua_pop(L, 1);
  }
  lua_getfield(L, globals, "io");
  push_copy(L, -1);
  lua_setfield(L, env, "io");
  lua_getfield(L, globals, "package");
  push_package(L, lua_gettop(L));
  lua_setfield(L, env, "package");
  lua_getfield(L, globals, "require");
  lua_pushcclosure(L, require, 1);
  lua_setfield(L, env, "require");
  lua_getfield(L, env, "string");
  lua_getfield(L, globals, "string");
  open_methods(L);
  lua_pushvalue(L, env);
  environment_bind(L);
  lua_settop(L, globals - 1);
}
