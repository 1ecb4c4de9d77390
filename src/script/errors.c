/* errors.c - error objects and the search for the user's line.
 *
 * An error object is a table {code=, message=, where=[, traceback=, fatal=, value=]}.  `message`
 * begins with the script's position, `where` is the place in the C sources, and `value` is what a
 * script raised if that was not a string.
 */
#include "script/errors.h"

#include <lauxlib.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "script/script_impl.h"

/* ---- positions ---------------------------------------------------------------------- */

/* Is this source (lua_Debug.source) part of the Lua half? */
static bool is_library_source(lua_State *L, const char *source) {
  static const char installed[] = "/share/grpo/lua/";
  static const char copied[] = "/source/modules/grpo/"; /* a run keeps copies of modules there */
  if (*source++ != '@') return false;
  if (strncmp(source, "./", 2) == 0) source += 2;
  return strncmp(source, "lua/grpo/", 9) == 0 || strstr(source, installed) != NULL ||
         strstr(source, copied) != NULL || script_embedded(L, source, strlen(source)) != NULL;
}

/* Finds the level-th Lua frame of the user's code, 1 being the innermost. */
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

/* Pushes "script.lua:14: ", or "" if no code of the user's is running. */
static void push_position(lua_State *L) {
  lua_Debug ar;
  if (user_frame(L, 1, &ar))
    lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
  else
    lua_pushliteral(L, "");
}

static void set_text(lua_State *L, const char *key, const char *value) {
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

/* ---- error objects ------------------------------------------------------------------ */

void push_error(lua_State *L, Status s, const char *message) {
  lua_createtable(L, 0, 4);
  luaL_setmetatable(L, ERROR_TYPE);
  set_text(L, "code", status_name(s));
  push_position(L);
  lua_pushstring(L, message);
  lua_concat(L, 2);
  lua_setfield(L, -2, "message");
}

/* Raises the value on top. */
RAISES static void raise_top(lua_State *L) {
  lua_error(L);
  abort(); /* never reached; lua.h does not say so */
}

int raise_status(lua_State *L, Status s) {
  luaL_checkstack(L, 6, "error");
  if (s == GRPO_ENOMEM) script_of(L)->no_memory = true;
  push_error(L, s, err_message());
  set_text(L, "where", err_where());
  raise_top(L);
}

void want_ok(lua_State *L, Status s) {
  if (s) raise_status(L, s);
}

RAISES static void raise_text(lua_State *L, Status s, const char *text) {
  luaL_checkstack(L, 6, "error");
  push_error(L, s, text);
  raise_top(L);
}

int raise_new(lua_State *L, Status s, const char *fmt, ...) {
  char text[1024];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  raise_text(L, s, text);
}

/* Returns the called function's name as the caller wrote it, and whether it was a method call. */
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
  raise_text(L, GRPO_EARG, text);
}

int type_error(lua_State *L, int arg, const char *wanted) {
  const char *got = luaL_typename(L, arg);
  if (luaL_getmetafield(L, arg, "__name") == LUA_TSTRING) got = lua_tostring(L, -1);
  arg_error(L, arg, "%s expected, got %s", wanted, lua_isnone(L, arg) ? "no value" : got);
}

int push_failure(lua_State *L, Status s) {
  lua_pushnil(L);
  lua_pushstring(L, err_message());
  lua_pushstring(L, status_name(s));
  return 3;
}

int give_done(lua_State *L, Status s) {
  if (s) return push_failure(L, s);
  lua_pushboolean(L, true);
  return 1;
}

Status fail_raised(lua_State *L, const char *what) {
  const char *message = raw_message(L, -1);
  if (message) return fail(GRPO_ESCRIPT, "%s", message);
  return fail(GRPO_ESCRIPT, "%s raised an error", what);
}

bool is_error_object(lua_State *L, int index) {
  if (!lua_getmetatable(L, index)) return false;
  luaL_getmetatable(L, ERROR_TYPE);
  bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same;
}

/* Pushes the text of a number, string or boolean, and of anything else the name of its type,
 * because an address would differ from run to run. */
static void push_plain(lua_State *L, int index) {
  const int type = lua_type(L, index);
  lua_pushvalue(L, index);
  if (lua_tolstring(L, -1, NULL)) return; /* unlike luaL_tolstring it calls no metamethod */
  lua_pop(L, 1);
  if (type == LUA_TBOOLEAN)
    lua_pushstring(L, lua_toboolean(L, index) ? "true" : "false");
  else
    lua_pushstring(L, lua_typename(L, type));
}

/* Pops a text into the sorted list of the MOST_FIELDS first texts; n were given before. */
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

/* Pushes "a table was raised as an error: { code = 5, ... }", for a table without __tostring. */
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

/* Puts "script.lua:14: " in front of the text on top, which error() does with strings only. */
static void add_position(lua_State *L) {
  lua_Debug ar;
  /* A line at the prompt has no file, so a position would say nothing. */
  if (!user_frame(L, 1, &ar) || *ar.source != '@') return;
  lua_pushfstring(L, "%s:%d: ", ar.short_src, ar.currentline);
  lua_insert(L, -2);
  lua_concat(L, 2);
}

/* Pushes the result of the value's __tostring.  That is code of the script, so its quota
 * applies. */
static void push_own_text(lua_State *L, int index) {
  Budget *b = script_of(L)->budget;
  const bool lifted = b && b->lifted;
  if (b) b->lifted = false;
  luaL_tolstring(L, index, NULL);
  if (b) b->lifted = lifted;
}

/* Pushes the text of an error, which may be any value.  `raised` says that the code which raised it
 * is still on the stack, so that its __tostring may be called. */
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
  if (!is_error_object(L, -1)) { /* value */
    lua_createtable(L, 0, 4);
    luaL_setmetatable(L, ERROR_TYPE);
    set_text(L, "code", status_name(GRPO_ESCRIPT));
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
