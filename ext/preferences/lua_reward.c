/* lua_reward.c - methods of an engine whose model has a head for rewards: rewards, reward_step. */
#include "preferences/reward.h"
#include "script/lua_engine.h"
#include "script/lua_sft.h"
#include "script/parts.h"
#include "script/push_metrics.h"
#include "script/read_options.h"

/* engine:rewards(texts) -> list; texts: as engine:sft takes them, pair after pair */
static int l_rewards(lua_State *L) {
  EngineCall call = engine_call_begin(L);
  int n;
  lua_settop(L, 2);
  const Example *x = push_sft_examples(L, "rewards", &n, &call.ids);
  real *reward = push_scratch(L, (size_t)n, sizeof *reward);
  ENGINE_CALL(&call, engine_rewards(call.engine, n, x, reward));
  push_floats(L, reward, n);
  return 1;
}

/* engine:reward_step(texts, { lr=, max_grad_norm=, seed=, step=, slopes = a list }) -> metrics */
static int l_reward_step(lua_State *L) {
  static const OptionSet *const sets[] = {&sft_option_set, NULL};
  static const char *const others[] = {"seed", "step", "slopes", NULL};
  EngineCall call = engine_call_begin(L);
  SftOptions o;
  StepMetrics m;
  int n, count;
  lua_settop(L, 3);
  check_option_fields(L, 3, "reward_step", sets, others);
  read_sft_options(L, "reward_step", &o);
  lua_getfield(L, 3, "slopes");
  const double *slope = push_numbers(L, -1, "reward_step.slopes", &count);
  const Example *x = push_sft_examples(L, "reward_step", &n, &call.ids);
  if (count != n) raise_new(L, GRPO_EARG, "reward_step.slopes: %d numbers for %d texts", count, n);
  ENGINE_CALL(&call, engine_reward_step(call.engine, n, x, slope, &o, &m));
  push_metrics(L, &m);
  return 1;
}

EXTENSION_PART(reward) {
  static const luaL_Reg engine[] = {FN(rewards), FN(reward_step), {NULL, NULL}};
  add_methods(L, ENGINE_TYPE, engine);
}
