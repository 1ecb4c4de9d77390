/* errors.c - the one door from C failures to Lua errors, strict globals, and
 * the search for the user's line.
 *
 * An error object is a table {code=, message=, where=[, traceback=, fatal=,
 * value=]}: message starts with the script's position, `where` is the place
 * in the C sources, `value` what a script raised when it was not a string.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/minmax.h"
#include "script/script.h"
#include "script/script_impl.h"

#define ERROR_TYPE "grpo.Error"

/* ---- positions ---------------------------------------------------------------------- */

bool is_library_source(lua_State *L, const char *source) {
  static const char installed[] = "/share/grpo/lua/";
  static const char kept[] = "/source/modules/grpo/"; /* a run's own copies */
  if (*source++ != '@') return false;
  if (strncmp(source, "./", 2) == 0) source += 2;
  return strncmp(source, "lua/grpo/", 9) == 0 || strstr(source, installed) != NULL ||
         strstr(source, kept) != NULL || script_embedded(L, source, strlen(source)) != NULL;
}

/* The level-th Lua frame of the user's (1: the innermost); false when there is none. */
static bool user_frame(lua_State *L, int level, lua_Debug *ar) {
  for (int i = 0; lua_getstack(L, i, ar); i++) {
    lua_getinfo(L, "Sl", ar);
    if (ar->currentline > 0 && !is_library_source(L, ar->source) && --level <= 0) return true;
  }
  return false;
}

void push_where(lua_State *L, int level) {
  lua_Debug ar;
  if (user_frame(L, level, &ar))
    lua_pushfstring(L, "%s:%d", ar.short_src, ar.currentline);
  else
    lua_pushliteral(L, "?");
}

/* Pushes "script.lua:14: ", or "" when no script of the user's is running. */
static void push_position(lua_State *L) {
  lua_Debug ar;
  if (user_frame(L, 1, &ar))
    lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
  else
    lua_pushliteral(L, "");
}

/* ---- error objects ------------------------------------------------------------------ */

void push_error(lua_State *L, Status s, const char *message) {
  lua_createtable(L, 0, 4);
  luaL_setmetatable(L, ERROR_TYPE);
  set_string(L, "code", status_name(s));
  push_position(L);
  lua_pushstring(L, message);
  lua_concat(L, 2);
  lua_setfield(L, -2, "message");
}

int raise_status(lua_State *L, Status s) {
  luaL_checkstack(L, 6, "error");
  push_error(L, s, err_message());
  set_string(L, "where", err_where());
  return lua_error(L);
}

static int raise_text(lua_State *L, Status s, const char *text) {
  luaL_checkstack(L, 6, "error");
  push_error(L, s, text);
  return lua_error(L);
}

int raise_new(lua_State *L, Status s, const char *fmt, ...) {
  char text[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return raise_text(L, s, text);
}

/* The called function's name as the caller wrote it, and whether it was a method call. */
static const char *callee(lua_State *L, bool *method) {
  lua_Debug ar;
  *method = false;
  if (!lua_getstack(L, 0, &ar)) return "?";
  lua_getinfo(L, "n", &ar);
  *method = strcmp(ar.namewhat, "method") == 0;
  return ar.name ? ar.name : "?";
}

int arg_error(lua_State *L, int arg, const char *fmt, ...) {
  char detail[512], text[768];
  bool method;
  const char *name = callee(L, &method);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(detail, sizeof detail, fmt, ap);
  va_end(ap);
  if (method && arg == 1) {
    snprintf(text, sizeof text, "bad self in call to '%s' (%s)", name, detail);
  } else {
    snprintf(text, sizeof text, "bad argument #%d to '%s' (%s)", arg - method, name, detail);
  }
  return raise_text(L, GRPO_EARG, text);
}

int type_error(lua_State *L, int arg, const char *wanted) {
  const char *got = luaL_typename(L, arg);
  if (luaL_getmetafield(L, arg, "__name") == LUA_TSTRING) got = lua_tostring(L, -1);
  return arg_error(L, arg, "%s expected, got %s", wanted, lua_isnone(L, arg) ? "no value" : got);
}

int push_failure(lua_State *L, Status s) {
  lua_pushnil(L);
  lua_pushstring(L, err_message());
  lua_pushstring(L, status_name(s));
  return 3;
}

static bool is_error(lua_State *L, int index) {
  if (!lua_getmetatable(L, index)) return false;
  luaL_getmetatable(L, ERROR_TYPE);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same;
}

/* Pushes the text of a number, string or boolean, else the name of its type: an address would differ
 * from run to run. */
static void push_plain(lua_State *L, int index) {
  const int type = lua_type(L, index);
  lua_pushvalue(L, index);
  if (lua_tolstring(L, -1, NULL)) return; /* unlike luaL_tolstring, asks no metatable */
  lua_pop(L, 1);
  if (type == LUA_TBOOLEAN)
    lua_pushstring(L, lua_toboolean(L, index) ? "true" : "false");
  else
    lua_pushstring(L, lua_typename(L, type));
}

/* The text on top goes into the list of the first MOST texts in order. */
enum { MOST_FIELDS = 4 };
static void keep_first(lua_State *L, int list, int n) {
  int at = n < MOST_FIELDS ? n + 1 : MOST_FIELDS + 1;
  for (; at > 1; at--) {
    lua_rawgeti(L, list, at - 1);
    const bool before = lua_compare(L, -2, -1, LUA_OPLT);
    if (before)
      lua_rawseti(L, list, at);
    else
      lua_pop(L, 1);
    if (!before) break;
  }
  lua_rawseti(L, list, at);
}

/* Of a table without a text of its own: "a table was raised as an error: { code = 5, ... }". */
static void push_table_message(lua_State *L, int index) {
  luaL_Buffer b;
  int n = 0;
  lua_newtable(L);
  const int list = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, index); n++) {
    push_plain(L, list + 1);
    lua_pushliteral(L, " = ");
    push_plain(L, list + 2);
    lua_concat(L, 3);
    keep_first(L, list, n);
    lua_settop(L, list + 1);
  }
  luaL_buffinit(L, &b);
  luaL_addstring(&b, "a table was raised as an error: {");
  for (int i = 1; i <= n && i <= MOST_FIELDS; i++) {
    luaL_addstring(&b, i > 1 ? ", " : " ");
    lua_rawgeti(L, list, i);
    luaL_addvalue(&b);
  }
  luaL_addstring(&b, n > MOST_FIELDS ? ", ... }" : n ? " }" : "}");
  luaL_pushresult(&b);
  lua_remove(L, list);
}

/* Puts "script.lua:14: " in front of the text on top: error() does so with strings alone. */
static void add_position(lua_State *L) {
  lua_Debug ar;
  if (!user_frame(L, 1, &ar) || *ar.source != '@')
    return; /* of a line at the prompt it says nothing */
  lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
  lua_insert(L, -2);
  lua_concat(L, 2);
}

/* Pushes what the value's __tostring gives, which is the script's and has its quota. */
static void push_own_text(lua_State *L, int index) {
  Budget *b = script_of(L)->budget;
  const bool lifted = b && b->lifted;
  if (b) b->lifted = false;
  luaL_tolstring(L, index, NULL);
  if (b) b->lifted = lifted;
}

/* Pushes the text of an error that may be any value; raised: what raised it is on the stack still, and
 * may be called. */
static void push_message(lua_State *L, int index, bool raised) {
  index = lua_absindex(L, index);
  const bool simple = lua_isstring(L, index) || lua_isnil(L, index);
  const bool has_text = !simple && luaL_getmetafield(L, index, "__tostring") != LUA_TNIL;
  if (has_text) lua_pop(L, 1);
  if (lua_isnil(L, index))
    lua_pushliteral(L, "nil was raised as an error; give error() a message");
  else if (has_text && raised)
    push_own_text(L, index);
  else if (lua_istable(L, index) && !has_text)
    push_table_message(L, index);
  else
    push_plain(L, index);
  if (raised && !has_text && !lua_isstring(L, index)) add_position(L);
}

void complete_error(lua_State *L, bool traceback) {
  luaL_checkstack(L, 8, "error");
  if (!is_error(L, -1)) { /* value */
    lua_createtable(L, 0, 4);
    luaL_setmetatable(L, ERROR_TYPE);
    set_string(L, "code", status_name(GRPO_ESCRIPT));
    if (lua_type(L, -2) != LUA_TSTRING) {
      lua_pushvalue(L, -2);
      lua_setfield(L, -2, "value");
    }
    push_message(L, -2, traceback);
    lua_setfield(L, -2, "message");
    lua_remove(L, -2);
  }
  if (!traceback) return;
  if (lua_getfield(L, -1, "traceback") == LUA_TNIL) {
    luaL_traceback(L, L, NULL, 1);
    lua_setfield(L, -3, "traceback");
  }
  lua_pop(L, 1);
}

const char *raw_message(lua_State *L, int index) {
  const char *text = lua_tostring(L, index);
  if (lua_istable(L, index)) {
    index = lua_absindex(L, index);
    lua_pushliteral(L, "message");
    lua_rawget(L, index);
    text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    lua_pop(L, 1);
  }
  return text ? text : "an error without a message";
}

static int error_tostring(lua_State *L) {
  if (!lua_istable(L, 1)) return type_error(L, 1, ERROR_TYPE);
  lua_getfield(L, 1, "message");
  if (!lua_isstring(L, -1)) lua_pushliteral(L, "(error without a message)");
  return 1;
}

static int error_concat(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  luaL_tolstring(L, 2, NULL);
  lua_concat(L, 2);
  return 1;
}

/* ---- closest names ------------------------------------------------------------------ */

/* Edit distance with transpositions of neighbours; names past 63 bytes are never near. */
static int distance(const char *a, const char *b) {
  int d[3][64], na = (int)strnlen(a, 64), nb = (int)strnlen(b, 64);
  if (na > 63 || nb > 63) return 64;
  for (int j = 0; j <= nb; j++) d[0][j] = j;
  for (int i = 1; i <= na; i++) {
    int *row = d[i % 3], *up = d[(i + 2) % 3], *up2 = d[(i + 1) % 3];
    row[0] = i;
    for (int j = 1; j <= nb; j++) {
      row[j] = min_int(min_int(up[j], row[j - 1]) + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = min_int(row[j], up2[j - 2] + 1);
    }
  }
  return d[na % 3][nb];
}

const char *nearest_name(const char *name, const char *const *names, size_t n) {
  const char *best = NULL;
  int limit = 1 + (int)strnlen(name, 64) / 3, least = limit + 1;
  for (size_t i = 0; i < n; i++) {
    int d = distance(name, names[i]);
    if (d < least) least = d, best = names[i];
  }
  return best;
}

/* ---- strict globals ----------------------------------------------------------------- */

/* Closest string key of the table at index; pushes it or nil. */
static void push_nearest_key(lua_State *L, int index, const char *name) {
  int least = 2 + (int)strnlen(name, 64) / 3;
  index = lua_absindex(L, index);
  lua_pushnil(L); /* best */
  lua_pushnil(L); /* key */
  while (lua_next(L, index)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) != LUA_TSTRING) continue;
    const char *key = lua_tostring(L, -1);
    int d = distance(name, key);
    if (d < least || (d == least && lua_isstring(L, -2) && strcmp(key, lua_tostring(L, -2)) < 0)) {
      least = d;
      lua_pushvalue(L, -1);
      lua_replace(L, -3);
    }
  }
}

static int strict_fail(lua_State *L, const char *what, int env) {
  const char *name = luaL_tolstring(L, 2, NULL), *near = NULL;
  push_nearest_key(L, env, name);
  near = lua_tostring(L, -1);
  return raise_new(L, GRPO_EARG, "%s '%s'%s%s%s", what, name, near ? ", did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
}

/* (env, name); upvalue 1: names declared so far, 2: where unknown names are looked up, or nil */
static int strict_index(lua_State *L) {
  if (!lua_isnil(L, lua_upvalueindex(2))) {
    lua_pushvalue(L, 2);
    if (lua_gettable(L, lua_upvalueindex(2)) != LUA_TNIL) return 1;
  }
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) { /* declared: nil is its value */
    lua_pushnil(L);
    return 1;
  }
  bool own = lua_isnil(L, lua_upvalueindex(2));
  return strict_fail(L, "undefined global", own ? 1 : lua_upvalueindex(2));
}

static int strict_newindex(lua_State *L) {
  lua_Debug ar;
  if (lua_getstack(L, 1, &ar)) {
    lua_getinfo(L, "S", &ar);
    if (strcmp(ar.what, "Lua") == 0)
      return raise_new(L, GRPO_EARG,
                       "assignment to the new global '%s' inside a function; write 'local %s', "
                       "or assign it once at the top of the script",
                       luaL_tolstring(L, 2, NULL), lua_tostring(L, 2));
  }
  lua_pushvalue(L, 2);
  lua_pushboolean(L, 1);
  lua_rawset(L, lua_upvalueindex(1));
  lua_settop(L, 3);
  lua_rawset(L, 1);
  return 0;
}

/* core.strict(env[, base]) -> env: reading an undefined name, or making one in a function, raises. */
static int l_strict(lua_State *L) {
  check_table(L, 1);
  lua_settop(L, 2);
  if (!lua_isnil(L, 2)) check_table(L, 2);
  lua_createtable(L, 0, 3); /* env base mt */
  lua_newtable(L);          /* env base mt declared */
  lua_pushvalue(L, 4);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, strict_index, 2);
  lua_setfield(L, 3, "__index");
  lua_pushvalue(L, 4);
  lua_pushcclosure(L, strict_newindex, 1);
  lua_setfield(L, 3, "__newindex");
  lua_pushvalue(L, 3);
  lua_setmetatable(L, 1);
  lua_settop(L, 1);
  return 1;
}

/* ---- core functions ----------------------------------------------------------------- */

static Status status_of(const char *name) {
  for (int s = 0; s < GRPO_NSTATUS; s++)
    if (name && strcmp(status_name((Status)s), name) == 0) return (Status)s;
  return GRPO_OK;
}

static int l_status_exit(lua_State *L) {
  int code = 1;
  if (lua_istable(L, 1) && lua_getfield(L, 1, "code") == LUA_TSTRING) {
    Status s = status_of(lua_tostring(L, -1));
    if (s != GRPO_OK) code = status_exit(s);
  }
  lua_pushinteger(L, code);
  return 1;
}

/* core.fail(code, message): raises an error object at the user's line. */
static int l_fail(lua_State *L) {
  Status s = status_of(check_string(L, 1, NULL));
  if (s == GRPO_OK) return arg_error(L, 1, "unknown error code '%s'", lua_tostring(L, 1));
  push_error(L, s, check_string(L, 2, NULL));
  return lua_error(L);
}

/* core.error(code, message) -> the same object, not raised and without a position of its own */
static int l_error(lua_State *L) {
  Status s = status_of(check_string(L, 1, NULL));
  if (s == GRPO_OK) return arg_error(L, 1, "unknown error code '%s'", lua_tostring(L, 1));
  check_string(L, 2, NULL);
  push_error(L, s, "");
  lua_pushvalue(L, 2);
  lua_setfield(L, -2, "message");
  return 1;
}

static int l_where(lua_State *L) {
  int level = lua_isnoneornil(L, 1) ? 1 : (int)check_integer(L, 1, 1, 1000);
  push_where(L, level);
  if (strcmp(lua_tostring(L, -1), "?") == 0) lua_pushnil(L); /* no script is running */
  return 1;
}

static int l_is_error(lua_State *L) {
  lua_settop(L, 1);
  lua_pushboolean(L, is_error(L, 1));
  return 1;
}

static int l_nearest(lua_State *L) {
  const char *name = check_string(L, 1, NULL);
  check_table(L, 2);
  lua_settop(L, 2);
  lua_newtable(L);
  for (lua_Integer i = 1; lua_geti(L, 2, i) == LUA_TSTRING; i++) {
    lua_pushboolean(L, 1);
    lua_rawset(L, 3);
  }
  lua_settop(L, 3);
  push_nearest_key(L, 3, name);
  return 1;
}

const luaL_Reg errors_functions[] = {{"error", l_error},
                                     {"fail", l_fail},
                                     {"is_error", l_is_error},
                                     {"nearest", l_nearest},
                                     {"status_exit", l_status_exit},
                                     {"strict", l_strict},
                                     {"where", l_where},
                                     {NULL, NULL}};

void errors_open(lua_State *L) {
  static const luaL_Reg meta[] = {
      {"__tostring", error_tostring}, {"__concat", error_concat}, {NULL, NULL}};
  luaL_newmetatable(L, ERROR_TYPE);
  luaL_setfuncs(L, meta, 0);
  seal_type(L);
  lua_pop(L, 1);
}
