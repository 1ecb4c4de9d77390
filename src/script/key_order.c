/* key_order.c - see key_order.h.
 *
 * The registry holds a table with weak keys: from an object to the list of its keys.  Objects whose
 * keys come in one order share the list: an order is a node of a tree, with a child for each key
 * that may come next.
 *
 *   node[key] = child, node[PARENT], node[LAST] = its last key,
 *   node[LIST] = the list, once an object ended here; root[NODES] = how many nodes there are
 *
 * The tree is bounded.  Beyond it, and in limited code, where what other code has read must not
 * decide how much memory an object takes, an order is a list of its own.
 */
#include "script/key_order.h"

#include <lauxlib.h>

#include "script/binding.h"
#include "script/budget.h"
#include "script/script_impl.h"

enum { LIST = 1, PARENT = 2, LAST = 3, NODES = 4, MOST_NODES = 4096 };

static const char orders_key, root_key; /* their addresses are keys of the registry */

KeyOrder key_order_begin(lua_State *L) {
  KeyOrder o = {.at = lua_gettop(L) + 1, .own = is_limited(L)};
  luaL_checkstack(L, 12, "an object nested too deep");
  if (o.own)
    lua_newtable(L);
  else
    lua_rawgetp(L, LUA_REGISTRYINDEX, &root_key);
  return o;
}

/* Pushes a new list with the keys of the order, which is a node. */
static void push_keys(lua_State *L, const KeyOrder *o) {
  lua_createtable(L, o->count + 1, 0);
  lua_pushvalue(L, o->at);
  for (int i = o->count; i > 0; i--) {
    lua_rawgeti(L, -1, LAST);
    lua_rawseti(L, -3, i);
    lua_rawgeti(L, -1, PARENT);
    lua_remove(L, -2);
  }
  lua_pop(L, 1);
}

/* Counts one more node; false if there are too many. */
static bool counted(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &root_key);
  lua_rawgeti(L, -1, NODES);
  const lua_Integer nodes = lua_tointeger(L, -1);
  lua_pushinteger(L, nodes + 1);
  lua_rawseti(L, -3, NODES);
  lua_pop(L, 2);
  return nodes < MOST_NODES;
}

/* Makes the child of the node for the key at index `key`, and puts it in the place of the node. */
static void make_child(lua_State *L, const KeyOrder *o, int key) {
  lua_newtable(L);
  lua_pushvalue(L, o->at);
  lua_rawseti(L, -2, PARENT);
  lua_pushvalue(L, key);
  lua_rawseti(L, -2, LAST);
  lua_pushvalue(L, key);
  lua_pushvalue(L, -2);
  lua_rawset(L, o->at);
  lua_replace(L, o->at);
}

void key_order_add(lua_State *L, KeyOrder *o) {
  const int key = lua_gettop(L);
  if (!o->own) {
    lua_pushvalue(L, key);
    if (lua_rawget(L, o->at) != LUA_TNIL) {
      lua_replace(L, o->at);
      o->count++;
      return;
    }
    lua_pop(L, 1);
    if (counted(L)) {
      make_child(L, o, key);
      o->count++;
      return;
    }
    push_keys(L, o);
    lua_replace(L, o->at);
    o->own = true;
  }
  lua_pushvalue(L, key);
  lua_rawseti(L, o->at, ++o->count);
}

static void push_list(lua_State *L, const KeyOrder *o) {
  if (o->own) {
    lua_pushvalue(L, o->at);
    return;
  }
  if (lua_rawgeti(L, o->at, LIST) != LUA_TNIL) return;
  lua_pop(L, 1);
  push_keys(L, o);
  lua_pushvalue(L, -1);
  lua_rawseti(L, o->at, LIST);
}

/* note(object, list) */
static int l_note(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &orders_key);
  lua_insert(L, 1);
  lua_rawset(L, 1);
  return 0;
}

/* In limited code: the table of all orders may grow, which belongs to no limited call. */
static void note_aside(lua_State *L, Script *s, int object, int list) {
  Budget *running = s->budget;
  lua_pushcfunction(L, l_note);
  lua_pushvalue(L, object);
  lua_pushvalue(L, list);
  s->budget = NULL;
  const int status = lua_pcall(L, 2, 0, 0);
  s->budget = running;
  if (status) lua_error(L);
}

void key_order_end(lua_State *L, const KeyOrder *o, int object) {
  if (o->count < 2) return;
  object = lua_absindex(L, object);
  Script *s = script_of(L);
  push_list(L, o);
  if (s->budget) {
    note_aside(L, s, object, lua_gettop(L));
    lua_pop(L, 1);
    return;
  }
  lua_rawgetp(L, LUA_REGISTRYINDEX, &orders_key);
  lua_pushvalue(L, object);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 2);
}

bool key_order_push(lua_State *L, int index) {
  index = lua_absindex(L, index);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &orders_key);
  lua_pushvalue(L, index);
  lua_rawget(L, -2);
  lua_remove(L, -2);
  if (!lua_isnil(L, -1)) return true;
  lua_pop(L, 1);
  return false;
}

/* core.key_order(t) -> the list of the keys that a file gave the object t, which belongs to
 * others too and must not be changed; nil if it came from no file or has fewer than two */
static int l_key_order(lua_State *L) {
  luaL_checkany(L, 1);
  return key_order_push(L, 1);
}

CORE_PART(key_order) {
  static const luaL_Reg functions[] = {FN(key_order), {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &root_key);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &orders_key);
}
