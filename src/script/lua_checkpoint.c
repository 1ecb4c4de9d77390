/* lua_checkpoint.c - checkpoints of a run (checkpoint/run_checkpoint.h). */
#include "checkpoint/run_checkpoint.h"
#include "script/binding.h"

static int l_begin(lua_State *L) {
  const char *dir = check_string(L, 1, NULL);
  Buf *tmp = push_buf(L);
  want_ok(L, run_checkpoint_begin(dir, tmp));
  lua_pushlstring(L, tmp->data, tmp->len);
  return 1;
}

static int l_commit(lua_State *L) {
  const char *tmp = check_string(L, 1, NULL), *dir = check_string(L, 2, NULL);
  want_ok(L, run_checkpoint_commit(tmp, dir));
  lua_pushboolean(L, 1);
  return 1;
}

static int l_verify(lua_State *L) {
  want_ok(L, run_checkpoint_verify(check_string(L, 1, NULL)));
  lua_pushboolean(L, 1);
  return 1;
}

CORE_PART(checkpoint) {
  static const luaL_Reg functions[] = {{"checkpoint_begin", l_begin},
                                       {"checkpoint_commit", l_commit},
                                       {"checkpoint_verify", l_verify},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
