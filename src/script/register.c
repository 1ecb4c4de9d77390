#include "script/register.h"

#include <lauxlib.h>

#include "script/lua_errors.h"
#include "script/modules.h"
#include "script/script_impl.h"

void script_register(lua_State *L) {
  script_bind(L);
  script_complete(L);
}

void script_complete(lua_State *L) {
  Script *s = script_of(L);
  if (s->complete) return;
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, s->core);
  lua_setfield(L, -2, "grpo.core");
  lua_pop(L, 1);
  errors_open_type(L);
  modules_add_searcher(L); /* comes last, because it must not be repeated */
  s->complete = true;
}
