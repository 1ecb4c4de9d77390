/* lua_random.c - the engine's random numbers (base/rng.h), means of resampled lists, and
 * math.random from a function of ours. */
#include "script/lua_random.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "script/binding.h"
#include "script/script_impl.h"

/* Reads (seed, stream, step, prompt, sample), the arguments from `arg` on. */
static RngKey check_key(lua_State *L, int arg) {
  static const char *const streams[] = {"init",      "sample", "eval",      "shuffle",   "reward",
                                        "user",      "task",   "dropout",   "mask",      "unmask",
                                        "minibatch", "turn",   "turn_eval", "covariance"};
  RngKey k = {.seed = (uint64_t)check_integer(L, arg, LUA_MININTEGER, LUA_MAXINTEGER)};
  const char *name = check_string(L, arg + 1, NULL);
  size_t i = 0, n = sizeof streams / sizeof *streams;
  while (i < n && strcmp(streams[i], name) != 0) i++;
  if (i == n) arg_error(L, arg + 1, "unknown random stream '%s'", name);
  k.stream = (uint32_t)i;
  k.step = (uint32_t)check_integer(L, arg + 2, 0, UINT32_MAX);
  k.prompt = (uint32_t)check_integer(L, arg + 3, 0, UINT32_MAX);
  k.sample = (uint32_t)check_integer(L, arg + 4, 0, UINT32_MAX);
  return k;
}

typedef struct RngState {
  RngKey key;
  uint64_t next;
} RngState;

static int l_next_uniform(lua_State *L) {
  RngState *r = lua_touserdata(L, lua_upvalueindex(1));
  return give_number(L, rng_uniform(&r->key, r->next++));
}

static int l_rng(lua_State *L) {
  RngKey k = check_key(L, 1);
  RngState *r = lua_newuserdatauv(L, sizeof *r, 0);
  *r = (RngState){.key = k};
  lua_pushcclosure(L, l_next_uniform, 1);
  return 1;
}

static int l_permute(lua_State *L) {
  uint64_t seed = (uint64_t)check_integer(L, 1, LUA_MININTEGER, LUA_MAXINTEGER);
  lua_Integer n = check_integer(L, 2, 1, LUA_MAXINTEGER), i = check_integer(L, 3, 0, n - 1);
  return give_integer(L, (lua_Integer)rng_permute(seed, (uint64_t)n, (uint64_t)i));
}

/* ---- resampling -------------------------------------------------------------------- */

static double mean_of_draws(const double *v, int n, const RngKey *k, uint64_t first) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += v[(int)(rng_uniform(k, first + (uint64_t)i) * n)];
  return sum / n;
}

static double mean_of_signs(const double *v, int n, const RngKey *k, uint64_t first) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += rng_uniform(k, first + (uint64_t)i) < 0.5 ? v[i] : -v[i];
  return sum / n;
}

/* resampled_means(values, resamples, seed, way) -> a list of means.  way "draws": each of as many
 * values, drawn with replacement (bootstrap); "signs": of all values, each with a random sign
 * (permutation of pairs). */
static int l_resampled_means(lua_State *L) {
  static const char *const ways[] = {"draws", "signs", NULL};
  const RngKey key = {.seed = (uint64_t)check_integer(L, 3, LUA_MININTEGER, LUA_MAXINTEGER),
                      .stream = RNG_TASK};
  const int resamples = (int)check_integer(L, 2, 1, 1 << 24);
  const bool draws = luaL_checkoption(L, 4, NULL, ways) == 0;
  int n;
  const double *v = push_numbers(L, 1, "resampled_means", &n);
  make_room(L, (size_t)resamples * 16);
  lua_createtable(L, resamples, 0);
  for (int r = 0; r < resamples; r++) {
    const uint64_t first = (uint64_t)r * (uint64_t)n;
    charge_work(L, 8 * (uint64_t)n);
    lua_pushnumber(L, draws ? mean_of_draws(v, n, &key, first) : mean_of_signs(v, n, &key, first));
    lua_rawseti(L, -2, r + 1);
  }
  return 1;
}

/* ---- math.random ------------------------------------------------------------------- */

static const char random_key; /* registry key of the function given to core.reseed_math */

/* core.reseed_math(f): math.random calls f(), which returns a number in [0, 1); nil: it uses Lua's
 * own generator again */
static int l_reseed_math(lua_State *L) {
  Script *s = script_of(L);
  if (!lua_isnoneornil(L, 1)) check_function(L, 1);
  s->random = !lua_isnoneornil(L, 1);
  lua_settop(L, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &random_key);
  return 0;
}

/* Calls the library's function, upvalue 1, with our arguments. */
static int call_library(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

/* math.random */
static int l_random(lua_State *L) {
  const Script *s = script_of(L);
  if (!s->random) return call_library(L);
  int n = lua_gettop(L);
  lua_Integer low = n > 1 ? luaL_checkinteger(L, 1) : 1,
              high = n ? luaL_checkinteger(L, n > 1 ? 2 : 1) : 0;
  if (n > 2) return luaL_error(L, "wrong number of arguments");
  if (n == 1 && high == 0) low = LUA_MININTEGER, high = LUA_MAXINTEGER;
  if (n && low > high) return luaL_argerror(L, n > 1 ? 2 : 1, "interval is empty");
  lua_rawgetp(L, LUA_REGISTRYINDEX, &random_key);
  lua_call(L, 0, 1);
  double u = (double)lua_tonumber(L, -1);
  if (n == 0) return 1;
  double width = (double)high - (double)low + 1;
  lua_Integer v = (lua_Unsigned)high - (lua_Unsigned)low < (lua_Unsigned)1 << 52
                      ? low + (lua_Integer)floor(u * width)
                      : (lua_Integer)((lua_Unsigned)low + (lua_Unsigned)(u * width * (1 - 1e-15)));
  return give_integer(L, v > high ? high : v);
}

/* math.randomseed does nothing while math.random calls our function. */
static int l_randomseed(lua_State *L) {
  if (script_of(L)->random) return 0;
  return call_library(L);
}

void seeded_random_open(lua_State *L, int env) {
  static const luaL_Reg rows[] = {FN(random), FN(randomseed)};
  lua_getfield(L, env, "math");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    lua_getfield(L, -1, rows[i].name);
    lua_pushcclosure(L, rows[i].func, 1);
    lua_setfield(L, -2, rows[i].name);
  }
  lua_pop(L, 1);
}

CORE_FUNCTIONS(random, FN(permute), FN(reseed_math), FN(resampled_means), FN(rng))
