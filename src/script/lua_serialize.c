/* lua_serialize.c - Lua values as exact bytes, for tr.state; equal values give equal bytes, and
 * shared tables and cycles stay.
 *
 * Format 1: "GST1", then one value.  A value is a letter and its payload in little-endian order:
 *   N nil   F false   T true   J json_null   I int64   D the bits of a double   S u32 length, bytes
 *   { u32 count, then count pairs of key and value      O the same, of a json_object
 *   R u32 n: the n-th table begun, from 0
 *   K u32 count, then count strings, then a table: the order of its keys in a file (key_order.h)
 * Keys are sorted: booleans, then numbers, then strings.
 */
#include <stdlib.h>
#include <string.h>

#include "script/binding.h"
#include "script/key_order.h"
#include "script/lua_json.h"
#include "script/lua_serialize.h"

enum { MAX_DEPTH = 180 };

static const char magic[4] = "GST1";

/* ---- writing ------------------------------------------------------------------------ */

typedef struct Encoder {
  lua_State *L;
  Buf *b;
  int seen; /* stack index: table -> number */
  uint32_t tables;
  int depth;
  Buf *path;   /* "state.a[1]" for messages */
  bool values; /* the order of keys does not count */
} Encoder;

static void put_u32(Buf *b, uint32_t v) {
  char s[4] = {(char)v, (char)(v >> 8), (char)(v >> 16), (char)(v >> 24)};
  buf_put(b, s, 4);
}

static void put_u64(Buf *b, uint64_t v) {
  put_u32(b, (uint32_t)v);
  put_u32(b, (uint32_t)(v >> 32));
}

static void encode(Encoder *e, int index);

static void encode_key_path(Encoder *e, int key) {
  lua_State *L = e->L;
  if (lua_type(L, key) == LUA_TSTRING)
    buf_printf(e->path, ".%s", lua_tostring(L, key));
  else {
    buf_printf(e->path, "[%s]", luaL_tolstring(L, key, NULL));
    lua_pop(L, 1);
  }
}

static int key_rank(lua_State *L, int i) {
  int t = lua_type(L, i);
  return t == LUA_TBOOLEAN ? 0 : t == LUA_TNUMBER ? 1 : t == LUA_TSTRING ? 2 : 3;
}

/* (a, b) -> whether key a sorts before key b; for table.sort */
static int l_key_before(lua_State *L) {
  int a = key_rank(L, 1), b = key_rank(L, 2);
  if (a != b)
    lua_pushboolean(L, a < b);
  else if (a == 0)
    lua_pushboolean(L, !lua_toboolean(L, 1) && lua_toboolean(L, 2));
  else
    lua_pushboolean(L, lua_compare(L, 1, 2, LUA_OPLT));
  return 1;
}

/* Pushes a sorted list of the keys of the table at index; returns their number. */
static lua_Integer push_sorted_keys(Encoder *e, int index) {
  lua_State *L = e->L;
  lua_Integer n = 0;
  bool sequence = true; /* the keys come as 1, 2, ...: sorted */
  lua_newtable(L);
  int list = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, index)) {
    lua_pop(L, 1);
    if (key_rank(L, -1) == 3)
      raise_new(L, GRPO_EARG,
                "%s has a key that is a %s; keys can be strings, numbers and booleans",
                e->path->data, luaL_typename(L, -1));
    sequence = sequence && lua_isinteger(L, -1) && lua_tointeger(L, -1) == n + 1;
    lua_pushvalue(L, -1);
    lua_rawseti(L, list, ++n);
  }
  if (sequence) return n;
  lua_pushvalue(L, lua_upvalueindex(1)); /* table.sort */
  lua_pushvalue(L, list);
  lua_pushcfunction(L, l_key_before);
  lua_call(L, 2, 0);
  return n;
}

static void put_string(Encoder *e, int index) {
  size_t n;
  const char *s = lua_tolstring(e->L, index, &n);
  if (n > UINT32_MAX)
    raise_new(e->L, GRPO_EARG, "%s is a string of %zu bytes, but the format has room for %u",
              e->path->data, n, UINT32_MAX);
  buf_putc(e->b, 'S');
  put_u32(e->b, (uint32_t)n);
  buf_put(e->b, s, n);
}

/* The order in which a file gave the keys of the table at index, if one did. */
static void encode_order(Encoder *e, int index) {
  lua_State *L = e->L;
  if (!key_order_push(L, index)) return;
  const lua_Integer n = luaL_len(L, -1);
  buf_putc(e->b, 'K');
  put_u32(e->b, (uint32_t)n);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    put_string(e, lua_gettop(L));
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void encode_table(Encoder *e, int index) {
  lua_State *L = e->L;
  lua_pushvalue(L, index);
  if (lua_rawget(L, e->seen) == LUA_TNUMBER) {
    buf_putc(e->b, 'R');
    put_u32(e->b, (uint32_t)lua_tointeger(L, -1));
    lua_pop(L, 1);
    return;
  }
  lua_pop(L, 1);
  const bool object = is_json_object(L, index);
  if (!object && lua_getmetatable(L, index))
    raise_new(L, GRPO_EARG, "%s has a metatable; tr.state holds plain tables", e->path->data);
  if (!e->values) encode_order(e, index);
  lua_pushvalue(L, index);
  lua_pushinteger(L, e->tables++);
  lua_rawset(L, e->seen);
  lua_Integer n = push_sorted_keys(e, index);
  int list = lua_gettop(L);
  buf_putc(e->b, object ? 'O' : '{');
  put_u32(e->b, (uint32_t)n);
  for (lua_Integer i = 1; i <= n; i++) {
    size_t path = e->path->len;
    lua_rawgeti(L, list, i);
    encode_key_path(e, list + 1);
    encode(e, list + 1);
    lua_pushvalue(L, list + 1);
    lua_rawget(L, index);
    encode(e, list + 2);
    lua_pop(L, 2);
    e->path->len = path;
    e->path->data[path] = '\0';
  }
  lua_pop(L, 1);
}

static bool is_json_null(lua_State *L, int index) {
  push_json_null(L);
  const bool same = lua_rawequal(L, index, -1);
  lua_pop(L, 1);
  return same;
}

static void encode(Encoder *e, int index) {
  lua_State *L = e->L;
  double d;
  uint64_t bits;
  luaL_checkstack(L, 10, "state");
  if (++e->depth > MAX_DEPTH)
    raise_new(L, GRPO_EARG, "%.200s...: tr.state is nested deeper than %d tables", e->path->data,
              MAX_DEPTH);
  switch (lua_type(L, index)) {
  case LUA_TNIL:
    buf_putc(e->b, 'N');
    break;
  case LUA_TBOOLEAN:
    buf_putc(e->b, lua_toboolean(L, index) ? 'T' : 'F');
    break;
  case LUA_TNUMBER:
    buf_putc(e->b, lua_isinteger(L, index) ? 'I' : 'D');
    d = (double)lua_tonumber(L, index);
    memcpy(&bits, &d, sizeof bits);
    put_u64(e->b, lua_isinteger(L, index) ? (uint64_t)lua_tointeger(L, index) : bits);
    break;
  case LUA_TSTRING:
    put_string(e, index);
    break;
  case LUA_TTABLE:
    encode_table(e, index);
    break;
  default:
    if (is_json_null(L, index)) {
      buf_putc(e->b, 'J');
      break;
    }
    raise_new(L, GRPO_EARG,
              "%s is a %s; it can be nil, a boolean, a number, a string or a table of them",
              e->path->data, luaL_typename(L, index));
  }
  e->depth--;
}

/* core.state_encode(v[, name[, values]]) -> bytes; upvalue 1: table.sort.  values: equal keys and
 * values give equal bytes, whatever the order of keys that a file gave them */
static int l_encode(lua_State *L) {
  luaL_checkany(L, 1);
  const char *name = lua_isnoneornil(L, 2) ? "state" : check_string(L, 2, NULL);
  Encoder e = {.L = L, .values = lua_toboolean(L, 3)};
  lua_settop(L, 2);
  lua_newtable(L);
  e.seen = 3;
  e.b = push_buf(L);
  e.path = push_buf(L);
  buf_puts(e.path, name);
  if (buf_status(e.path)) return raise_status(L, buf_status(e.path));
  buf_put(e.b, magic, sizeof magic);
  encode(&e, 1);
  want_ok(L, buf_status(e.b));
  push_bytes(L, e.b);
  keep_buf(L, e.b);
  keep_buf(L, e.path);
  return 1;
}

/* ---- reading ------------------------------------------------------------------------ */

typedef struct StateReader {
  lua_State *L;
  const unsigned char *p, *end;
  int seen; /* stack index: number + 1 -> table */
  lua_Integer tables;
  int depth;
} StateReader;

static int corrupt(lua_State *L, const char *what) {
  return raise_new(L, GRPO_EFORMAT, "saved state is corrupt: %s", what);
}

static uint64_t get_bytes(StateReader *d, int n) {
  uint64_t v = 0;
  if (d->end - d->p < n) corrupt(d->L, "it ends in the middle");
  for (int i = 0; i < n; i++) v |= (uint64_t)*d->p++ << (8 * i);
  return v;
}

static void decode(StateReader *d);

static void decode_table(StateReader *d, bool object) {
  lua_State *L = d->L;
  uint64_t n = get_bytes(d, 4);
  if (n > (uint64_t)(d->end - d->p) / 2) corrupt(L, "a table is larger than the file");
  lua_newtable(L);
  if (object) set_json_object(L, -1);
  lua_pushvalue(L, -1);
  lua_rawseti(L, d->seen, ++d->tables);
  for (; n; n--) {
    decode(d);
    double k = (double)lua_tonumber(L, -1);
    if (key_rank(L, -1) == 3 || (lua_type(L, -1) == LUA_TNUMBER && k != k))
      corrupt(L, "a key is not a string, a number or a boolean");
    decode(d);
    lua_rawset(L, -3);
  }
}

static void decode_ordered(StateReader *d) {
  lua_State *L = d->L;
  const uint64_t n = get_bytes(d, 4);
  if (n > (uint64_t)(d->end - d->p) / 5) corrupt(L, "an order is longer than the file");
  KeyOrder order = key_order_begin(L);
  for (uint64_t i = 0; i < n; i++) {
    decode(d);
    if (lua_type(L, -1) != LUA_TSTRING) corrupt(L, "a key of an object is not a string");
    key_order_add(L, &order);
    lua_pop(L, 1);
  }
  const uint64_t kind = get_bytes(d, 1);
  if (kind != '{' && kind != 'O') corrupt(L, "no table follows the order of its keys");
  decode_table(d, kind == 'O');
  key_order_end(L, &order, -1);
  lua_remove(L, -2);
}

static void decode(StateReader *d) {
  lua_State *L = d->L;
  uint64_t n;
  double x;
  luaL_checkstack(L, 6, "state");
  if (++d->depth > MAX_DEPTH + 1) corrupt(L, "tables are nested too deep");
  switch (get_bytes(d, 1)) {
  case 'N':
    lua_pushnil(L);
    break;
  case 'F':
    lua_pushboolean(L, 0);
    break;
  case 'T':
    lua_pushboolean(L, 1);
    break;
  case 'J':
    push_json_null(L);
    break;
  case 'I':
    lua_pushinteger(L, (lua_Integer)get_bytes(d, 8));
    break;
  case 'D':
    n = get_bytes(d, 8);
    memcpy(&x, &n, sizeof x);
    lua_pushnumber(L, x);
    break;
  case 'S':
    n = get_bytes(d, 4);
    if (n > (uint64_t)(d->end - d->p)) corrupt(L, "it ends in the middle");
    lua_pushlstring(L, (const char *)d->p, (size_t)n);
    d->p += n;
    break;
  case 'R':
    n = get_bytes(d, 4);
    if (n >= (uint64_t)d->tables) corrupt(L, "it refers to a table that is not there");
    lua_rawgeti(L, d->seen, (lua_Integer)n + 1);
    break;
  case '{':
    decode_table(d, false);
    break;
  case 'O':
    decode_table(d, true);
    break;
  case 'K':
    decode_ordered(d);
    break;
  default:
    corrupt(L, "a value is of an unknown kind");
  }
  d->depth--;
}

static int l_decode(lua_State *L) {
  size_t n;
  const char *s = check_string(L, 1, &n);
  if (n < sizeof magic || memcmp(s, magic, sizeof magic) != 0)
    return corrupt(L, "it does not begin with GST1");
  lua_settop(L, 1);
  lua_newtable(L);
  StateReader d = {
      .L = L, .p = (const unsigned char *)s + 4, .end = (const unsigned char *)s + n, .seen = 2};
  decode(&d);
  if (d.p != d.end) return corrupt(L, "there is more after its end");
  return 1;
}

CORE_PART(serialize) {
  static const luaL_Reg functions[] = {{"state_decode", l_decode}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  lua_getglobal(L, "table");
  lua_getfield(L, -1, "sort");
  lua_remove(L, -2);
  lua_pushcclosure(L, l_encode, 1);
  lua_setfield(L, -2, "state_encode");
}
