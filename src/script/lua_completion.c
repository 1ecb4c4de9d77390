/* lua_completion.c - core.keep_completion, core.restore_completion: a completion stays as it was
 * sampled, whatever a reward does to its table.
 *
 * Fields of other names are a reward's own and stay.
 */
#include "script/binding.h"

typedef enum Elements {
  WHOLE,  /* the value itself is kept */
  LIST,   /* and, if it is a table, the elements of the list */
  FIELDS, /* or all its fields */
  MEMBERS /* a list that is the same in all completions of the group: kept by the first */
} Elements;

/* The fields of the documentation, and what a step adds after the rewards. */
enum { INDEX, REWARDS };
static const struct {
  const char *name;
  Elements elements;
} rows[] = {[INDEX] = {"index", WHOLE},
            [REWARDS] = {"rewards", FIELDS},
            {"text", WHOLE},
            {"row", WHOLE},
            {"rng", WHOLE},
            {"length", WHOLE},
            {"prompt", WHOLE},
            {"messages", WHOLE},
            {"ids", LIST},
            {"logprobs", LIST},
            {"target_ids", LIST},
            {"target_logprobs", LIST},
            {"finish", WHOLE},
            {"truncated", WHOLE},
            {"group", MEMBERS},
            {"prompt_index", WHOLE},
            {"step", WHOLE},
            {"tokens_seen", WHOLE},
            {"state", WHOLE},
            {"sampled", LIST},
            {"parts", WHOLE},
            {"turns", WHOLE},
            {"tool_calls", WHOLE},
            {"tool_failures", WHOLE},
            {"environment", FIELDS},
            {"reward", WHOLE},
            {"advantage", LIST},
            {"kl", WHOLE},
            {"kl_penalty", WHOLE}};
enum { ROWS = sizeof rows / sizeof *rows };

/* Upvalue 1 of both functions: the names, so that no string is made. */
static void push_field(lua_State *L, int row) {
  lua_rawgeti(L, lua_upvalueindex(1), row + 1);
  lua_rawget(L, 1);
}

/* Equal, or both not a number. */
static bool same(lua_State *L, int a, int b) {
  if (lua_rawequal(L, a, b)) return true;
  if (lua_type(L, a) != LUA_TNUMBER || lua_type(L, b) != LUA_TNUMBER) return false;
  const lua_Number x = lua_tonumber(L, a), y = lua_tonumber(L, b);
  return x != x && y != y;
}

/* Replaces the table on top by a copy. */
static void copy(lua_State *L, bool list) {
  const int table = lua_gettop(L);
  const lua_Integer n = (lua_Integer)lua_rawlen(L, table);
  lua_createtable(L, list ? (int)n : 0, 0);
  for (lua_Integer i = 1; list && i <= n; i++) {
    lua_rawgeti(L, table, i);
    lua_rawseti(L, table + 1, i);
  }
  if (!list) {
    for (lua_pushnil(L); lua_next(L, table);) {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, table + 1);
    }
  }
  lua_replace(L, table);
}

/* keep_completion(c) -> what restore_completion needs: the fields by their numbers
 * (core.completion_fields), and behind them copies of those with elements */
static int l_keep_completion(lua_State *L) {
  check_table(L, 1);
  lua_settop(L, 1);
  push_field(L, INDEX);
  const bool first = lua_tointeger(L, 2) == 1;
  lua_settop(L, 1);
  lua_createtable(L, 2 * ROWS, 0);
  for (int i = 0; i < ROWS; i++) {
    const Elements e = rows[i].elements;
    push_field(L, i);
    if (e != WHOLE && (e != MEMBERS || first) && lua_istable(L, -1)) {
      lua_pushvalue(L, -1);
      copy(L, e != FIELDS);
      lua_rawseti(L, 2, ROWS + i + 1);
    }
    lua_rawseti(L, 2, i + 1);
  }
  return 1;
}

/* Stack: table copy.  Gives the table the elements of the copy; returns whether any differed. */
static bool restore_list(lua_State *L, int table) {
  const lua_Integer n = (lua_Integer)lua_rawlen(L, table + 1);
  bool changed = false;
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, table, i);
    lua_rawgeti(L, table + 1, i);
    if (!same(L, -1, -2)) {
      lua_pushvalue(L, -1);
      lua_rawseti(L, table, i);
      changed = true;
    }
    lua_settop(L, table + 1);
  }
  for (lua_Integer i = (lua_Integer)lua_rawlen(L, table); i > n; i--) {
    lua_pushnil(L);
    lua_rawseti(L, table, i);
    changed = true;
  }
  return changed;
}

static bool restore_fields(lua_State *L, int table) {
  bool changed = false;
  for (lua_pushnil(L); lua_next(L, table + 1); lua_settop(L, table + 2)) { /* key value */
    lua_pushvalue(L, -2);
    lua_rawget(L, table);
    if (same(L, -1, -2)) continue;
    lua_pushvalue(L, table + 2);
    lua_pushvalue(L, table + 3);
    lua_rawset(L, table);
    changed = true;
  }
  for (lua_pushnil(L); lua_next(L, table); lua_settop(L, table + 2)) {
    lua_pushvalue(L, table + 2);
    if (lua_rawget(L, table + 1) != LUA_TNIL) continue;
    lua_pushvalue(L, table + 2);
    lua_pushnil(L);
    lua_rawset(L, table);
    changed = true;
  }
  return changed;
}

/* Stack: c kept field.  Is the field of this row as it was?  If not, it becomes so. */
static bool is_kept(lua_State *L, int row) {
  bool kept = true;
  push_field(L, row);
  if (!same(L, 3, 4)) {
    kept = false;
    lua_rawgeti(L, lua_upvalueindex(1), row + 1);
    lua_pushvalue(L, 3);
    lua_rawset(L, 1);
  }
  if (rows[row].elements == WHOLE) return kept;
  lua_settop(L, 3);
  if (lua_rawgeti(L, 2, ROWS + row + 1) != LUA_TTABLE) return kept;
  if (lua_getmetatable(L, 3)) { /* these tables are ours, and had none */
    lua_pushnil(L);
    lua_setmetatable(L, 3);
    lua_settop(L, 4);
    kept = false;
  }
  return !(rows[row].elements == FIELDS ? restore_fields(L, 3) : restore_list(L, 3)) && kept;
}

/* restore_completion(c, kept) -> "c.NAME", a field that was changed; nil: none was */
static int l_restore_completion(lua_State *L) {
  const char *found = NULL;
  check_table(L, 1);
  check_table(L, 2);
  lua_settop(L, 2);
  if (lua_getmetatable(L, 1)) {
    lua_pushnil(L);
    lua_setmetatable(L, 1);
    found = "";
  }
  lua_settop(L, 2);
  for (int i = 0; i < ROWS; i++) {
    lua_rawgeti(L, 2, i + 1);
    if (!is_kept(L, i)) found = rows[i].name;
    lua_settop(L, 2);
  }
  if (!found) return 0;
  lua_pushfstring(L, *found ? "c.%s" : "the metatable of c", found);
  return 1;
}

CORE_PART(completion) {
  static const luaL_Reg functions[] = {FN(keep_completion), FN(restore_completion), {NULL, NULL}};
  lua_createtable(L, ROWS, 0);
  lua_createtable(L, 0, ROWS + 1);
  for (int i = 0; i < ROWS; i++) {
    lua_pushstring(L, rows[i].name);
    lua_rawseti(L, -3, i + 1);
    set_integer(L, rows[i].name, i + 1);
  }
  set_integer(L, "given",
              ROWS + REWARDS + 1); /* the copy of rewards, to which new ones are added */
  lua_setfield(L, -3, "completion_fields");
  luaL_setfuncs(L, functions, 1);
}
