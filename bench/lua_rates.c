/* lua_rates.c - the module grpo.bench.rates: rates.h for Lua, in the programs of bench/ only. */
#include <string.h>

#include "rates.h"
#include "script/binding.h"

static int push_rate(lua_State *L, Rate r) {
  lua_pushnumber(L, r.clock);
  lua_pushnumber(L, r.cores);
  lua_pushnumber(L, r.median);
  return 3;
}

static double check_seconds(lua_State *L, int arg) {
  const double seconds = check_number(L, arg);
  if (!(seconds >= 0 && seconds <= 60)) arg_error(L, arg, "seconds is %g, want 0 to 60", seconds);
  return seconds;
}

/* product(what, rows, outputs, inputs, seconds) -> FLOPs per second by wall-clock time, by
 * core time, and by the wall-clock time of the median repetition */
static int l_product(lua_State *L) {
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

enum { MOST_SHAPES = 16, MOST_ROWS = 16 };

static int check_list(lua_State *L, int arg, int most) {
  check_table(L, arg);
  const int n = (int)lua_rawlen(L, arg);
  if (n < 1 || n > most) return arg_error(L, arg, "%d entries, want 1 to %d", n, most);
  return n;
}

/* Reads entry i, a whole number from 1 to most, of the list on top of the stack. */
static int list_entry(lua_State *L, int arg, int i, int most) {
  lua_rawgeti(L, -1, i);
  const lua_Integer v = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;
  if (v < 1 || v > most) return arg_error(L, arg, "want whole numbers from 1 to %d", most);
  lua_pop(L, 1);
  return (int)v;
}

static int check_shapes(lua_State *L, int arg, WeightShape *shapes) {
  const int n = check_list(L, arg, MOST_SHAPES);
  for (int i = 0; i < n; i++) {
    if (lua_rawgeti(L, arg, i + 1) != LUA_TTABLE)
      return arg_error(L, arg, "want { outputs, inputs, count }");
    shapes[i].n = list_entry(L, arg, 1, 1 << 20);
    shapes[i].k = list_entry(L, arg, 2, 1 << 20);
    shapes[i].count = list_entry(L, arg, 3, 1 << 12);
    lua_pop(L, 1);
  }
  return n;
}

/* weights(how, { rows, ... }, { { outputs, inputs, count }, ... }, seconds) -> two lists with
 * an entry per number of rows: FLOPs per second by wall-clock time, and by core time */
static int l_weights(lua_State *L) {
  static const char *const names[] = {"f32",       "bf16", "int8",    "nf4",
                                      "bf16_bf16", "blas", "blas_cut"};
  const char *name = check_string(L, 1, NULL);
  int how = 0, rows[MOST_ROWS];
  WeightShape shapes[MOST_SHAPES];
  Rate flops[MOST_ROWS];
  while (how < NWEIGHTS && strcmp(names[how], name) != 0) how++;
  if (how == NWEIGHTS) return arg_error(L, 1, "unknown weights '%s'", name);
  const int nrows = check_list(L, 2, MOST_ROWS);
  lua_pushvalue(L, 2);
  for (int i = 0; i < nrows; i++) rows[i] = list_entry(L, 2, i + 1, 1 << 10);
  const int n = check_shapes(L, 3, shapes);
  const double seconds = check_seconds(L, 4);
  const Status s =
      rate_weights(script_ctx(L), (RateWeights)how, nrows, rows, n, shapes, seconds, flops);
  if (s) return raise_status(L, s);
  for (int by = 0; by < 2; by++) {
    lua_createtable(L, nrows, 0);
    for (int i = 0; i < nrows; i++) {
      lua_pushnumber(L, by ? flops[i].cores : flops[i].clock);
      lua_rawseti(L, -2, i + 1);
    }
  }
  return 2;
}

/* read(seconds) -> bytes per second: the three figures that product returns for FLOPs */
static int l_read(lua_State *L) {
  Rate bytes;
  const Status s = rate_read(script_ctx(L), check_seconds(L, 1), &bytes);
  if (s) return raise_status(L, s);
  return push_rate(L, bytes);
}

/* busy_cores() -> how many cores our threads can keep busy */
static int l_busy_cores(lua_State *L) {
  const int threads = pool_threads(script_ctx(L)->pool), cores = pool_cores();
  lua_pushinteger(L, threads < cores ? threads : cores);
  return 1;
}

static int open_rates(lua_State *L) {
  static const luaL_Reg functions[] = {{"busy_cores", l_busy_cores},
                                       {"product", l_product},
                                       {"read", l_read},
                                       {"weights", l_weights},
                                       {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}

extern const luaL_Reg program_modules[]; /* src/main.c looks for it */
const luaL_Reg program_modules[] = {{"grpo.bench.rates", open_rates}, {NULL, NULL}};
