/* modules.c - finding the modules of the Lua half: the embedded file lua/grpo/x.lua is grpo.x, and
 * rewards/x.lua is rewards.x.  Files below the directory GRPO_LUA replace embedded ones. */
#include "script/modules.h"

#include <string.h>

#include "os/file.h"
#include "script/binding.h"
#include "script/environment.h"
#include "script/script_impl.h"

static const char *const roots[] = {"lua/", ""};

/* Pushes the source of an embedded file, or of its replacement below GRPO_LUA; returns false if
 * there is neither. */
static bool push_source(lua_State *L, const char *path) {
  Script *s = script_of(L);
  const EmbeddedFile *f = script_embedded(L, path, strlen(path));
  if (s->override) {
    lua_pushfstring(L, "%s/%s", s->override, f ? f->path : path);
    Buf *b = push_buf(L);
    if (file_exists(lua_tostring(L, -2)) && !file_read(lua_tostring(L, -2), 0, b)) {
      push_bytes(L, b);
      return true;
    }
    lua_pop(L, 2);
  }
  if (f) lua_pushlstring(L, f->data, f->size);
  return f != NULL;
}

bool script_push_module(lua_State *L, const char *name) {
  int top = lua_gettop(L);
  for (size_t i = 0; i < 4; i++) {
    lua_settop(L, top);
    luaL_gsub(L, name, ".", "/");
    lua_pushfstring(L, "%s%s%s.lua", roots[i / 2], lua_tostring(L, -1), i % 2 ? "/init" : "");
    const char *path = lua_tostring(L, top + 2);
    if (!push_source(L, path)) continue;
    size_t n;
    const char *source = lua_tolstring(L, -1, &n);
    if (luaL_loadbufferx(L, source, n, lua_pushfstring(L, "@%s", path), "t") != LUA_OK)
      lua_error(L);
    environment_enter(L);
    lua_replace(L, top + 1); /* loader path ... */
    lua_settop(L, top + 2);
    return true;
  }
  lua_settop(L, top);
  return false;
}

bool modules_push_own(lua_State *L, const char *name) {
  return strncmp(name, "grpo", 4) == 0 && (name[4] == '.' || name[4] == '\0') &&
         script_push_module(L, name);
}

/* One of package.searchers: (name) -> loader, path | message */
static int l_search_embedded(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  if (script_push_module(L, name)) return 2;
  lua_pushfstring(L, "no embedded module '%s'", name);
  return 1;
}

int modules_require(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  lua_settop(L, 1);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE); /* name preload loaded */
  lua_getfield(L, 2, name);
  lua_getfield(L, 3, name);
  if (!lua_isnil(L, 4) || lua_toboolean(L, 5) || !modules_push_own(L, name)) {
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_pushvalue(L, 1);
    lua_call(L, 1, LUA_MULTRET);
    return lua_gettop(L) - 5;
  }
  lua_insert(L, 6); /* ... path loader */
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 6);
  lua_call(L, 2, 1); /* ... path value */
  if (lua_isnil(L, 7)) {
    lua_pushboolean(L, 1);
    lua_replace(L, 7);
  }
  lua_pushvalue(L, 7);
  lua_setfield(L, 3, name);
  lua_insert(L, 6);
  return 2;
}

void modules_add_searcher(lua_State *L) {
  enum { AFTER = 2 }; /* package.preload and package.path */
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, "package") != LUA_TTABLE ||
      lua_getfield(L, -1, "searchers") != LUA_TTABLE)
    luaL_error(L, "grpo needs Lua's package library");
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1), at = n < AFTER ? n : AFTER;
  for (lua_Integer i = n; i > at; i--) {
    lua_rawgeti(L, -1, i);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pushcfunction(L, l_search_embedded);
  lua_rawseti(L, -2, at + 1);
  lua_pop(L, 3);
}

static int l_embedded(lua_State *L) {
  const char *path = check_string(L, 1, NULL);
  if (!push_source(L, path)) lua_pushnil(L);
  return 1;
}

static int l_embedded_names(lua_State *L) {
  const EmbeddedFile *f = script_of(L)->files;
  lua_newtable(L);
  for (lua_Integer i = 1; f && f->name; f++, i++) {
    lua_pushstring(L, f->name);
    lua_rawseti(L, -2, i);
  }
  return 1;
}

CORE_FUNCTIONS(modules, FN(embedded), FN(embedded_names))
