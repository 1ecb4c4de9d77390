/* lua_ppo.c - engine:ppo. */
#include "rl/ppo.h"
#include "script/lua_advantages.h"
#include "script/lua_batch.h"
#include "script/lua_engine.h"
#include "script/lua_update.h"
#include "script/push_metrics.h"
#include "script/read_options.h"

static void check_ppo(lua_State *L, const Batch *b, PpoOptions *o) {
  static const OptionSet *const all[] = {&loss_option_set, &update_option_set, NULL};
  static const OptionSet *const own[] = {&ppo_option_set, NULL};
  static const char *const others[] = {"scores", "token_rewards", "seed", "step",
                                       "ppo",    "before",        NULL};
  int n;
  ppo_options_init(o);
  check_option_fields(L, 4, "ppo", all, others);
  read_update_options(L, OPTION_PPO, &o->update);
  lua_getfield(L, 4, "ppo");
  check_option_fields(L, -1, "train.ppo", own, (const char *const[]){"critic", NULL});
  read_options(L, -1, "train.ppo", &ppo_option_set, 0, o);
  o->score = lua_getfield(L, 4, "scores") == LUA_TNIL ? push_advantage_rewards(L, 3, &n)
                                                      : push_numbers(L, -1, "ppo.scores", &n);
  if (n != batch_size(b))
    raise_new(L, GRPO_EARG, "ppo: %d scores for %d completions", n, batch_size(b));
  if (lua_getfield(L, 4, "token_rewards") != LUA_TNIL)
    o->token_reward = push_advantage_numbers(L, lua_gettop(L), NULL, b);
}

/* Sets c.advantage to the mean over the completion's tokens, and pushes the advantages of all, a
 * list for each completion. */
static void push_advantages(lua_State *L, const Batch *b, const double *advantage) {
  const int n = batch_size(b);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; advantage += b->completion[i++].len) {
    const int len = b->completion[i].len;
    double sum = 0;
    for (int t = 0; t < len; t++) sum += advantage[t];
    lua_rawgeti(L, 3, i + 1);
    set_number(L, "advantage", sum / len);
    lua_pop(L, 1);
    push_doubles(L, advantage, len);
    lua_rawseti(L, -2, i + 1);
  }
}

/* engine:ppo(batch, completions, { scores=, token_rewards=, ppo={...}, options of train }) ->
 * metrics, the advantages of each completion's tokens.  scores: in place of c.reward. */
static int l_ppo(lua_State *L) {
  EngineCall call = engine_call_begin(L);
  Batch *b = check_batch(L, 2, NULL);
  PpoOptions o;
  StepMetrics m;
  check_table(L, 3);
  check_table(L, 4);
  lua_settop(L, 4);
  check_ppo(L, b, &o);
  UpdateBefore before;
  read_update_before(&call, &o.update, &before);
  double *advantage = push_scratch(L, (size_t)batch_tokens(b), sizeof *advantage);
  ENGINE_CALL(&call, engine_ppo(call.engine, b, &o, advantage, &m));
  push_metrics(L, &m);
  push_advantages(L, b, advantage);
  return 2;
}

CORE_METHODS(ppo, ENGINE_TYPE, FN(ppo))
