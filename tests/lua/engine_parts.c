/* engine_parts.c - parts of the engine that no script needs, for tests that compare them with
 * readable Lua: PPO's targets and value loss.
 *
 * A module of its own (tests/lua/engine_parts.lua finds it), with its own copy of the engine: only
 * the Lua state is shared, so it uses Lua's library alone.
 */
#include <lauxlib.h>
#include <lua.h>

#include "grad/ops.h"
#include "grad/tape.h"
#include "rl/gae.h"

/* ---- lists and fields ------------------------------------------------------------------ */

static void want(lua_State *L, Status s) {
  if (s) luaL_error(L, "%s", err_message());
}

/* Scratch that the collector owns, pushed. */
static void *push_memory(lua_State *L, size_t bytes) { return lua_newuserdatauv(L, bytes + 1, 0); }

static double *push_list(lua_State *L, int index, int *n) {
  luaL_checktype(L, index, LUA_TTABLE);
  *n = (int)lua_rawlen(L, index);
  double *v = push_memory(L, (size_t)*n * sizeof *v);
  for (int i = 0; i < *n; i++) {
    lua_rawgeti(L, index, i + 1);
    v[i] = luaL_checknumber(L, -1);
    lua_pop(L, 1);
  }
  return v;
}

static real *push_reals(lua_State *L, int index, int n) {
  int count;
  const double *v = push_list(L, index, &count);
  if (count != n) luaL_error(L, "%d numbers, want %d", count, n);
  real *out = push_memory(L, (size_t)n * sizeof *out);
  for (int i = 0; i < n; i++) out[i] = (real)v[i];
  return out;
}

static void push_doubles(lua_State *L, const double *v, int n) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushnumber(L, v[i]);
    lua_rawseti(L, -2, i + 1);
  }
}

static double number_field(lua_State *L, int index, const char *name, double otherwise) {
  lua_getfield(L, index, name);
  const double v = (double)luaL_optnumber(L, -1, otherwise);
  lua_pop(L, 1);
  return v;
}

static bool bool_field(lua_State *L, int index, const char *name, bool otherwise) {
  const bool v = lua_getfield(L, index, name) == LUA_TNIL ? otherwise : lua_toboolean(L, -1);
  lua_pop(L, 1);
  return v;
}

/* ---- PPO ------------------------------------------------------------------------------- */

/* gae(rewards, values, { gamma=, lambda=, bootstrap= }) -> advantages, returns */
static int l_gae(lua_State *L) {
  int n, count;
  const double *reward = push_list(L, 1, &n), *value = push_list(L, 2, &count);
  if (n != count) return luaL_error(L, "%d rewards and %d values", n, count);
  double *out = push_memory(L, 2 * (size_t)n * sizeof *out);
  gae(n, reward, value, number_field(L, 3, "bootstrap", 0), number_field(L, 3, "gamma", 1),
      number_field(L, 3, "lambda", 1), out, out + n);
  push_doubles(L, out, n);
  push_doubles(L, out + n, n);
  return 2;
}

/* whiten(list, { keep_mean= }) -> list */
static int l_whiten(lua_State *L) {
  int n;
  double *x = push_list(L, 1, &n);
  whiten((size_t)n, NULL, bool_field(L, 2, "keep_mean", false), x);
  push_doubles(L, x, n);
  return 1;
}

static Status value_loss(Tape *t, Tensor *value, const ValueLossAttr *a, double *out) {
  Tensor *loss;
  try(tape_apply(t, OP_value_loss, (Tensor *[]){value}, &(Attr){.p = a}, &loss));
  *out = (double)loss->data[0];
  return tape_backward(t, loss);
}

/* value_loss(values, old, returns, clip) -> loss, its gradient, the share of clipped values */
static int l_value_loss(lua_State *L) {
  double clipped = 0, loss = 0;
  Tape t;
  const double clip = luaL_checknumber(L, 4);
  const int n = (int)lua_rawlen(L, 1);
  Tensor value = tensor_view(push_reals(L, 1, n), 1, &n);
  const ValueLossAttr a = {.old = push_reals(L, 2, n),
                           .returns = push_reals(L, 3, n),
                           .clip = clip,
                           .count = n,
                           .clipped = &clipped};
  double *slope = push_memory(L, (size_t)n * sizeof *slope);
  value.needs_grad = true;
  want(L, tape_init(&t, NULL));
  const Status s = value_loss(&t, &value, &a, &loss);
  for (int i = 0; i < n && s == GRPO_OK; i++) slope[i] = (double)value.grad[i];
  tape_free(&t);
  want(L, s);
  lua_pushnumber(L, loss);
  push_doubles(L, slope, n);
  lua_pushnumber(L, clipped / n);
  return 3;
}

__attribute__((visibility("default"))) int luaopen_engine_parts(lua_State *L);
int luaopen_engine_parts(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"gae", l_gae}, {"whiten", l_whiten}, {"value_loss", l_value_loss}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
