#include "parquet/push_row.h"

#include "script/binding.h"
#include "script/key_order.h"
#include "script/lua_json.h"

/* A value is on top: puts it where it belongs. */
static void place(RowPusher *p) {
  if (!p->depth) return;
  lua_Integer *n = &p->n[p->depth - 1];
  if (*n < 0)
    lua_rawset(p->L, -3); /* object key value */
  else
    lua_rawseti(p->L, -2, ++*n);
}

static void open_level(RowPusher *p, bool object) {
  luaL_checkstack(p->L, 8, "a row nested too deep");
  if (object) p->orders[p->depth] = key_order_begin(p->L);
  lua_newtable(p->L);
  p->n[p->depth++] = object ? -1 : 0;
}

void row_push(void *pusher, RowEvent e) {
  RowPusher *p = pusher;
  lua_State *L = p->L;
  switch (e.kind) {
  case ROW_NULL:
    push_json_null(L);
    break;
  case ROW_BOOL:
    lua_pushboolean(L, e.boolean);
    break;
  case ROW_INTEGER:
    lua_pushinteger(L, e.integer);
    break;
  case ROW_NUMBER:
    lua_pushnumber(L, e.number);
    break;
  case ROW_TEXT:
    lua_pushlstring(L, e.s, e.n);
    break;
  case ROW_KEY:
    lua_pushlstring(L, e.s, e.n);
    key_order_add(L, &p->orders[p->depth - 1]);
    return;
  case ROW_LIST:
  case ROW_OBJECT:
    open_level(p, e.kind == ROW_OBJECT);
    return;
  case ROW_END:
    if (p->n[--p->depth] < 0) {
      key_order_end(L, &p->orders[p->depth], -1);
      lua_remove(L, -2);
    }
    break;
  }
  place(p);
}
