/* foreign_vm.c - running in a Lua state that belongs to a host program.
 *
 * `require "grpo"` in a stock Lua adds modules and changes nothing else: the host's globals,
 * allocator and hooks stay as they are.  The guarded library functions (guard.c) live in an
 * environment of their own, and the Lua half runs in that environment.  Only while a limited call
 * runs do they also replace the originals in the host's library tables, so that a reward which the
 * host wrote calls them too; during that time an allocator that counts wraps the host's.  A library
 * function that the host has replaced by a Lua function is never touched.
 *
 * A reward that took a function into a local before the call (`local find = string.find`) still
 * calls the original.  core.guard() therefore puts the guarded functions into the host's tables for
 * good; it is called before such files are loaded.
 */
#include "script/foreign_vm.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "script/binding.h"
#include "script/environment.h"
#include "script/guard.h"
#include "script/lua_mathematics.h"
#include "script/lua_random.h"
#include "script/register.h"
#include "script/script_impl.h"

/* ---- blocks made by the running limited calls --------------------------------------- */

struct ForeignVm {
  lua_Alloc allocate; /* the host's */
  void *ud;
  Map blocks;   /* from an address to the limited call that allocated it */
  int swaps;    /* registry reference: the rows to swap */
  bool guarded; /* core.guard() was called */
};

static void forget_blocks(Map *blocks) {
  enum { LARGEST_TO_KEEP = 1 << 14 };
  if (blocks->size > LARGEST_TO_KEEP)
    map_free(blocks);
  else if (blocks->count)
    map_clear(blocks);
}

/* The state's allocator while limited calls run; it decides as the one in lua_vm.c does. */
static void *allocate_counted(void *ud, void *p, size_t osize, size_t nsize) {
  Script *s = ud;
  ForeignVm *g = s->foreign;
  Budget *b = s->budget;
  size_t held = p ? osize : 0; /* for a new block osize is the kind of object */
  MapEntry *block = p ? map_find(&g->blocks, (uintptr_t)p) : NULL;
  uint64_t tag = block ? block->value : p || !b ? 0 : b->tag;
  bool own = b && tag == b->tag;
  if (nsize == 0) {
    if (own) b->held -= held < b->held ? held : b->held;
    if (block) map_remove(&g->blocks, block);
    return g->allocate(g->ud, p, osize, 0);
  }
  if (b && nsize > held && budget_refuses(b, nsize - held, nsize)) return NULL;
  if (!p && tag && map_reserve(&g->blocks, g->blocks.count + 1) != GRPO_OK) return NULL;
  void *q = g->allocate(g->ud, p, osize, nsize);
  if (!q) return NULL;
  if (block) map_remove(&g->blocks, block);
  if (tag) map_add(&g->blocks, (uintptr_t)q, tag);
  if (b && nsize > held) {
    b->held += nsize - held;
    if (!own) b->grown += nsize - held;
    budget_allocated(b, p ? 0 : (int)osize, nsize);
  } else if (b) {
    budget_shrunk(b, own, held - nsize);
  }
  return q;
}

/* ---- the guarded environment, and the host's tables --------------------------------- */

/* Pushes the raw field of the table at index. */
static void push_raw(lua_State *L, int index, const char *name) {
  index = lua_absindex(L, index);
  lua_pushstring(L, name);
  lua_rawget(L, index);
}

/* Pushes the environment: guarded copies of the library tables; everything else is the host's. */
static void push_environment(lua_State *L) {
  static const char *const base[] = {"pcall",          "xpcall", "setmetatable", "load", "tonumber",
                                     "collectgarbage", NULL};
  lua_pushglobaltable(L);
  int globals = lua_gettop(L);
  lua_newtable(L); /* globals env */
  for (const char *const *name = base; *name; name++) {
    push_raw(L, globals, *name);
    lua_setfield(L, -2, *name);
  }
  for (const char *const *name = environment_libraries; *name; name++) {
    push_raw(L, globals, *name);
    push_copy(L, -1);
    lua_setfield(L, globals + 1, *name);
    lua_pop(L, 1);
  }
  guard_open(L, globals + 1);
  seeded_random_open(L, globals + 1);
  mathematics_open(L, globals + 1);
  lua_createtable(L, 0, 2);
  lua_pushvalue(L, globals);
  lua_setfield(L, -2, "__index");
  lua_pushvalue(L, globals);
  lua_setfield(L, -2, "__newindex");
  lua_setmetatable(L, globals + 1);
  lua_remove(L, globals);
}

/* Appends a row (table, key, host's function, guarded function) to the list at `rows` for every C
 * function in which the tables at `host` and `guarded` differ. */
static void add_swaps(lua_State *L, int rows, int host, int guarded) {
  lua_pushnil(L);
  while (lua_next(L, guarded)) { /* key guarded */
    lua_pushvalue(L, -2);
    lua_rawget(L, host); /* key guarded original */
    if (lua_isfunction(L, -2) && lua_iscfunction(L, -1) && !lua_rawequal(L, -1, -2)) {
      lua_Integer n = (lua_Integer)lua_rawlen(L, rows);
      const int from[] = {host, lua_gettop(L) - 2, lua_gettop(L), lua_gettop(L) - 1};
      for (int i = 0; i < 4; i++) {
        lua_pushvalue(L, from[i]);
        lua_rawseti(L, rows, n + 1 + i);
      }
    }
    lua_pop(L, 2);
  }
}

/* The environment is on top; pushes the list of rows. */
static void push_swaps(lua_State *L) {
  int env = lua_gettop(L);
  lua_newtable(L);
  lua_pushglobaltable(L); /* env rows globals */
  add_swaps(L, env + 1, env + 2, env);
  for (const char *const *name = environment_libraries; *name; name++) {
    push_raw(L, env + 2, *name);
    push_raw(L, env, *name);
    if (lua_istable(L, -2)) add_swaps(L, env + 1, env + 3, env + 4);
    lua_pop(L, 2);
  }
  lua_pop(L, 1);
}

/* Replaces the functions of column `from` by those of column `to` (3: the host's, 4: guarded) where
 * the tables still hold them.  This allocates nothing, because every key exists. */
static void swap(lua_State *L, const ForeignVm *g, int from, int to) {
  lua_rawgeti(L, LUA_REGISTRYINDEX, g->swaps);
  int rows = lua_gettop(L);
  for (lua_Integer i = 0, n = (lua_Integer)lua_rawlen(L, rows); i < n; i += 4) {
    lua_rawgeti(L, rows, i + 1); /* table */
    lua_rawgeti(L, rows, i + 2); /* table key */
    lua_pushvalue(L, -1);
    lua_rawget(L, -3); /* table key now */
    lua_rawgeti(L, rows, i + from);
    if (lua_rawequal(L, -1, -2)) {
      lua_settop(L, rows + 2);
      lua_rawgeti(L, rows, i + to);
      lua_rawset(L, rows + 1);
    }
    lua_settop(L, rows);
  }
  lua_pop(L, 1);
}

static void enter_limited(lua_State *L, Script *s) {
  ForeignVm *g = s->foreign;
  luaL_checkstack(L, 10, "call");
  if (!g->guarded) swap(L, g, 3, 4);
  g->allocate = lua_getallocf(L, &g->ud);
  lua_setallocf(L, allocate_counted, s);
}

static void leave_limited(lua_State *L, Script *s) {
  ForeignVm *g = s->foreign;
  lua_setallocf(L, g->allocate, g->ud);
  forget_blocks(&g->blocks);
  if (!g->guarded) swap(L, g, 4, 3);
}

/* core.guard(): files that are loaded from now on see the guarded functions. */
static int l_guard(lua_State *L) {
  Script *s = script_of(L);
  if (!s->foreign || s->foreign->guarded) return 0;
  if (!s->budget) swap(L, s->foreign, 3, 4);
  s->foreign->guarded = true;
  return 0;
}

/* core.is_guest() -> whether the Lua state belongs to a host */
static int l_is_guest(lua_State *L) { return give_boolean(L, script_of(L)->foreign != NULL); }

CORE_FUNCTIONS(foreign, FN(guard), FN(is_guest))

/* ---- attaching and closing ---------------------------------------------------------- */

/* The Script's finalizer is the last of ours when the state is closed, because the Script was made
 * first.  A host's finalizer may still call us later; whatever needs the pool then raises an
 * error. */
static int l_close(lua_State *L) {
  Script *s = lua_touserdata(L, 1);
  if (s->closed) return 0;
  s->closed = true;
  script_release(s);
  map_free(&s->foreign->blocks);
  return 0;
}

static Script *push_script(lua_State *L, const EmbeddedFile *files, lua_CFunction core) {
  Script *s = lua_newuserdatauv(L, sizeof *s + sizeof(ForeignVm), 0);
  memset(s, 0, sizeof *s + sizeof(ForeignVm));
  script_init(s, L, files, core);
  s->foreign = (ForeignVm *)(s + 1);
  s->foreign->swaps = LUA_NOREF;
  s->enter_limited = enter_limited;
  s->leave_limited = leave_limited;
  set_gc(L, "grpo.Script", l_close);
  return s;
}

void script_attach(lua_State *L, const EmbeddedFile *files, lua_CFunction core) {
  static const char another[] = "grpo: another copy of grpo is already loaded in this Lua state";
  if (script_of(L)) {
    script_complete(L);
    return;
  }
  if (luaL_getmetatable(L, ERROR_TYPE) != LUA_TNIL) luaL_error(L, another);
  lua_pop(L, 1);
  luaL_checkstack(L, 20, "grpo");
  Script *s = push_script(L, files, core);
  push_environment(L);
  push_swaps(L);
  s->foreign->swaps = luaL_ref(L, LUA_REGISTRYINDEX);
  environment_bind(L);
  script_register(L);
}
