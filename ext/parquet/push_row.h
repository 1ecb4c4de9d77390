/* push_row.h - the rows of columnar files as Lua tables. */
#ifndef GRPO_PARQUET_PUSH_ROW_H
#define GRPO_PARQUET_PUSH_ROW_H

#include <lua.h>

#include "parquet/row_sink.h"
#include "script/key_order.h"

typedef struct RowPusher {
  lua_State *L;
  lua_Integer n[ROW_DEEPEST];   /* elements of the list at each depth; -1: an object */
  KeyOrder orders[ROW_DEEPEST]; /* of the objects; each lies below its object */
  int depth;
} RowPusher;

/* A sink that pushes the row's value; L may raise when memory is out. */
static inline RowPusher row_pusher(lua_State *L) { return (RowPusher){.L = L}; }
void row_push(void *pusher, RowEvent e);

#endif
