/* lua_ppo.c - engine:ppo. */
#include <math.h>

#include "rl/ppo.h"
#include "script/binding.h"
#include "script/lua_batch.h"
#include "script/lua_engine.h"
#include "script/lua_update.h"
#include "script/push_metrics.h"
#include "script/read_options.h"

/* Reads `token_rewards`: for each completion a list with a number per token; NULL: absent. */
static const double *token_rewards(lua_State *L, const Batch *b) {
  const int n = batch_size(b);
  if (lua_getfield(L, 3, "token_rewards") == LUA_TNIL) return NULL;
  if (!lua_istable(L, -1) || (int)lua_rawlen(L, -1) != n)
    raise_new(L, GRPO_EARG, "ppo.token_rewards: a list of %d lists expected", n);
  const int list = lua_gettop(L);
  double *out = push_scratch(L, (size_t)batch_tokens(b), sizeof *out);
  const int top = lua_gettop(L);
  for (int i = 0, at = 0; i < n; at += b->completion[i++].len) {
    int count;
    lua_rawgeti(L, list, i + 1);
    const double *v = push_numbers(L, -1, "ppo.token_rewards", &count);
    if (count != b->completion[i].len)
      raise_new(L, GRPO_EARG, "ppo.token_rewards[%d]: %d numbers for %d tokens", i + 1, count,
                b->completion[i].len);
    for (int t = 0; t < count; t++) out[at + t] = isnan(v[t]) ? 0 : v[t];
    lua_settop(L, top);
  }
  return out;
}

static void check_ppo(lua_State *L, const Batch *b, PpoOptions *o) {
  static const OptionSet *const all[] = {&loss_option_set, &update_option_set, NULL};
  static const OptionSet *const own[] = {&ppo_option_set, NULL};
  static const char *const others[] = {"scores", "token_rewards", "seed", "step", "ppo", NULL};
  int n;
  ppo_options_init(o);
  check_option_fields(L, 3, "ppo", all, others);
  read_update_options(L, OPTION_PPO, &o->update);
  lua_getfield(L, 3, "ppo");
  check_option_fields(L, -1, "train.ppo", own, (const char *const[]){"critic", NULL});
  read_options(L, -1, "train.ppo", &ppo_option_set, 0, o);
  lua_getfield(L, 3, "scores");
  o->score = push_numbers(L, -1, "ppo.scores", &n);
  if (n != batch_size(b))
    raise_new(L, GRPO_EARG, "ppo.scores: %d numbers for %d completions", n, batch_size(b));
  o->token_reward = token_rewards(L, b);
}

/* Pushes a list with the mean of each completion's advantages, and a list of lists of them all. */
static void push_advantages(lua_State *L, const Batch *b, const double *advantage) {
  const int n = batch_size(b);
  lua_createtable(L, n, 0);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; advantage += b->completion[i++].len) {
    const int len = b->completion[i].len;
    double sum = 0;
    for (int t = 0; t < len; t++) sum += advantage[t];
    lua_pushnumber(L, sum / len);
    lua_rawseti(L, -3, i + 1);
    push_doubles(L, advantage, len);
    lua_rawseti(L, -2, i + 1);
  }
}

/* engine:ppo(batch, { scores=, token_rewards=, ppo={...}, options of train }) -> metrics, the mean
 * advantage of each completion, the advantages of its tokens */
static int l_ppo(lua_State *L) {
  Engine *e = check_idle_engine(L, 1);
  Batch *b = check_batch(L, 2, NULL);
  PpoOptions o;
  StepMetrics m;
  check_table(L, 3);
  lua_settop(L, 3);
  check_ppo(L, b, &o);
  double *advantage = push_scratch(L, (size_t)batch_tokens(b), sizeof *advantage);
  want_ok(L, engine_ppo(e, b, &o, advantage, &m));
  push_metrics(L, &m);
  push_advantages(L, b, advantage);
  return 3;
}

CORE_PART(ppo) {
  static const luaL_Reg methods[] = {{"ppo", l_ppo}, {NULL, NULL}};
  add_methods(L, ENGINE_TYPE, methods);
}
