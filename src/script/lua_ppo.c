/* lua_ppo.c - a PPO step of an engine; its pieces alone, for tests that hold them to grpo/losses/ppo.lua. */
#include <math.h>

#include "grad/tape.h"
#include "rl/gae.h"
#include "rl/ppo.h"
#include "script/interrupt.h"
#include "script/lua_rl.h"
#include "script/read_options.h"

/* ---- engine:ppo -------------------------------------------------------------------- */

/* A list with a list of numbers for each completion, one for each of its tokens; NULL: absent. */
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

/* The mean of each completion's advantages, and the list of lists of them. */
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

/* engine:ppo(batch, { scores=, token_rewards=, ppo={...}, options of train }) -> metrics, the mean advantage of each completion, those of its tokens */
int engine_ppo_step(lua_State *L) {
  Engine *e = check_idle_engine(L, 1);
  Batch *b = check_batch(L, 2, NULL);
  PpoOptions o;
  StepMetrics m;
  check_table(L, 3);
  lua_settop(L, 3);
  check_ppo(L, b, &o);
  double *advantage = push_scratch(L, (size_t)batch_tokens(b), sizeof *advantage);
  const Status s = engine_ppo(e, b, &o, advantage, &m);
  if (s) return raise_status(L, s);
  push_metrics(L, &m);
  push_advantages(L, b, advantage);
  return 3;
}

/* ---- its pieces -------------------------------------------------------------------- */

/* gae(rewards, values, { gamma=, lambda=, bootstrap= }) -> advantages, returns */
int l_gae(lua_State *L) {
  static const char *const known[] = {"gamma", "lambda", "bootstrap", NULL};
  double gamma = 1, lambda = 1, bootstrap = 0;
  int n, count;
  lua_settop(L, 3);
  check_fields(L, 3, "gae", known);
  field_number(L, 3, "gae", "gamma", 0, 1, &gamma);
  field_number(L, 3, "gae", "lambda", 0, 1, &lambda);
  field_number(L, 3, "gae", "bootstrap", -INFINITY, INFINITY, &bootstrap);
  const double *reward = push_numbers(L, 1, "gae.rewards", &n);
  const double *value = push_numbers(L, 2, "gae.values", &count);
  if (n != count) raise_new(L, GRPO_EARG, "gae: %d rewards and %d values", n, count);
  double *out = push_scratch(L, 2 * (size_t)n, sizeof *out);
  gae(n, reward, value, bootstrap, gamma, lambda, out, out + n);
  push_doubles(L, out, n);
  push_doubles(L, out + n, n);
  return 2;
}

/* whiten(list, { keep_mean= }) -> list */
int l_whiten(lua_State *L) {
  static const char *const known[] = {"keep_mean", NULL};
  bool keep = false;
  int n;
  lua_settop(L, 2);
  check_fields(L, 2, "whiten", known);
  field_bool(L, 2, "whiten", "keep_mean", &keep);
  double *x = push_numbers(L, 1, "whiten", &n);
  whiten((size_t)n, NULL, keep, x);
  push_doubles(L, x, n);
  return 1;
}

static real *push_reals(lua_State *L, int index, const char *what, int n) {
  int count;
  const double *v = push_numbers(L, index, what, &count);
  if (count != n) raise_new(L, GRPO_EARG, "%s: %d numbers, want %d", what, count, n);
  real *out = push_scratch(L, (size_t)n, sizeof *out);
  for (int i = 0; i < n; i++) out[i] = (real)v[i];
  return out;
}

static Status value_loss(Tape *t, Tensor *value, const ValueLossAttr *a, double *out) {
  Tensor *loss;
  try(tape_apply(t, OP_value_loss, (Tensor *[]){value}, &(Attr){.p = a}, &loss));
  *out = (double)loss->data[0];
  return tape_backward(t, loss);
}

/* value_loss(values, old, returns, clip) -> loss, its gradient, the share of clipped values */
int l_value_loss(lua_State *L) {
  double clipped = 0, loss = 0;
  Tape t;
  lua_settop(L, 4);
  const double clip = luaL_checknumber(L, 4);
  check_table(L, 1);
  const int n = (int)lua_rawlen(L, 1);
  Tensor value = tensor_view(push_reals(L, 1, "value_loss.values", n), 1, &n);
  const ValueLossAttr a = {.old = push_reals(L, 2, "value_loss.old", n),
                           .returns = push_reals(L, 3, "value_loss.returns", n),
                           .clip = clip,
                           .count = n,
                           .clipped = &clipped};
  double *slope = push_scratch(L, (size_t)n, sizeof *slope);
  value.needs_grad = true;
  Status s = tape_init(&t, NULL);
  if (s) return raise_status(L, s);
  s = value_loss(&t, &value, &a, &loss);
  for (int i = 0; i < n && s == GRPO_OK; i++) slope[i] = (double)value.grad[i];
  tape_free(&t);
  if (s) return raise_status(L, s);
  lua_pushnumber(L, loss);
  push_doubles(L, slope, n);
  lua_pushnumber(L, clipped / n);
  return 3;
}
