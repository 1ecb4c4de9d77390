/* lua_bench.c - what `grpo bench` measures outside the engine: rates of products and of memory. */
#include <string.h>

#include "kern/rates.h"
#include "script/script.h"

static int push_rate(lua_State *L, Rate r) {
  lua_pushnumber(L, r.clock);
  lua_pushnumber(L, r.cores);
  return 2;
}

/* How long to measure: nobody waits for ever. */
static double check_seconds(lua_State *L, int arg) {
  const double seconds = check_number(L, arg);
  if (!(seconds >= 0 && seconds <= 60)) arg_error(L, arg, "seconds is %g, want 0 to 60", seconds);
  return seconds;
}

/* rate_product(what, rows, outputs, inputs, seconds) -> FLOPs a second by the clock, and by core
 * time */
static int l_rate_product(lua_State *L) {
  static const char *const names[] = {"forward",      "dx",      "dw",
                                      "bf16_forward", "bf16_dx", "bf16_dw",
                                      "blas_forward", "blas_dx", "blas_dw"};
  const char *name = check_string(L, 1, NULL);
  int what = 0, size[3];
  Rate flops;
  while (what < NRATES && strcmp(names[what], name) != 0) what++;
  if (what == NRATES) return arg_error(L, 1, "unknown product '%s'", name);
  for (int i = 0; i < 3; i++) size[i] = (int)check_integer(L, i + 2, 1, 1 << 16);
  const double seconds = check_seconds(L, 5);
  const Status s =
      rate_product(script_ctx(L), (RateProduct)what, size[0], size[1], size[2], seconds, &flops);
  if (s) return raise_status(L, s);
  return push_rate(L, flops);
}

/* rate_weights(how, rows, { { outputs, inputs, count }, ... }, seconds) -> likewise */
static int l_rate_weights(lua_State *L) {
  static const char *const names[] = {"f32",       "bf16", "int8",    "nf4",
                                      "bf16_bf16", "blas", "blas_cut"};
  enum { MOST = 16, LARGEST = 1 << 20, COUNT = 1 << 12 };
  const char *name = check_string(L, 1, NULL);
  int how = 0;
  WeightShape shapes[MOST];
  Rate flops;
  while (how < NWEIGHTS && strcmp(names[how], name) != 0) how++;
  if (how == NWEIGHTS) return arg_error(L, 1, "unknown weights '%s'", name);
  const int rows = (int)check_integer(L, 2, 1, 1 << 10);
  check_table(L, 3);
  const int n = (int)lua_rawlen(L, 3);
  if (n < 1 || n > MOST) return arg_error(L, 3, "%d shapes, want 1 to %d", n, MOST);
  for (int i = 0; i < n; i++) {
    int value[3] = {0};
    if (lua_rawgeti(L, 3, i + 1) != LUA_TTABLE) return arg_error(L, 3, "a shape is no table");
    for (int j = 0; j < 3; j++) {
      lua_rawgeti(L, -1, j + 1);
      const lua_Integer v = lua_tointeger(L, -1);
      if (v < 1 || v > (j < 2 ? LARGEST : COUNT)) return arg_error(L, 3, "a shape is out of range");
      value[j] = (int)v;
      lua_pop(L, 1);
    }
    shapes[i] = (WeightShape){value[0], value[1], value[2]};
    lua_pop(L, 1);
  }
  const double seconds = check_seconds(L, 4);
  const Status s = rate_weights(script_ctx(L), (RateWeights)how, rows, n, shapes, seconds, &flops);
  if (s) return raise_status(L, s);
  return push_rate(L, flops);
}

/* rate_read(seconds) -> bytes a second, likewise */
static int l_rate_read(lua_State *L) {
  Rate bytes;
  const Status s = rate_read(script_ctx(L), check_seconds(L, 1), &bytes);
  if (s) return raise_status(L, s);
  return push_rate(L, bytes);
}

const luaL_Reg bench_functions[] = {{"rate_product", l_rate_product},
                                    {"rate_read", l_rate_read},
                                    {"rate_weights", l_rate_weights},
                                    {NULL, NULL}};
