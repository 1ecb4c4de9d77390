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
  static const char *const names[] = {"forward", "dx", "dw", "blas_forward", "blas_dx", "blas_dw"};
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

/* rate_read(seconds) -> bytes a second, likewise */
static int l_rate_read(lua_State *L) {
  Rate bytes;
  const Status s = rate_read(script_ctx(L), check_seconds(L, 1), &bytes);
  if (s) return raise_status(L, s);
  return push_rate(L, bytes);
}

const luaL_Reg bench_functions[] = {
    {"rate_product", l_rate_product}, {"rate_read", l_rate_read}, {NULL, NULL}};
