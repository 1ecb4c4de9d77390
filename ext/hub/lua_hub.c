/* lua_hub.c - core.hub_*: what lies in the Hugging Face cache. */
#include "hub/hub_cache.h"
#include "script/binding.h"
#include "script/parts.h"

static HubKind check_kind(lua_State *L, int arg) {
  static const char *const kinds[] = {"model", "dataset", NULL};
  return luaL_checkoption(L, arg, "model", kinds) == 1 ? HUB_DATASET : HUB_MODEL;
}

/* hub_is_name(text) */
static int l_hub_is_name(lua_State *L) {
  lua_pushboolean(L, hub_is_name(check_string(L, 1, NULL)));
  return 1;
}

/* Pushes the bytes of a buffer that push_buf() made, if `s` is OK. */
static int pushed(lua_State *L, Status s, const Buf *b) {
  if (s) return raise_status(L, s);
  push_bytes(L, b);
  return 1;
}

/* hub_cache() -> directory of the cache */
static int l_hub_cache(lua_State *L) {
  Buf *b = push_buf(L);
  return pushed(L, hub_cache_dir(b), b);
}

/* hub_repo(name[, kind]) -> directory of the repository in the cache */
static int l_hub_repo(lua_State *L) {
  const char *name = check_string(L, 1, NULL);
  const HubKind kind = check_kind(L, 2);
  Buf *b = push_buf(L);
  return pushed(L, hub_cache_repo(name, kind, b), b);
}

/* hub_find(name[, kind]) -> directory of the snapshot, commit */
static int l_hub_find(lua_State *L) {
  char commit[HUB_COMMIT_BYTES] = "";
  const char *name = check_string(L, 1, NULL);
  const HubKind kind = check_kind(L, 2);
  Buf *b = push_buf(L);
  pushed(L, hub_cache_find(name, kind, b, commit), b);
  lua_pushstring(L, commit);
  return 2;
}

/* hub_place(path, whole) -> path or directory of a snapshot; its commit, if it is one */
static int l_hub_place(lua_State *L) {
  char commit[HUB_COMMIT_BYTES] = "";
  const char *path = check_string(L, 1, NULL);
  Buf *b = push_buf(L);
  pushed(L, hub_cache_place(path, lua_toboolean(L, 2), b, commit), b);
  if (!*commit) return 1;
  lua_pushstring(L, commit);
  return 2;
}

EXTENSION_PART(hub) {
  static const luaL_Reg functions[] = {FN(hub_is_name), FN(hub_cache), FN(hub_repo),
                                       FN(hub_find),    FN(hub_place), {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
