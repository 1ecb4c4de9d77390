/* lua_ranks.c - the ranks of a run: see ranks.h, and loop/several_ranks.lua for what they do. */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "model/frozen.h"
#include "model/panels.h"
#include "mpi/common_pages.h"
#include "mpi/ranks.h"
#include "os/comm.h"
#include "script/binding.h"
#include "script/lua_model.h"
#include "script/parts.h"

/* ranks_start(kind): the ranks that this launcher's kind of MPI has started meet */
static int l_ranks_start(lua_State *L) {
  want_ok(L, ranks_start(luaL_checkstring(L, 1)));
  return 0;
}

/* ranks() -> this one, from 0; how many there are */
static int l_ranks(lua_State *L) {
  lua_pushinteger(L, comm_rank());
  lua_pushinteger(L, comm_size());
  return 2;
}

/* ranks_bytes() -> what this rank has sent to others, and got */
static int l_ranks_bytes(lua_State *L) {
  uint64_t sent, received;
  ranks_bytes(&sent, &received);
  lua_pushinteger(L, (lua_Integer)sent);
  lua_pushinteger(L, (lua_Integer)received);
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
  want_ok(L, comm_gather(mine, n, &all, at));
  lua_pushcfunction(L, push_pieces);
  lua_pushlightuserdata(L, all);
  lua_pushlightuserdata(L, at);
  const bool ok = call_protected(L, 2, 1);
  mem_free(all);
  return ok ? 1 : lua_error(L);
}

/* ranks_cores() -> cores that this process is bound to, those of the machine */
static int l_ranks_cores(lua_State *L) {
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t set;
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  lua_pushinteger(L, known ? CPU_COUNT(&set) : (lua_Integer)online);
  lua_pushinteger(L, (lua_Integer)online);
  return 2;
}

/* ---- memory that the ranks of a node have in common ------------------------------------------ */

/* ranks_node() -> the node's first rank, this one's place in it, the most ranks of a node */
static int l_ranks_node(lua_State *L) {
  int first, place, most;
  want_ok(L, ranks_node(&first, &place, &most));
  lua_pushinteger(L, first);
  lua_pushinteger(L, place);
  lua_pushinteger(L, most);
  return 3;
}

static Status each_block(const Model *m, CommonFile *f, bool take, size_t *common) {
  FrozenBlock b;
  for (int i = 0; frozen_block(m, i, &b); i++) {
    if (!b.data) continue;
    try(take ? common_take(f, b.data, b.bytes, common) : common_put(f, b.data, b.bytes));
  }
  return GRPO_OK;
}

/* common_put(model) -> a card for the other ranks of the node; "": this system has no such memory.
 * The base that the adapter has frozen is then in a file without a name. */
static int l_common_put(lua_State *L) {
  Model *m = check_model(L, 1);
  CommonFile f;
  want_ok(L, panels_renew(m, script_ctx(L)));
  bool made = common_create(&f) == GRPO_OK;
  if (made && each_block(m, &f, false, NULL) != GRPO_OK) {
    common_close(&f);
    made = false;
  }
  lua_pushlstring(L, (const char *)&f, made ? sizeof f : 0);
  return 1;
}

/* common_take(model, card) -> bytes that this rank does not hold for itself any more */
static int l_common_take(lua_State *L) {
  Model *m = check_model(L, 1);
  size_t n, common = 0;
  const char *card = luaL_checklstring(L, 2, &n);
  CommonFile theirs, mine;
  want_ok(L, panels_renew(m, script_ctx(L)));
  if (n == sizeof theirs) {
    memcpy(&theirs, card, sizeof theirs);
    if (common_open(&mine, &theirs) == GRPO_OK) {
      each_block(m, &mine, true, &common);
      common_close(&mine);
    }
  }
  return give_integer(L, (lua_Integer)common);
}

/* common_close(card): all ranks of the node have taken what they could */
static int l_common_close(lua_State *L) {
  size_t n;
  CommonFile f;
  const char *card = luaL_checklstring(L, 1, &n);
  if (n != sizeof f) return 0;
  memcpy(&f, card, sizeof f);
  common_close(&f);
  return 0;
}

/* ranks_agreed() -> has a failure reached all ranks? */
static int l_ranks_agreed(lua_State *L) { return give_boolean(L, comm_has_agreed_to_fail()); }

/* ranks_abort(status): all end now, for this one failed */
static int l_ranks_abort(lua_State *L) {
  comm_abort((int)luaL_checkinteger(L, 1));
  return 0;
}

EXTENSION_PART(ranks) {
  static const luaL_Reg functions[] = {FN(ranks),       FN(ranks_start),  FN(ranks_share),
                                       FN(ranks_bytes), FN(ranks_agreed), FN(ranks_abort),
                                       FN(ranks_node),  FN(ranks_cores),  FN(common_put),
                                       FN(common_take), FN(common_close), {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
