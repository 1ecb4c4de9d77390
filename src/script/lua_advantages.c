/* lua_advantages.c - advantages from rewards: of lists, for scripts, and of a step's completions.
 *
 * In a step both stand in the table `c` of a completion.  scoring.lua sets c.reward, set_advantages
 * reads it and sets c.advantage, and engine:update reads that.
 */
#include "script/lua_advantages.h"

#include <math.h>

#include "rl/advantage.h"
#include "script/binding.h"
#include "script/read_options.h"

static int width_of(lua_State *L, int index) {
  if (!lua_istable(L, index)) return 0; /* which push_numbers refuses */
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

double *push_advantage_rewards(lua_State *L, int index, int *n) {
  *n = (int)lua_rawlen(L, index);
  double *v = push_scratch(L, (size_t)*n, sizeof *v);
  for (int i = 0; i < *n; i++) {
    lua_rawgeti(L, index, i + 1);
    lua_getfield(L, -1, "reward");
    v[i] = number_or_none(L, "rewards", i + 1);
    lua_pop(L, 2);
  }
  return v;
}

/* Pushes a number for each token of n completions: those of item i of the list at index, or of its
 * field; a list of length[i] numbers, or one number for all of them. */
static double *push_by_token(lua_State *L, int index, const char *field, int n, const int *length) {
  const char *what = field ? field : "token_rewards";
  size_t total = 0;
  if (!lua_istable(L, index) || (int)lua_rawlen(L, index) != n)
    raise_new(L, GRPO_EARG, "%s: a list with an item for each of %d completions expected", what, n);
  for (int i = 0; i < n; i++) total += (size_t)length[i];
  double *out = push_scratch(L, total, sizeof *out), *to = out;
  const int top = lua_gettop(L);
  for (int i = 0; i < n; to += length[i++]) {
    const double *list = NULL;
    int count = length[i];
    lua_rawgeti(L, index, i + 1);
    if (field) lua_getfield(L, -1, field);
    if (lua_type(L, -1) != LUA_TNUMBER) list = push_numbers(L, -1, what, &count);
    if (count != length[i])
      raise_new(L, GRPO_EARG, "%s[%d]: %d numbers for %d tokens", what, i + 1, count, length[i]);
    for (int t = 0; t < count; t++) to[t] = list ? list[t] : (double)lua_tonumber(L, -1);
    lua_settop(L, top);
  }
  return out;
}

double *push_advantage_numbers(lua_State *L, int index, const char *field, const Batch *b) {
  const int n = batch_size(b);
  int *length = push_scratch(L, (size_t)n, sizeof *length);
  for (int i = 0; i < n; i++) length[i] = b->completion[i].len;
  return push_by_token(L, index, field, n, length);
}

static void check_clip(lua_State *L, int index, AdvantageOptions *o) {
  int n = 0;
  if (lua_isnil(L, index)) return;
  const double *v = push_numbers(L, index, "advantages.clip", &n);
  if (n != 2 || isnan(v[0]) || isnan(v[1]) || v[0] > v[1])
    raise_new(L, GRPO_EARG, "advantages.clip: want { low, high }");
  o->clip_low = v[0];
  o->clip_high = v[1];
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
  lua_getfield(L, 2, "clip");
  check_clip(L, -1, o);
  check_weights(L, o);
}

/* Pushes scratch memory: n advantages, n totals, and the standard deviation of each group. */
static double *push_result(lua_State *L, const AdvantageOptions *o, int n, const double *rewards) {
  double *out = push_scratch(L, 3 * (size_t)n, sizeof *out);
  want_ok(L, advantages(o, n, rewards, out + n, out, out + 2 * (size_t)n));
  return out;
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
  const double *out = push_result(L, &o, n, rewards), *total = out + n;
  push_doubles(L, out, n);
  push_info(L, total + n, n / o.group, total, n);
  return 2;
}

/* total_reward(rewards, entries, weights, clip) -> the weighted sum of rewards[entry.name] over the
 * entries that apply, within the bounds; nil if none does */
static int l_total_reward(lua_State *L) {
  AdvantageOptions o;
  check_table(L, 1);
  check_table(L, 2);
  lua_settop(L, 4);
  advantage_options_init(&o);
  check_clip(L, 4, &o);
  o.weights = push_numbers(L, 3, "weights", &o.nrewards);
  double *row = push_scratch(L, (size_t)o.nrewards, sizeof *row);
  for (int k = 0; k < o.nrewards; k++) {
    lua_rawgeti(L, 2, k + 1);
    lua_getfield(L, -1, "name");
    lua_gettable(L, 1);
    row[k] = number_or_none(L, "rewards", k + 1);
    lua_pop(L, 2);
  }
  const double total = total_reward(&o, row);
  if (isnan(total)) return 0;
  return give_number(L, total);
}

/* rewards_tied(completions) -> do the rewards c.reward of a group differ by rounding at most, or
 * are they fewer than two? */
static int l_rewards_tied(lua_State *L) {
  int n;
  check_table(L, 1);
  const double *rewards = push_advantage_rewards(L, 1, &n);
  return give_boolean(L, rewards_tied(n, rewards));
}

/* set_advantages(completions, options, rewards, token_rewards): sets c.advantage of each completion
 * from c.reward, or from its item of the list `rewards`.  token_rewards: nil, or for each
 * completion a list with a number per token; then c.advantage is such a list, too. */
static int l_set_advantages(lua_State *L) {
  AdvantageOptions o;
  int n, *length = NULL;
  double *of_token = NULL;
  check_table(L, 1);
  lua_settop(L, 4);
  if (!lua_isnil(L, 3)) check_table(L, 3);
  advantage_options_init(&o);
  const double *rewards =
      lua_isnil(L, 3) ? push_advantage_rewards(L, 1, &n) : push_rewards(L, 3, &n, &o.nrewards);
  check_advantage_options(L, &o);
  const double *advantage = push_result(L, &o, n, rewards);
  if (lua_istable(L, 4)) {
    length = push_scratch(L, (size_t)n, sizeof *length);
    for (int i = 0; i < n; i++, lua_pop(L, 1)) {
      lua_rawgeti(L, 4, i + 1);
      length[i] = (int)lua_rawlen(L, -1);
    }
    of_token = push_by_token(L, 4, NULL, n, length);
    want_ok(L, advantages_dense(o.group, n, length, of_token, of_token));
  }
  for (int i = 0; i < n; i++) {
    lua_rawgeti(L, 1, i + 1);
    if (of_token) {
      for (int t = 0; t < length[i]; t++) of_token[t] += advantage[i];
      push_doubles(L, of_token, length[i]);
      of_token += length[i];
    } else {
      lua_pushnumber(L, advantage[i]);
    }
    lua_setfield(L, -2, "advantage");
    lua_pop(L, 1);
  }
  return 0;
}

CORE_PART(advantages) {
  static const luaL_Reg functions[] = {
      FN(advantages), FN(total_reward), FN(rewards_tied), FN(set_advantages), {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  set_number(L, "largest_reward", LARGEST_REWARD);
}
