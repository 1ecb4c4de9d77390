/* lua_options.c - the rows of the engine's options, and the rules between options.
 *
 * The engine's own functions check a rule, so it has one wording.  lua/grpo/options calls them
 * before it loads anything.
 */
#include "model/sampler.h"
#include "rl/advantage.h"
#include "rl/ppo.h"
#include "script/lua_engine.h"
#include "script/read_options.h"
#include "script/read_sampling.h"

/* ---- rows -------------------------------------------------------------------------- */

/* options() -> list of { path=, type=, default=, min=, max=, choices=, live=, doc=, of=, ppo= } */
static int l_options(lua_State *L) {
  static const struct {
    const char *name;
    const OptionSet *set;
  } sets[] = {{"engine", &engine_option_set},       {"update", &update_option_set},
              {"loss", &loss_option_set},           {"distill", &distill_option_set},
              {"advantage", &advantage_option_set}, {"ppo", &ppo_option_set},
              {"sampling", &sampling_option_set},   {"optimizer_kind", &optimizer_option_set},
              {"optimizer", &adamw_option_set}};
  int n = 0;
  lua_newtable(L);
  for (size_t k = 0; k < sizeof sets / sizeof *sets; k++)
    for (int i = 0; i < sets[k].set->count; i++) {
      const Option *o = &sets[k].set->row[i];
      push_option(L, o);
      set_string(L, "of", sets[k].name);
      set_bool(L, "ppo", sets[k].set == &loss_option_set && o->flags & OPTION_PPO);
      lua_rawseti(L, -2, ++n);
    }
  return 1;
}

/* Pushes the field `name`, a table that is made if it is not there, of the table on top. */
static void push_subtable(lua_State *L, const char *name) {
  if (lua_getfield(L, -1, name) != LUA_TNIL) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, name);
}

/* losses() -> "grpo|bnpo|...", { dapo = { ["train.clip_high"] = 0.28 }, ... } */
static int l_losses(lua_State *L) {
  lua_pushstring(L, loss_kind_words());
  lua_newtable(L);
  for (int i = 0; i < loss_default_count(); i++) {
    const LossDefault *d = loss_default_at(i);
    push_subtable(L, loss_kind_name(d->kind));
    if (d->word)
      lua_pushstring(L, d->word);
    else
      lua_pushnumber(L, d->number);
    lua_setfield(L, -2, d->path);
    lua_pop(L, 1);
  }
  return 2;
}

/* optimizers() -> { lion = { ["train.optimizer.beta2"] = 0.99 } }, defaults as of losses() */
static int l_optimizers(lua_State *L) {
  const Option *name = option_find(&optimizer_option_set, "train.optimizer.name");
  lua_newtable(L);
  for (int i = 0; i < optimizer_default_count(); i++) {
    const OptimizerDefault *d = optimizer_default_at(i);
    push_subtable(L, option_word(name, (int)d->kind).s);
    lua_pushnumber(L, d->number);
    lua_setfield(L, -2, d->path);
    lua_pop(L, 1);
  }
  return 1;
}

/* ---- rules -------------------------------------------------------------------------- */

/* Each of these functions returns nothing, or a text that says what is wrong: "train.importance:
 * ...". */
static int problem(lua_State *L, Status s) {
  if (s == GRPO_OK) return 0;
  return give_string(L, err_message());
}

/* loss_problem(train, path): train.loss is a name, train.kl a number; path: of an option that gives
 * each token an advantage of its own, or nil */
static int l_loss_problem(lua_State *L) {
  LossOptions o;
  check_table(L, 1);
  const char *path = luaL_optstring(L, 2, NULL);
  lua_settop(L, 2);
  lua_getfield(L, 1, "loss");
  loss_options_init(&o, check_loss_option(L, "train.loss", check_string(L, 3, NULL)));
  read_loss_options(L, 1, "train", 0, &o);
  if (!path || loss_has_token_terms(o.kind)) return problem(L, loss_options_check(&o));
  lua_pushfstring(L,
                  "%s: the loss %s has one term, and one advantage, for a whole completion, but "
                  "tokens would get advantages of their own; take another train.loss",
                  path, loss_kind_name(o.kind));
  return 1;
}

/* sampling_problem(sampling) */
static int l_sampling_problem(lua_State *L) {
  Sampling s;
  sampling_init(&s);
  check_table(L, 1);
  check_sampling(L, 1, "sampling", &s);
  return problem(L, sampling_check(&s));
}

/* engine_problem(options, dropout): the sizes that core.engine takes, the adapter's dropout */
static int l_engine_problem(lua_State *L) {
  EngineOptions o;
  check_table(L, 1);
  engine_options_init(&o);
  read_engine_options(L, 1, "engine", &o);
  return problem(L, engine_options_check(&o, check_number(L, 2)));
}

/* ppo_problem(ppo, prompts): train.ppo, whose kl_coef is a number, and the number of prompts */
static int l_ppo_problem(lua_State *L) {
  PpoOptions o;
  check_table(L, 1);
  ppo_options_init(&o);
  read_options(L, 1, "train.ppo", &ppo_option_set, 0, &o);
  return problem(L, ppo_options_check(&o, (int)check_integer(L, 2, 1, INT32_MAX)));
}

CORE_FUNCTIONS(options, FN(options), FN(losses), FN(optimizers), FN(loss_problem),
               FN(sampling_problem), FN(engine_problem), FN(ppo_problem))
