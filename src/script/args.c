#include "script/args.h"

#include <lauxlib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/options.h"
#include "script/errors.h"
#include "script/objects.h"

/* ---- arguments ---------------------------------------------------------------------- */

const char *check_string(lua_State *L, int arg, size_t *len) {
  if (lua_type(L, arg) != LUA_TSTRING) type_error(L, arg, "string");
  return lua_tolstring(L, arg, len);
}

lua_Integer check_integer(lua_State *L, int arg, lua_Integer min, lua_Integer max) {
  int exact;
  if (lua_type(L, arg) != LUA_TNUMBER) type_error(L, arg, "integer");
  lua_Integer v = lua_tointegerx(L, arg, &exact);
  if (!exact) arg_error(L, arg, "integer expected, got %g", (double)lua_tonumber(L, arg));
  if (v < min || v > max)
    arg_error(L, arg, "%lld is out of range, want %lld to %lld", (long long)v, (long long)min,
              (long long)max);
  return v;
}

double check_number(lua_State *L, int arg) {
  if (lua_type(L, arg) != LUA_TNUMBER) type_error(L, arg, "number");
  return (double)lua_tonumber(L, arg);
}

void check_table(lua_State *L, int arg) {
  if (lua_type(L, arg) != LUA_TTABLE) type_error(L, arg, "table");
}

void check_function(lua_State *L, int arg) {
  if (lua_type(L, arg) != LUA_TFUNCTION) type_error(L, arg, "function");
}

/* ---- option tables ------------------------------------------------------------------ */

static int unknown_field(lua_State *L, const char *where, const char *const *known) {
  size_t n = 0;
  if (lua_type(L, -2) != LUA_TSTRING) {
    luaL_tolstring(L, -2, NULL);
    return raise_new(L, GRPO_EARG, "%s: unexpected field [%s], because options are named", where,
                     lua_tostring(L, -1));
  }
  while (known[n]) n++;
  const char *name = lua_tostring(L, -2), *near = nearest_name(name, known, n);
  if (near)
    return raise_new(L, GRPO_EARG, "%s.%s: unknown option, did you mean '%s'?", where, name, near);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (size_t i = 0; i < n; i++) {
    if (i) luaL_addstring(&b, ", ");
    luaL_addstring(&b, known[i]);
  }
  luaL_pushresult(&b);
  return raise_new(L, GRPO_EARG, "%s.%s: unknown option; there are: %s", where, name,
                   lua_tostring(L, -1));
}

static bool is_known(const char *name, const char *const *known) {
  for (; *known; known++)
    if (strcmp(name, *known) == 0) return true;
  return false;
}

void check_fields(lua_State *L, int index, const char *where, const char *const *known) {
  if (lua_isnoneornil(L, index)) return;
  index = lua_absindex(L, index);
  if (!lua_istable(L, index))
    raise_new(L, GRPO_EARG, "%s: a table of options expected, got %s", where,
              luaL_typename(L, index));
  lua_pushnil(L);
  while (lua_next(L, index)) {
    if (lua_type(L, -2) != LUA_TSTRING || !is_known(lua_tostring(L, -2), known))
      unknown_field(L, where, known);
    lua_pop(L, 1);
  }
}

/* Pushes the field; returns false, and pushes nothing, if it is nil. */
static bool get_field(lua_State *L, int index, const char *name) {
  if (!lua_istable(L, index)) return false;
  if (lua_getfield(L, index, name) != LUA_TNIL) return true;
  lua_pop(L, 1);
  return false;
}

/* Describes the value on top, for a message. */
static const char *shown(lua_State *L) {
  if (lua_type(L, -1) == LUA_TSTRING) return lua_pushfstring(L, "'%s'", lua_tostring(L, -1));
  if (lua_isnumber(L, -1) || lua_isboolean(L, -1)) return luaL_tolstring(L, -1, NULL);
  return luaL_typename(L, -1);
}

static int wrong_field(lua_State *L, const char *where, const char *name, const char *wanted) {
  return raise_new(L, GRPO_EARG, "%s.%s: want %s, got %.80s", where, name, wanted, shown(L));
}

bool field_number(lua_State *L, int index, const char *where, const char *name, double min,
                  double max, double *v) {
  if (!get_field(L, index, name)) return false;
  double x = lua_type(L, -1) == LUA_TNUMBER ? (double)lua_tonumber(L, -1) : NAN;
  if (!(isfinite(x) && x >= min && x <= max))
    wrong_field(L, where, name, wanted_number(false, min, max).s);
  *v = x;
  lua_pop(L, 1);
  return true;
}

static bool field_integer(lua_State *L, int index, const char *where, const char *name,
                          lua_Integer min, lua_Integer max, lua_Integer *v) {
  if (!get_field(L, index, name)) return false;
  int exact = 0;
  lua_Integer x = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &exact) : 0;
  if (!exact || x < min || x > max) {
    char wanted[96];
    snprintf(wanted, sizeof wanted, "an integer from %lld to %lld", (long long)min, (long long)max);
    wrong_field(L, where, name, wanted);
  }
  *v = x;
  lua_pop(L, 1);
  return true;
}

bool field_int(lua_State *L, int index, const char *where, const char *name, lua_Integer min,
               lua_Integer max, int *v) {
  lua_Integer x;
  if (!field_integer(L, index, where, name, min, max, &x)) return false;
  *v = (int)x;
  return true;
}

bool field_seed(lua_State *L, int index, const char *where, const char *name, uint64_t *v) {
  lua_Integer x;
  if (!field_integer(L, index, where, name, LUA_MININTEGER, LUA_MAXINTEGER, &x)) return false;
  *v = (uint64_t)x;
  return true;
}

bool field_bool(lua_State *L, int index, const char *where, const char *name, bool *v) {
  if (!get_field(L, index, name)) return false;
  if (!lua_isboolean(L, -1)) wrong_field(L, where, name, "true or false");
  *v = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return true;
}

bool field_string(lua_State *L, int index, const char *where, const char *name, const char **v) {
  if (!get_field(L, index, name)) return false;
  if (lua_type(L, -1) != LUA_TSTRING) wrong_field(L, where, name, "a string");
  *v = lua_tostring(L, -1);
  return true;
}

bool field_choice(lua_State *L, int index, const char *where, const char *name,
                  const char *const *choices, int *v) {
  size_t n = 0;
  const char *s;
  if (!field_string(L, index, where, name, &s)) return false;
  for (; choices[n]; n++)
    if (strcmp(choices[n], s) == 0) {
      *v = (int)n;
      lua_pop(L, 1);
      return true;
    }
  const char *near = nearest_name(s, choices, n);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (size_t i = 0; i < n; i++) {
    luaL_addstring(&b, i ? ", '" : "'");
    luaL_addstring(&b, choices[i]);
    luaL_addchar(&b, '\'');
  }
  luaL_pushresult(&b);
  if (near)
    raise_new(L, GRPO_EARG, "%s.%s: '%.80s' is not known, did you mean '%s'?", where, name, s,
              near);
  raise_new(L, GRPO_EARG, "%s.%s: want one of %s, got '%.80s'", where, name, lua_tostring(L, -1),
            s);
  return false;
}

void field_no_decay(lua_State *L, int index, const char *where, bool *bias, bool *norm) {
  if (!get_field(L, index, "no_decay")) return;
  if (!lua_istable(L, -1)) wrong_field(L, where, "no_decay", "a list of \"bias\" and \"norm\"");
  *bias = *norm = false;
  for (lua_Integer i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
    const char *kind = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (strcmp(kind, "bias") == 0)
      *bias = true;
    else if (strcmp(kind, "norm") == 0)
      *norm = true;
    else
      raise_new(L, GRPO_EARG, "%s.no_decay[%d]: want \"bias\" or \"norm\", got %.60s", where,
                (int)i, shown(L));
    lua_pop(L, 1);
  }
  lua_pop(L, 2);
}

/* ---- tables for Lua ----------------------------------------------------------------- */

void set_string(lua_State *L, const char *key, const char *value) {
  lua_pushstring(L, value);
  lua_setfield(L, -2, key);
}

void set_number(lua_State *L, const char *key, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, key);
}

void set_integer(lua_State *L, const char *key, lua_Integer value) {
  lua_pushinteger(L, value);
  lua_setfield(L, -2, key);
}

void set_bool(lua_State *L, const char *key, bool value) {
  lua_pushboolean(L, value);
  lua_setfield(L, -2, key);
}

int give_string(lua_State *L, const char *value) {
  lua_pushstring(L, value);
  return 1;
}

int give_number(lua_State *L, double value) {
  lua_pushnumber(L, value);
  return 1;
}

int give_integer(lua_State *L, lua_Integer value) {
  lua_pushinteger(L, value);
  return 1;
}

int give_boolean(lua_State *L, bool value) {
  lua_pushboolean(L, value);
  return 1;
}

/* ---- lists --------------------------------------------------------------------------- */

void check_ids(lua_State *L, int index, const char *what, IntBuf *out) {
  index = lua_absindex(L, index);
  if (!lua_istable(L, index))
    raise_new(L, GRPO_EARG, "%s: a list of token ids expected, got %s", what,
              luaL_typename(L, index));
  lua_Integer n = (lua_Integer)lua_rawlen(L, index);
  for (lua_Integer i = 1; i <= n; i++) {
    int exact = 0;
    lua_Integer id = lua_rawgeti(L, index, i) == LUA_TNUMBER ? lua_tointegerx(L, -1, &exact) : -1;
    if (!exact || id < 0 || id > INT32_MAX)
      raise_new(L, GRPO_EARG, "%s[%lld]: a token id (0, 1, ...) expected, got %.60s", what,
                (long long)i, shown(L));
    intbuf_put(out, (int32_t)id);
    lua_pop(L, 1);
  }
  want_ok(L, intbuf_status(out));
}

void push_ids(lua_State *L, const int32_t *ids, size_t n) {
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_pushinteger(L, ids[i]);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

void push_doubles(lua_State *L, const double *v, int n) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushnumber(L, v[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

void push_floats(lua_State *L, const float *v, int n) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushnumber(L, (double)v[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

static const char none_key; /* registry key of core.none */

static int l_none_tostring(lua_State *L) {
  lua_pushliteral(L, "none");
  return 1;
}

void push_none(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &none_key) == LUA_TUSERDATA) return;
  lua_pop(L, 1);
  lua_newuserdatauv(L, 0, 0);
  lua_createtable(L, 0, 2);
  lua_pushcfunction(L, l_none_tostring);
  lua_setfield(L, -2, "__tostring");
  set_string(L, "__name", "grpo.none");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &none_key);
}

static bool is_none(lua_State *L, int index) {
  if (lua_isnil(L, index)) return true;
  lua_pushvalue(L, index);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &none_key);
  const bool same = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return same;
}

double number_or_none(lua_State *L, const char *what, lua_Integer i) {
  if (is_none(L, -1)) return NAN;
  if (lua_type(L, -1) != LUA_TNUMBER)
    raise_new(L, GRPO_EARG, "%s[%lld]: a number or grpo.none expected, got %s", what, (long long)i,
              luaL_typename(L, -1));
  const double v = (double)lua_tonumber(L, -1);
  if (!isfinite(v))
    raise_new(L, GRPO_EARG, "%s[%lld]: a finite number expected, got %g", what, (long long)i, v);
  return v;
}

double *push_numbers(lua_State *L, int index, const char *what, int *n) {
  index = lua_absindex(L, index);
  if (!lua_istable(L, index))
    raise_new(L, GRPO_EARG, "%s: a list of numbers expected, got %s", what,
              luaL_typename(L, index));
  *n = (int)lua_rawlen(L, index);
  double *v = push_scratch(L, (size_t)*n, sizeof *v);
  for (int i = 0; i < *n; i++) {
    lua_rawgeti(L, index, i + 1);
    v[i] = number_or_none(L, what, i + 1);
    lua_pop(L, 1);
  }
  return v;
}
