/* lua_vm.c - the Lua state: its memory, its libraries, where modules are found. */
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/file.h"
#include "script/script.h"
#include "script/script_impl.h"

/* ---- memory ------------------------------------------------------------------------- */

/* In front of every block of Lua's: the limited call it was made in (0: none). */
typedef struct BlockHead {
  uint64_t tag;
} BlockHead;

/* A refused allocation makes Lua collect everything and ask again; asking twice costs the budget
 * what the collection took, so that a loop of failures ends. */
bool budget_refuses(Budget *b, size_t more, size_t nsize) {
  enum { COLLECTION = 200000 };
  if (!b->quota || b->lifted || (more <= b->quota && b->held <= b->quota - more)) {
    b->wanted = 0;
    return false;
  }
  if (b->wanted == nsize && b->left != UINT64_MAX)
    b->left -= b->left < COLLECTION ? b->left : COLLECTION;
  b->wanted = b->wanted == nsize ? 0 : nsize;
  return b->refused = true;
}

static void *allocate(void *ud, void *p, size_t osize, size_t nsize) {
  Script *s = ud;
  Budget *b = s->budget;
  BlockHead *head = p ? (BlockHead *)p - 1 : NULL;
  if (!p) osize = 0;
  bool own = b && (!p || head->tag == b->tag);
  if (nsize == 0) {
    if (own) b->held -= osize < b->held ? osize : b->held;
    s->lua_bytes -= osize;
    mem_raw(head, 0);
    return NULL;
  }
  if (b && nsize > osize && budget_refuses(b, nsize - osize, nsize)) return NULL;
  head = mem_raw(head, nsize + sizeof *head);
  if (!head) return NULL;
  if (!p) head->tag = b ? b->tag : 0;
  if (b && nsize > osize)
    b->held += nsize - osize; /* growth counts, whoever made the block */
  else if (own)
    b->held -= osize - nsize < b->held ? osize - nsize : b->held;
  s->lua_bytes += nsize - osize;
  return head + 1;
}

/* ---- modules ------------------------------------------------------------------------ */

static const char *const roots[] = {"lua/",
                                    ""}; /* lua/grpo/x.lua is grpo.x, rewards/x.lua is rewards.x */

const EmbeddedFile *script_embedded(lua_State *L, const char *name, size_t len) {
  const EmbeddedFile *f = script_of(L)->files;
  for (; f && f->name; f++)
    if (strlen(f->name) == len && memcmp(f->name, name, len) == 0) return f;
  return NULL;
}

/* Source of an embedded file, or of its replacement below GRPO_LUA; false when there is neither.
 * Pushes the source. */
static bool push_source(lua_State *L, const char *path) {
  Script *s = script_of(L);
  if (s->override) {
    lua_pushfstring(L, "%s/%s", s->override, path);
    Buf *b = push_buf(L);
    if (file_exists(lua_tostring(L, -2)) && !file_read(lua_tostring(L, -2), 0, b)) {
      lua_pushlstring(L, b->data ? b->data : "", b->len);
      return true;
    }
    lua_pop(L, 2);
  }
  const EmbeddedFile *f = script_embedded(L, path, strlen(path));
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
    guest_set_environment(L, script_of(L));
    lua_replace(L, top + 1); /* loader path ... */
    lua_settop(L, top + 2);
    return true;
  }
  lua_settop(L, top);
  return false;
}

/* One of package.searchers: (name) -> loader, path | message */
static int search_embedded(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  if (script_push_module(L, name)) return 2;
  lua_pushfstring(L, "no embedded module '%s'", name);
  return 1;
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

const luaL_Reg host_functions[] = {
    {"embedded", l_embedded}, {"embedded_names", l_embedded_names}, {NULL, NULL}};

/* ---- the state ---------------------------------------------------------------------- */

static const char script_key;

Script *script_of(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &script_key);
  Script *s = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return s;
}

lua_State *script_state(Script *s) { return s->L; }

void check_not_closed(lua_State *L) {
  if (script_of(L)->closed) raise_new(L, GRPO_ESTALE, "grpo: its Lua state is being closed");
}

Pool *script_pool(lua_State *L) {
  Script *s = script_of(L);
  check_not_closed(L);
  if (!s->pool) {
    Status st = pool_new(&s->pool, s->threads);
    if (st) raise_status(L, st);
    s->cx.pool = s->pool;
  }
  return s->pool;
}

const Ctx *script_ctx(lua_State *L) {
  Script *s = script_of(L);
  script_pool(L);
  return &s->cx;
}

/* Embedded modules come after files on package.path and before package.cpath, where a grpo.so may
 * be installed. */
static void add_searcher(lua_State *L) {
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
  lua_pushcfunction(L, search_embedded);
  lua_rawseti(L, -2, at + 1);
  lua_pop(L, 3);
}

void script_register(lua_State *L) {
  lua_rawsetp(L, LUA_REGISTRYINDEX, &script_key);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, open_core);
  lua_setfield(L, -2, "grpo.core");
  lua_pop(L, 1);
  add_searcher(L);
  errors_open(L);
}

static int open_libraries(lua_State *L) {
  luaL_openlibs(L);
  search_open(L);
  script_register(L); /* our argument, the Script */
  lua_pushglobaltable(L);
  limits_open(L, lua_gettop(L));
  random_open(L, lua_gettop(L));
  return 0;
}

static int on_panic(lua_State *L) {
  fprintf(stderr, "grpo: unprotected error: %s\n", raw_message(L, -1));
  return 0;
}

void script_init(Script *s, lua_State *L, const EmbeddedFile *files) {
  s->L = L;
  s->files = files;
  s->override = getenv("GRPO_LUA");
  s->cx.arena = &s->arena;
  s->step = (Link){&s->step, &s->step};
}

void script_release(Script *s) {
  pool_free(s->pool);
  s->pool = s->cx.pool = NULL;
  arena_free(&s->arena);
  buf_free(&s->spare_buf);
  intbuf_free(&s->spare_ints);
}

Status script_open(Script **out, const EmbeddedFile *files) {
  Script *s = mem_zalloc(sizeof *s);
  if (!s) return fail(GRPO_ENOMEM, "a Lua state");
  script_init(s, NULL, files);
  s->L = lua_newstate(allocate, s);
  if (!s->L) {
    mem_free(s);
    return fail(GRPO_ENOMEM, "a Lua state");
  }
  lua_atpanic(s->L, on_panic);
  lua_pushcfunction(s->L, open_libraries);
  lua_pushlightuserdata(s->L, s);
  if (lua_pcall(s->L, 1, 0, 0) != LUA_OK) {
    Status st = fail(GRPO_ENOMEM, "starting Lua: %s", luaL_tolstring(s->L, -1, NULL));
    script_close(s);
    return st;
  }
  *out = s;
  return GRPO_OK;
}

void script_close(Script *s) {
  if (!s) return;
  s->closed = true;
  lua_close(s->L); /* models and tensors go before the pool they run on */
  script_release(s);
  mem_free(s);
}
