#include "script/register.h"

#include <lauxlib.h>

#include "script/lua_errors.h"
#include "script/modules.h"
#include "script/script_impl.h"

void script_register(lua_State *L) {
  script_bind(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, script_of(L)->core);
  lua_setfield(L, -2, "grpo.core");
  lua_pop(L, 1);
  modules_add_searcher(L);
  errors_open_type(L);
}
