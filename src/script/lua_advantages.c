/* lua_advantages.c - advantages from rewards. */
#include <math.h>

#include "rl/advantage.h"
#include "script/binding.h"
#include "script/read_options.h"

static int width_of(lua_State *L, int index) {
  const bool rows = lua_rawgeti(L, index, 1) == LUA_TTABLE;
  const int width = rows ? (int)lua_rawlen(L, -1) : 0;
  lua_pop(L, 1);
  return width;
}

/* Pushes [n, *columns] rewards, from a list of numbers, or of rows with a number or none per
 * reward. */
static double *push_rewards(lua_State *L, int index, int *n, int *columns) {
  const int width = width_of(L, index);
  *columns = width ? width : 1;
  if (!width) return push_numbers(L, index, "rewards", n);
  *n = (int)lua_rawlen(L, index);
  double *v = push_scratch(L, (size_t)*n * (size_t)width, sizeof *v);
  for (int i = 0; i < *n; i++) {
    if (lua_rawgeti(L, index, i + 1) != LUA_TTABLE)
      raise_new(L, GRPO_EARG, "rewards[%d]: a list expected, as in row 1, got %s", i + 1,
                luaL_typename(L, -1));
    if ((int)lua_rawlen(L, -1) > width)
      raise_new(L, GRPO_EARG, "rewards[%d] has %d entries, but row 1 has %d", i + 1,
                (int)lua_rawlen(L, -1), width);
    for (int k = 0; k < width; k++) {
      lua_rawgeti(L, -1, k + 1);
      v[(size_t)i * (size_t)width + (size_t)k] = number_or_none(L, "rewards", i + 1);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  return v;
}

static void check_clip(lua_State *L, AdvantageOptions *o) {
  int n = 0;
  if (lua_getfield(L, 2, "clip") != LUA_TNIL) {
    const double *v = push_numbers(L, -1, "advantages.clip", &n);
    if (n != 2 || isnan(v[0]) || isnan(v[1]) || v[0] > v[1])
      raise_new(L, GRPO_EARG, "advantages.clip: want { low, high }");
    o->clip_low = v[0];
    o->clip_high = v[1];
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* Reads `weights`, whose memory stays on the stack. */
static void check_weights(lua_State *L, AdvantageOptions *o) {
  int n = 0;
  if (lua_getfield(L, 2, "weights") == LUA_TNIL) return;
  o->weights = push_numbers(L, -1, "advantages.weights", &n);
  if (n != o->nrewards)
    raise_new(L, GRPO_EARG, "advantages.weights: %d weights for %d rewards", n, o->nrewards);
  for (int i = 0; i < n; i++)
    if (isnan(o->weights[i]))
      raise_new(L, GRPO_EARG, "advantages.weights[%d]: a number expected", i + 1);
}

static void check_advantage_options(lua_State *L, AdvantageOptions *o) {
  static const OptionSet *const sets[] = {&advantage_option_set, NULL};
  static const char *const others[] = {"group", "weights", "aggregate", "clip", NULL};
  static const char *const aggregates[] = {"sum", "normalize_then_sum", NULL};
  int choice;
  check_option_fields(L, 2, "advantages", sets, others);
  read_options(L, 2, "advantages", &advantage_option_set, 0, o);
  field_int(L, 2, "advantages", "group", 1, INT32_MAX, &o->group);
  if (field_choice(L, 2, "advantages", "aggregate", aggregates, &choice))
    o->normalize_then_sum = choice == 1;
  if (!lua_istable(L, 2)) return;
  check_clip(L, o);
  check_weights(L, o);
}

/* Pushes { frac_zero_std=, std=, group_std=list, rewards=list of totals }; a total is false if no
 * reward applies. */
static void push_info(lua_State *L, const double *std, int groups, const double *total, int n) {
  double zero = 0, sum = 0;
  for (int g = 0; g < groups; g++) {
    zero += !(std[g] > 0);
    sum += std[g] > 0 ? std[g] : 0;
  }
  lua_createtable(L, 0, 4);
  set_number(L, "frac_zero_std", groups ? zero / groups : 0);
  set_number(L, "std", groups ? sum / groups : 0);
  push_doubles(L, std, groups);
  lua_setfield(L, -2, "group_std");
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    if (isnan(total[i]))
      lua_pushboolean(L, 0);
    else
      lua_pushnumber(L, total[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "rewards");
}

/* advantages(rewards, { group=, ... }) -> list, info */
static int l_advantages(lua_State *L) {
  AdvantageOptions o;
  int n;
  check_table(L, 1);
  lua_settop(L, 2);
  advantage_options_init(&o);
  const double *rewards = push_rewards(L, 1, &n, &o.nrewards);
  o.group = n > 0 ? n : 1; /* the default: all completions are of one prompt */
  check_advantage_options(L, &o);
  double *out = push_scratch(L, 3 * (size_t)n, sizeof *out);
  double *total = out + n, *std = total + n;
  want_ok(L, advantages(&o, n, rewards, total, out, std));
  push_doubles(L, out, n);
  push_info(L, std, n / o.group, total, n);
  return 2;
}

/* dense_advantages(list of lists with a number per token, { group= }) -> a list of the same
 * shape */
static int l_dense_advantages(lua_State *L) {
  static const char *const known[] = {"group", NULL};
  check_table(L, 1);
  lua_settop(L, 2);
  const int n = (int)lua_rawlen(L, 1);
  int group = n > 0 ? n : 1, tokens = 0;
  check_fields(L, 2, "dense_advantages", known);
  field_int(L, 2, "dense_advantages", "group", 1, INT32_MAX, &group);
  int *lengths = push_scratch(L, (size_t)n, sizeof *lengths);
  for (int i = 0; i < n; i++) {
    if (lua_rawgeti(L, 1, i + 1) != LUA_TTABLE)
      raise_new(L, GRPO_EARG, "rewards[%d]: a list with one number per token expected", i + 1);
    tokens += lengths[i] = (int)lua_rawlen(L, -1);
    lua_pop(L, 1);
  }
  double *v = push_scratch(L, (size_t)tokens, sizeof *v);
  for (int i = 0, at = 0; i < n; at += lengths[i++]) {
    lua_rawgeti(L, 1, i + 1);
    for (int t = 0; t < lengths[i]; t++) {
      lua_rawgeti(L, -1, t + 1);
      v[at + t] = number_or_none(L, "rewards", i + 1);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  want_ok(L, advantages_dense(group, n, lengths, v, v));
  lua_createtable(L, n, 0);
  for (int i = 0, at = 0; i < n; at += lengths[i++]) {
    push_doubles(L, v + at, lengths[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

CORE_PART(advantages) {
  static const luaL_Reg functions[] = {
      {"advantages", l_advantages}, {"dense_advantages", l_dense_advantages}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
