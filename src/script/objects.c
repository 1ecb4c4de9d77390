#include "script/objects.h"

#include <string.h>

#include "base/mem.h"
#include "script/errors.h"
#include "script/script_impl.h"

void check_not_closed(lua_State *L) {
  if (script_of(L)->closed) raise_new(L, GRPO_ESTALE, "grpo: its Lua state is being closed");
}

/* ---- memory that Lua owns ----------------------------------------------------------- */

void *push_scratch(lua_State *L, size_t count, size_t size) {
  if (size && count > MEM_MOST / size)
    raise_new(L, GRPO_ENOMEM, "%zu elements are more than memory can hold", count);
  void *p = lua_newuserdatauv(L, count * size + 1, 0);
  memset(p, 0, count * size);
  return p;
}

#define BUF_TYPE  "grpo.Buf"
#define INTS_TYPE "grpo.Ints"

/* Larger buffers are not kept for the next use. */
enum { LARGEST_SPARE = 1 << 20 };

static int l_buf_gc(lua_State *L) {
  buf_free(lua_touserdata(L, 1));
  return 0;
}
static int l_ints_gc(lua_State *L) {
  intbuf_free(lua_touserdata(L, 1));
  return 0;
}

void make_type(lua_State *L, const char *type, const luaL_Reg *meta, const luaL_Reg *methods) {
  luaL_newmetatable(L, type);
  luaL_setfuncs(L, meta, 0);
  lua_newtable(L);
  luaL_setfuncs(L, methods, 0);
  keep_methods(L, type);
  lua_setfield(L, -2, "__index");
  seal_type(L);
  lua_pop(L, 1);
}

/* The name of a type's table of methods in the registry. */
static void push_methods_name(lua_State *L, const char *type) {
  lua_pushfstring(L, "%s.methods", type);
}

void keep_methods(lua_State *L, const char *type) {
  push_methods_name(L, type);
  lua_pushvalue(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

void add_methods(lua_State *L, const char *type, const luaL_Reg *methods) {
  push_methods_name(L, type);
  lua_rawget(L, LUA_REGISTRYINDEX);
  luaL_setfuncs(L, methods, 0);
  lua_pop(L, 1);
}

void seal_type(lua_State *L) {
  const int meta = lua_gettop(L);
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, meta); lua_pop(L, 1)) {
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, meta + 1);
  }
  lua_pushnil(L);
  lua_setfield(L, -2, "__gc");
  lua_setfield(L, meta, "__metatable");
}

/* Does a C function that runs on this thread, from `level` outward, have the object on its
 * stack? */
static bool on_stack(lua_State *L, int level, const void *object) {
  lua_Debug frame;
  if (!lua_checkstack(L, 1)) return true;
  for (; lua_getstack(L, level, &frame); level++) {
    lua_getinfo(L, "S", &frame);
    if (*frame.what != 'C') continue;
    for (int i = 1; lua_getlocal(L, &frame, i); i++) { /* the slots of the function's stack */
      const bool same = lua_touserdata(L, -1) == object;
      lua_pop(L, 1);
      if (same) return true;
    }
  }
  return false;
}

bool in_use(lua_State *L) {
  const void *object = lua_touserdata(L, 1);
  const Budget *b = script_of(L)->budget;
  int level = 1; /* level 0 is the close itself */
  for (lua_State *on = L;; on = b->from, b = b->outer, level = 0) {
    if (on_stack(on, level, object)) return true;
    const bool main = lua_pushthread(on);
    lua_pop(on, 1);
    if (main) return false;
    if (!b || b->co != on) return true; /* a script's coroutine: we cannot know who resumed it */
  }
}

void *new_object(lua_State *L, size_t size, int values) {
  check_not_closed(L);
  return lua_newuserdatauv(L, size, values);
}

void *check_object(lua_State *L, int arg, const char *type) {
  void *p = luaL_testudata(L, arg, type);
  if (!p) type_error(L, arg, type);
  return p;
}

void *new_handle(lua_State *L, const char *type) {
  void **owned = new_object(L, sizeof *owned, 0);
  *owned = NULL;
  luaL_setmetatable(L, type);
  return owned;
}

void *check_handle(lua_State *L, int arg, const char *type, const char *closed) {
  void **owned = check_object(L, arg, type);
  if (!*owned) arg_error(L, arg, "%s", closed);
  return *owned;
}

void *take_handle(lua_State *L, int arg, const char *type) {
  void **owned = check_object(L, arg, type), *old = *owned;
  *owned = NULL;
  return old;
}

void set_gc(lua_State *L, const char *type, lua_CFunction gc) {
  if (luaL_newmetatable(L, type)) {
    lua_pushcfunction(L, gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
}

/* The spare buffer with more memory, or with less. */
static Buf *spare_buf(lua_State *L, bool more) {
  Buf *spare = script_of(L)->spare_buf;
  return &spare[(spare[1].cap > spare[0].cap) == more];
}

Buf *push_buf(lua_State *L) {
  Buf *b = new_object(L, sizeof *b, 0), *spare = spare_buf(L, true);
  *b = (Buf){0};
  set_gc(L, BUF_TYPE, l_buf_gc);
  *b = *spare;
  *spare = (Buf){0};
  buf_clear(b);
  return b;
}

void push_bytes(lua_State *L, const Buf *b) { lua_pushlstring(L, b->data ? b->data : "", b->len); }

void keep_buf(lua_State *L, Buf *b) {
  Buf *spare = spare_buf(L, false);
  if (b->cap > LARGEST_SPARE || b->cap <= spare->cap) {
    buf_free(b);
    return;
  }
  buf_free(spare);
  *spare = *b;
  *b = (Buf){0};
}

IntBuf *push_ints(lua_State *L) {
  Script *script = script_of(L);
  IntBuf *b = new_object(L, sizeof *b, 0);
  *b = (IntBuf){0};
  set_gc(L, INTS_TYPE, l_ints_gc);
  *b = script->spare_ints;
  script->spare_ints = (IntBuf){0};
  intbuf_clear(b);
  return b;
}

void keep_ints(lua_State *L, IntBuf *b) {
  Script *script = script_of(L);
  if (b->cap * sizeof *b->data > LARGEST_SPARE || b->cap <= script->spare_ints.cap) {
    intbuf_free(b);
    return;
  }
  intbuf_free(&script->spare_ints);
  script->spare_ints = *b;
  *b = (IntBuf){0};
}

void reserve_bufs(lua_State *L, size_t bytes, size_t ints) {
  static const char zeros[256];
  static const int32_t ids[64];
  Buf *b = push_buf(L);
  IntBuf *v = push_ints(L);
  while (b->len < bytes && b->len < LARGEST_SPARE / 2 && !b->oom) buf_put(b, zeros, sizeof zeros);
  while (v->len < ints && v->len < LARGEST_SPARE / 8 && !v->oom)
    intbuf_append(v, ids, sizeof ids / sizeof *ids);
  keep_buf(L, b);
  keep_ints(L, v);
  lua_pop(L, 2);
}
