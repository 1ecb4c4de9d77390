/* lua_json.c - JSON to Lua values and back.
 *
 * Reading: null is core.json_null; a number is an integer if it is written as one, and otherwise a
 * float, as in Python; the order of an object's keys is noted beside it (key_order.h).
 * core.json_ordered lets its caller make the tables.  Writing: keys are sorted, numbers have the
 * shortest form that reads back the same; NaN and infinities become null.  A table with only an
 * array part is a list; {} is [] unless core.json_object marked it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "script/binding.h"
#include "script/key_order.h"
#include "script/lua_json.h"

#define OBJECT_TYPE "grpo.JsonObject"

static const char null_key; /* its address is json_null, a light userdata */

void push_json_null(lua_State *L) { lua_pushlightuserdata(L, (void *)&null_key); }

/* ---- reading ------------------------------------------------------------------------ */

/* Pushes a string of a tree that json_parse_zeros has made. */
static void push_text(lua_State *L, const char *s) {
  if (!strstr(s, JSON_ZERO)) {
    lua_pushstring(L, s);
    return;
  }
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (const char *zero; (zero = strstr(s, JSON_ZERO)); s = zero + 2) {
    luaL_addlstring(&b, s, (size_t)(zero - s));
    luaL_addchar(&b, '\0');
  }
  luaL_addstring(&b, s);
  luaL_pushresult(&b);
}

static void push_node(lua_State *L, const Json *j, int makers);

static void push_object(lua_State *L, const Json *j) {
  lua_createtable(L, 0, (int)json_count(j));
  const int object = lua_gettop(L);
  KeyOrder order = key_order_begin(L);
  for (const Json *c = json_child(j); c; c = json_next(c)) {
    push_text(L, json_key(c));
    key_order_add(L, &order);
    push_json(L, c);
    lua_rawset(L, object);
  }
  key_order_end(L, &order, object);
  lua_pop(L, 1);
  if (!json_child(j)) luaL_setmetatable(L, OBJECT_TYPE); /* so that {} is written as {} again */
}

/* Pushes makers.dict(keys, map).  keys holds each key once, in the order of the text, and map the
 * last value of each key. */
static void push_dict(lua_State *L, const Json *j, int makers) {
  lua_Integer n = 0;
  lua_getfield(L, makers, "dict");
  lua_newtable(L);
  lua_createtable(L, 0, (int)json_count(j));
  for (const Json *c = json_child(j); c; c = json_next(c)) {
    push_text(L, json_key(c));
    lua_pushvalue(L, -1);
    if (lua_rawget(L, -3) == LUA_TNIL) { /* dict keys map key nil */
      lua_pushvalue(L, -2);
      lua_rawseti(L, -5, ++n);
    }
    lua_pop(L, 1);
    push_node(L, c, makers);
    lua_rawset(L, -3);
  }
  lua_call(L, 2, 1);
}

static void push_array(lua_State *L, const Json *j, int makers) {
  lua_Integer i = 0;
  if (makers) lua_getfield(L, makers, "list");
  lua_createtable(L, (int)json_count(j), 0);
  for (const Json *c = json_child(j); c; c = json_next(c)) {
    push_node(L, c, makers);
    lua_rawseti(L, -2, ++i);
  }
  if (makers) lua_call(L, 1, 1);
}

/* `makers` is the index of a table { null = value, list = function(items),
 * dict = function(keys, map) }, or 0 for plain tables. */
static void push_node(lua_State *L, const Json *j, int makers) {
  int64_t n;
  luaL_checkstack(L, 8, "JSON nested too deep");
  switch (json_type(j)) {
  case JSON_NULL:
    if (makers)
      lua_getfield(L, makers, "null");
    else
      push_json_null(L);
    break;
  case JSON_BOOL:
    lua_pushboolean(L, json_bool(j));
    break;
  case JSON_STRING:
    push_text(L, json_string(j));
    break;
  case JSON_NUMBER:
    if (json_int64(j, &n))
      lua_pushinteger(L, n);
    else
      lua_pushnumber(L, json_number(j));
    break;
  case JSON_ARRAY:
    push_array(L, j, makers);
    break;
  case JSON_OBJECT:
    if (makers)
      push_dict(L, j, makers);
    else
      push_object(L, j);
    break;
  }
}

void push_json(lua_State *L, const Json *j) { push_node(L, j, 0); }

/* A userdata holds a parsed document, so that the collector frees it after an error. */
static int l_document_gc(lua_State *L) {
  Json **j = lua_touserdata(L, 1);
  json_free(*j);
  *j = NULL;
  return 0;
}

typedef Status (*Parse)(const char *text, size_t len, const char *what, Json **out);

static Json **push_document(lua_State *L, Parse parse, const char *text, size_t len,
                            const char *what) {
  Json **j = new_object(L, sizeof *j, 0);
  *j = NULL;
  set_gc(L, "grpo.JsonDocument", l_document_gc);
  want_ok(L, parse(text, len, what, j));
  return j;
}

static void push_text_value(lua_State *L, Parse parse, const char *text, size_t len,
                            const char *what, int makers) {
  Json **j = push_document(L, parse, text, len, what);
  push_node(L, *j, makers);
  json_free(*j); /* at once, instead of when the collector comes to it */
  *j = NULL;
  lua_remove(L, -2);
}

void push_json_text(lua_State *L, const char *text, size_t len, const char *what) {
  push_text_value(L, json_parse_zeros, text, len, what, 0);
}

void push_json_rows(lua_State *L, const char *text, size_t len, const char *what) {
  push_text_value(L, json_parse_rows, text, len, what, 0);
}

static int decode(lua_State *L, Parse parse, int makers) {
  size_t n;
  const char *s = check_string(L, 1, &n);
  const char *what = lua_isnoneornil(L, 2) ? "JSON" : check_string(L, 2, NULL);
  charge_work(L, n / 8);
  push_text_value(L, parse, s, n, what, makers);
  return 1;
}

static int l_decode(lua_State *L) { return decode(L, json_parse_zeros, 0); }

/* core.json_decode_row(text, what): a row of data, as json_parse_rows() reads it */
static int l_decode_row(lua_State *L) { return decode(L, json_parse_rows, 0); }

/* core.json_ordered(text, what, makers) */
static int l_ordered(lua_State *L) {
  lua_settop(L, 3);
  luaL_checktype(L, 3, LUA_TTABLE);
  return decode(L, json_parse_zeros, 3);
}

/* ---- writing ------------------------------------------------------------------------ */

enum { VALUE_WORK = 4, TABLE_WORK = 16 }; /* what limited code pays for, in instructions */

typedef struct Writer {
  lua_State *L;
  Buf *b;
  int indent, depth;
} Writer;

static void put_value(Writer *w, int index);

static void new_line(Writer *w) {
  if (!w->indent) return;
  buf_putc(w->b, '\n');
  for (int i = 0; i < w->indent * w->depth; i++) buf_putc(w->b, ' ');
}

static void put_list(Writer *w, int index, lua_Integer n) {
  buf_putc(w->b, '[');
  w->depth++;
  for (lua_Integer i = 1; i <= n; i++) {
    if (i > 1) buf_puts(w->b, w->indent ? "," : ", ");
    new_line(w);
    lua_rawgeti(w->L, index, i);
    put_value(w, lua_gettop(w->L));
    lua_pop(w->L, 1);
  }
  w->depth--;
  if (n) new_line(w);
  buf_putc(w->b, ']');
}

typedef struct Key {
  const char *s;
  size_t n;
} Key;

static int by_key(const void *pa, const void *pb) {
  const Key *a = pa, *b = pb;
  int d = memcmp(a->s, b->s, a->n < b->n ? a->n : b->n);
  if (d) return d;
  return a->n < b->n ? -1 : a->n > b->n;
}

static void put_object(Writer *w, int index, size_t n) {
  lua_State *L = w->L;
  Key *keys = push_scratch(L, n, sizeof *keys);
  size_t i = 0;
  lua_pushnil(L);
  while (lua_next(L, index)) {
    lua_pop(L, 1);
    keys[i].s = lua_tolstring(L, -1, &keys[i].n); /* a string: lua_tolstring changes nothing */
    i++;
  }
  qsort(keys, n, sizeof *keys, by_key);
  buf_putc(w->b, '{');
  w->depth++;
  for (i = 0; i < n; i++) {
    if (i) buf_puts(w->b, w->indent ? "," : ", ");
    new_line(w);
    json_put_string(w->b, keys[i].s, keys[i].n);
    buf_puts(w->b, ": ");
    lua_pushlstring(L, keys[i].s, keys[i].n);
    lua_rawget(L, index);
    put_value(w, lua_gettop(L));
    lua_pop(L, 1);
  }
  w->depth--;
  if (n) new_line(w);
  buf_putc(w->b, '}');
  lua_pop(L, 1);
}

bool is_json_object(lua_State *L, int index) {
  if (!lua_getmetatable(L, index)) return false;
  luaL_getmetatable(L, OBJECT_TYPE);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same;
}

void set_json_object(lua_State *L, int index) {
  lua_pushvalue(L, index);
  luaL_setmetatable(L, OBJECT_TYPE);
  lua_pop(L, 1);
}

static void put_table(Writer *w, int index) {
  lua_State *L = w->L;
  lua_Integer n = (lua_Integer)lua_rawlen(L, index);
  size_t strings = 0, others = 0;
  lua_pushnil(L);
  while (lua_next(L, index)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING) {
      strings++;
    } else if (lua_isinteger(L, -1) && lua_tointeger(L, -1) >= 1 && lua_tointeger(L, -1) <= n) {
      others++;
    } else {
      lua_pushvalue(L, -1);
      const char *key = lua_tostring(L, -1); /* of a number; no metamethod is called */
      raise_new(L, GRPO_EARG,
                "JSON: a table has the key %s, but keys must be strings, or 1, 2, ... without gaps",
                key ? key : lua_pushfstring(L, "of type %s", luaL_typename(L, -1)));
    }
  }
  if (strings && others)
    raise_new(L, GRPO_EARG, "JSON: a table has both strings and numbers as keys");
  if (strings || (n == 0 && is_json_object(L, index)))
    put_object(w, index, strings);
  else
    put_list(w, index, n);
}

static void put_number(lua_State *L, Writer *w, int index) {
  if (lua_isinteger(L, index)) {
    buf_printf(w->b, "%lld", (long long)lua_tointeger(L, index));
    return;
  }
  const double v = (double)lua_tonumber(L, index);
  json_put_number(w->b, v);
  if (v == 0 && signbit(v)) buf_puts(w->b, ".0"); /* "-0" would be read as an integer */
}

static void put_value(Writer *w, int index) {
  lua_State *L = w->L;
  size_t n;
  const char *s;
  luaL_checkstack(L, 8, "JSON nested too deep");
  charge_work(L, lua_istable(L, index) ? TABLE_WORK : VALUE_WORK);
  if (w->depth > JSON_MAX_DEPTH)
    raise_new(L, GRPO_EARG, "JSON: nested deeper than %d (a table inside itself?)", JSON_MAX_DEPTH);
  switch (lua_type(L, index)) {
  case LUA_TNIL:
    buf_puts(w->b, "null");
    break;
  case LUA_TBOOLEAN:
    buf_puts(w->b, lua_toboolean(L, index) ? "true" : "false");
    break;
  case LUA_TNUMBER:
    put_number(L, w, index);
    break;
  case LUA_TSTRING:
    s = lua_tolstring(L, index, &n);
    charge_work(L, n / 16);
    json_put_string(w->b, s, n);
    break;
  case LUA_TTABLE:
    put_table(w, index);
    break;
  default:
    if (lua_touserdata(L, index) == &null_key)
      buf_puts(w->b, "null");
    else
      raise_new(L, GRPO_EARG, "JSON: cannot write a %s", luaL_typename(L, index));
  }
}

void put_json(lua_State *L, int index, Buf *b, int indent) {
  Writer w = {.L = L, .b = b, .indent = indent};
  put_value(&w, lua_absindex(L, index));
}

static int l_encode(lua_State *L) {
  static const char *const known[] = {"indent", NULL};
  int indent = 0;
  luaL_checkany(L, 1);
  check_fields(L, 2, "json.encode", known);
  field_int(L, 2, "json.encode", "indent", 0, 16, &indent);
  Buf *b = push_buf(L);
  put_json(L, 1, b, indent);
  want_ok(L, buf_status(b));
  push_bytes(L, b);
  keep_buf(L, b);
  return 1;
}

/* core.json_object(t) -> t: written as an object even when empty */
static int l_object(lua_State *L) {
  check_table(L, 1);
  lua_settop(L, 1);
  luaL_setmetatable(L, OBJECT_TYPE);
  return 1;
}

CORE_PART(json) {
  static const luaL_Reg functions[] = {
      {"json_decode", l_decode}, {"json_decode_row", l_decode_row}, {"json_ordered", l_ordered},
      {"json_encode", l_encode}, {"json_object", l_object},         {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  luaL_newmetatable(L, OBJECT_TYPE);
  lua_pop(L, 1);
  push_json_null(L);
  lua_setfield(L, -2, "json_null");
}
