/* lua_parquet.c - core.parquet: the rows of a Parquet file (parquet/parquet.h).
 *
 *   core.parquet(path[, columns]) -> file | nil, message, code
 *   file:rows(), file:columns()       the number of rows; the names of all columns
 *   file:row(i)                       row i as a table; raises
 *   file:cached(), file:forget(), file:set_cache(bytes), file:leave_out(i), file:close()
 */
#include "parquet/parquet.h"

#include "parquet/push_row.h"
#include "script/binding.h"

#define PARQUET_TYPE "grpo.Parquet"

static Parquet *check_file(lua_State *L) {
  Parquet **p = check_object(L, 1, PARQUET_TYPE);
  if (!*p) raise_new(L, GRPO_EARG, "the Parquet file has been closed");
  return *p;
}

static int l_parquet(lua_State *L) {
  const char *path = check_string(L, 1, NULL);
  Parquet **p = new_object(L, sizeof *p, 0);
  *p = NULL;
  luaL_setmetatable(L, PARQUET_TYPE);
  const Status s = parquet_open(p, path);
  return s ? push_failure(L, s) : 1;
}

static int l_rows(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)parquet_rows(check_file(L)));
  return 1;
}

static int l_columns(lua_State *L) {
  const Parquet *p = check_file(L);
  const int n = parquet_columns(p);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushstring(L, parquet_column_name(p, i));
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int l_row(lua_State *L) {
  Parquet *p = check_file(L);
  const lua_Integer i = check_integer(L, 2, 1, (lua_Integer)parquet_rows(p));
  RowPusher pusher = row_pusher(L);
  want_ok(L, parquet_row(p, (uint64_t)i - 1, &(RowSink){row_push, &pusher}));
  return 1;
}

/* A list with weak keys may still hold a file that the collector has closed: these two take it. */
static int l_cached(lua_State *L) {
  Parquet **p = check_object(L, 1, PARQUET_TYPE);
  lua_pushinteger(L, *p ? (lua_Integer)parquet_cached(*p) : 0);
  return 1;
}

static int l_forget(lua_State *L) {
  Parquet **p = check_object(L, 1, PARQUET_TYPE);
  if (*p) parquet_forget(*p);
  return 0;
}

static int l_set_cache(lua_State *L) {
  parquet_set_cache(check_file(L), (uint64_t)check_integer(L, 2, 0, LUA_MAXINTEGER));
  return 0;
}

static int l_leave_out(lua_State *L) {
  Parquet *p = check_file(L);
  parquet_leave_out(p, (int)check_integer(L, 2, 1, parquet_columns(p)) - 1);
  return 0;
}

static int l_close(lua_State *L) {
  Parquet **p = check_object(L, 1, PARQUET_TYPE);
  parquet_close(*p);
  *p = NULL;
  return 0;
}

EXTENSION_PART(parquet_file) {
  static const luaL_Reg functions[] = {FN(parquet), {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", l_close}, {"__close", l_close}, {NULL, NULL}};
  static const luaL_Reg methods[] = {FN(rows),      FN(columns), FN(row),
                                     FN(cached),    FN(forget),  FN(set_cache),
                                     FN(leave_out), FN(close),   {NULL, NULL}};
  make_type(L, PARQUET_TYPE, meta, methods);
  luaL_setfuncs(L, functions, 0);
}
