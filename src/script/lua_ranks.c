/* lua_ranks.c - the ranks of a run: see comm.h, and train/ranks.lua for what they do. */
#include <string.h>

#include "base/mem.h"
#include "os/comm.h"
#include "script/binding.h"

/* ranks_start() -> were ranks launched?  They have met then. */
static int l_ranks_start(lua_State *L) {
  const char *kind = comm_launcher();
  const Status s = kind ? comm_start(kind) : GRPO_OK;
  if (s) return raise_status(L, s);
  lua_pushboolean(L, comm_size() > 1);
  return 1;
}

/* ranks() -> this one, from 0; how many there are */
static int l_ranks(lua_State *L) {
  lua_pushinteger(L, comm_rank());
  lua_pushinteger(L, comm_size());
  return 2;
}

/* (all, at) -> list */
static int push_pieces(lua_State *L) {
  const char *all = lua_touserdata(L, 1);
  const size_t *at = lua_touserdata(L, 2);
  lua_createtable(L, comm_size(), 0);
  for (int r = 0; r < comm_size(); r++) {
    lua_pushlstring(L, all + at[r], at[r + 1] - at[r]);
    lua_rawseti(L, -2, r + 1);
  }
  return 1;
}

/* ranks_share(text) -> { the text of rank 0, of rank 1, ... } */
static int l_ranks_share(lua_State *L) {
  size_t n, at[COMM_RANKS + 1];
  const char *mine = luaL_checklstring(L, 1, &n);
  char *all;
  const Status s = comm_gather(mine, n, &all, at);
  if (s) return raise_status(L, s);
  lua_pushcfunction(L, push_pieces);
  lua_pushlightuserdata(L, all);
  lua_pushlightuserdata(L, at);
  const bool ok = call_protected(L, 2, 1);
  mem_free(all);
  return ok ? 1 : lua_error(L);
}

/* ranks_agreed() -> has a failure reached all ranks? */
static int l_ranks_agreed(lua_State *L) {
  lua_pushboolean(L, comm_has_agreed_to_fail());
  return 1;
}

/* ranks_abort(status): all end now, for this one failed */
static int l_ranks_abort(lua_State *L) {
  comm_abort((int)luaL_checkinteger(L, 1));
  return 0;
}

CORE_PART(ranks) {
  static const luaL_Reg functions[] = {FN(ranks),        FN(ranks_start), FN(ranks_share),
                                       FN(ranks_agreed), FN(ranks_abort), {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
