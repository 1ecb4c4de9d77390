/* search.c - Lua's search for modules that are files, limited to regular files.
 *
 * Lua opens what it finds; if that is a named pipe, it waits until somebody writes to it.  We
 * change this in our own states only, because a host's package library belongs to the host.
 */
#include "script/search.h"

#include <lauxlib.h>
#include <lualib.h>
#include <string.h>
#include <unistd.h>

#include "os/file.h"
#include "script/errors.h"

/* Pushes the first readable file of `paths`, or nil and a text that lists them all. */
static int push_first(lua_State *L, const char *paths) {
  luaL_Buffer tried;
  luaL_buffinit(L, &tried);
  for (const char *end; *paths; paths = *end ? end + 1 : end) {
    end = strchrnul(paths, ';');
    lua_pushlstring(L, paths, (size_t)(end - paths));
    if (access(lua_tostring(L, -1), R_OK) == 0) return 1;
    lua_pushfstring(L, "%sno file '%s'", luaL_bufflen(&tried) ? "\n\t" : "", lua_tostring(L, -1));
    lua_remove(L, -2);
    luaL_addvalue(&tried);
  }
  luaL_pushresult(&tried);
  lua_pushnil(L);
  lua_insert(L, -2);
  return 2;
}

/* package.searchpath(name, path[, sep[, rep]]) */
static int l_searchpath(lua_State *L) {
  const char *name = luaL_checkstring(L, 1), *templates = luaL_checkstring(L, 2);
  const char *sep = luaL_optstring(L, 3, "."), *rep = luaL_optstring(L, 4, LUA_DIRSEP);
  if (*sep) name = luaL_gsub(L, name, sep, rep);
  return push_first(L, luaL_gsub(L, templates, "?", name));
}

/* Refuses what is not a regular file, then calls Lua's own searcher (upvalue 1), which loads it. */
static int l_search_files(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  lua_settop(L, 1);
  lua_pushcfunction(L, l_searchpath);
  lua_pushvalue(L, 1);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_getfield(L, -1, "package");
  if (!lua_istable(L, -1) || lua_getfield(L, -1, "path") != LUA_TSTRING)
    return luaL_error(L, "'package.path' must be a string");
  lua_replace(L, 4);
  lua_settop(L, 4);
  lua_call(L, 2, 1);
  const char *path = lua_tostring(L, -1);
  const Status s = path ? file_check_input(path) : GRPO_OK;
  if (s) return raise_new(L, s, "module '%s': %s", name, err_message());
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 1);
  lua_call(L, 1, LUA_MULTRET);
  return lua_gettop(L) - 2;
}

void search_open(lua_State *L) {
  enum { FILES = 2 }; /* after package.preload */
  lua_getglobal(L, LUA_LOADLIBNAME);
  lua_pushcfunction(L, l_searchpath);
  lua_setfield(L, -2, "searchpath");
  lua_getfield(L, -1, "searchers");
  lua_rawgeti(L, -1, FILES);
  lua_pushcclosure(L, l_search_files, 1);
  lua_rawseti(L, -2, FILES);
  lua_pop(L, 2);
}
