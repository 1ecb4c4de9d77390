#include "script/resources.h"

#include "script/errors.h"
#include "script/objects.h"
#include "script/script_impl.h"

Pool *script_pool(lua_State *L) {
  Script *s = script_of(L);
  check_not_closed(L);
  if (!s->pool) {
    want_ok(L, pool_new(&s->pool, s->threads));
    s->cx.pool = s->pool;
  }
  return s->pool;
}

const Ctx *script_ctx(lua_State *L) {
  Script *s = script_of(L);
  script_pool(L);
  return &s->cx;
}
