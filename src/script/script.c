/* script.c - the Script of a Lua state. */
#include "script/script.h"

#include <stdlib.h>
#include <string.h>

#include "script/script_impl.h"

static const char script_key;

void script_bind(lua_State *L) { lua_rawsetp(L, LUA_REGISTRYINDEX, &script_key); }

Script *script_of(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &script_key);
  Script *s = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return s;
}

lua_State *script_state(Script *s) { return s->L; }

const EmbeddedFile *script_embedded(lua_State *L, const char *name, size_t len) {
  const EmbeddedFile *f = script_of(L)->files;
  for (; f && f->name; f++)
    if (strlen(f->name) == len && memcmp(f->name, name, len) == 0) return f;
  return NULL;
}

void script_init(Script *s, lua_State *L, const EmbeddedFile *files, lua_CFunction core) {
  s->L = L;
  s->files = files;
  s->core = core;
  s->override = getenv("GRPO_LUA");
  s->cx.arena = &s->arena;
  s->step = (Link){&s->step, &s->step};
}

void script_release(Script *s) {
  pool_free(s->pool);
  s->pool = s->cx.pool = NULL;
  arena_free(&s->arena);
  buf_free(&s->spare_buf[0]);
  buf_free(&s->spare_buf[1]);
  intbuf_free(&s->spare_ints);
}
