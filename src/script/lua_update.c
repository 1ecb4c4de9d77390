/* lua_update.c - engine:update, with a loss by name or a loss written in Lua.
 *
 * The engine calls a loss written in Lua from inside the update.
 */
#include "script/lua_update.h"

#include "rl/update.h"
#include "script/interrupt.h"
#include "script/lua_advantages.h"
#include "script/lua_batch.h"
#include "script/lua_engine.h"
#include "script/lua_tensor.h"
#include "script/push_metrics.h"
#include "script/read_options.h"

/* ---- a loss written in Lua ------------------------------------------------------- */

typedef struct LuaLoss {
  EngineCall *call;
  int function, p; /* stack indices */
} LuaLoss;

typedef struct LossCall {
  const LossInput *in;
  Value *result;
} LossCall;

static void set_tensor(lua_State *L, const char *name, Value *v) {
  if (!v) return;
  push_step_tensor(L, value_retain(v));
  lua_setfield(L, -2, name);
}

/* Sets lengths, and sequence, which numbers the sequence of each token from 1. */
static void set_lists(lua_State *L, const LossInput *in) {
  int at = 0;
  lua_createtable(L, in->nseq, 0);
  lua_createtable(L, in->ntokens, 0);
  for (int i = 0; i < in->nseq; i++) {
    lua_pushinteger(L, in->lengths[i]);
    lua_rawseti(L, -3, i + 1);
    for (int t = 0; t < in->lengths[i]; t++) {
      lua_pushinteger(L, i + 1);
      lua_rawseti(L, -2, ++at);
    }
  }
  lua_setfield(L, -3, "sequence");
  lua_setfield(L, -2, "lengths");
}

static void push_loss_input(lua_State *L, const LossInput *in) {
  lua_createtable(L, 0, 16);
  set_tensor(L, "logp", in->logp);
  set_tensor(L, "entropy", in->entropy);
  set_tensor(L, "old_logp", in->old_logp);
  set_tensor(L, "ref_logp", in->ref_logp);
  set_tensor(L, "sampler_logp", in->sampler_logp);
  set_tensor(L, "advantage", in->advantage);
  set_tensor(L, "mask", in->mask);
  set_lists(L, in);
  set_number(L, "num_sequences", in->num_sequences);
  set_number(L, "num_tokens", in->num_tokens);
  set_number(L, "normalizer", in->num_tokens);
  set_number(L, "beta", in->beta);
  set_integer(L, "max_new_tokens", in->max_new_tokens);
}

/* (function, p, call) */
static int protected_loss(lua_State *L) {
  LossCall *c = lua_touserdata(L, 3);
  end_step_tensors(L); /* releases those of the micro-batch before */
  lua_pushvalue(L, 1);
  push_loss_input(L, c->in);
  lua_pushvalue(L, 2);
  lua_setfield(L, -2, "p");
  lua_call(L, 1, 1);
  Value *v = test_tensor_value(L, -1);
  if (!v)
    return raise_new(L, GRPO_EARG,
                     "train.loss: the function must return a tensor with one number, got %s",
                     luaL_typename(L, -1));
  c->result = value_retain(v);
  return 0;
}

static Status call_lua_loss(void *user, const LossInput *in, Value **out) {
  LuaLoss *loss = user;
  lua_State *L = loss->call->L;
  LossCall c = {in, NULL};
  lua_pushcfunction(L, protected_loss);
  lua_pushvalue(L, loss->function);
  lua_pushvalue(L, loss->p);
  lua_pushlightuserdata(L, &c);
  if (!call_protected(L, 3, 0)) return engine_call_fail(loss->call, "train.loss");
  *out = c.result;
  return GRPO_OK;
}

/* ---- between the optimizer steps of a rollout ---------------------------------------- */

static Status call_before(void *user, double *lr, double *kl) {
  UpdateBefore *b = user;
  lua_State *L = b->call->L;
  lua_pushvalue(L, b->function);
  if (!call_protected(L, 0, 2)) return engine_call_fail(b->call, "a schedule");
  *lr = lua_tonumber(L, -2);
  *kl = lua_tonumber(L, -1);
  lua_pop(L, 2);
  return GRPO_OK;
}

void read_update_before(EngineCall *call, UpdateOptions *o, UpdateBefore *b) {
  lua_State *L = call->L;
  const int type = lua_getfield(L, 4, "before");
  *b = (UpdateBefore){call, lua_gettop(L)};
  if (type == LUA_TNIL) return;
  if (type != LUA_TFUNCTION)
    raise_new(L, GRPO_EARG, "update.before: a function expected, got %s", luaL_typename(L, -1));
  o->before = call_before;
  o->before_user = b;
}

/* ---- update ---------------------------------------------------------------------- */

void read_update_options(lua_State *L, unsigned only, UpdateOptions *o) {
  static const char where[] = "train";
  int step = 0;
  read_loss_options(L, 4, where, only, &o->loss);
  read_options(L, 4, where, &update_option_set, only, o);
  field_int(L, 4, where, "step", 0, INT32_MAX, &step);
  field_seed(L, 4, where, "seed", &o->seed);
  o->step = (uint64_t)step;
  o->cancel = &script_interrupted;
}

/* The field distill: { beta=, top_k= } */
static void read_distill(lua_State *L, DistillOptions *o) {
  static const OptionSet *const own[] = {&distill_option_set, NULL};
  if (lua_getfield(L, 4, "distill") != LUA_TNIL) {
    check_option_fields(L, -1, "train.distill", own, NULL);
    read_options(L, -1, "train.distill", &distill_option_set, 0, o);
  }
  lua_pop(L, 1);
}

static void check_update(lua_State *L, UpdateOptions *o) {
  static const OptionSet *const sets[] = {&loss_option_set, &update_option_set, NULL};
  static const char *const others[] = {"loss",   "max_new_tokens", "seed",    "step", "p",
                                       "before", "older_sampler",  "distill", NULL};
  LossKind kind = LOSS_grpo;
  check_option_fields(L, 4, "update", sets, others);
  if (lua_getfield(L, 4, "loss") == LUA_TSTRING)
    kind = check_loss_option(L, "train.loss", lua_tostring(L, -1));
  else if (!lua_isnil(L, -1) && !lua_isfunction(L, -1))
    raise_new(L, GRPO_EARG, "train.loss: a name or a function expected, got %s",
              luaL_typename(L, -1));
  lua_pop(L, 1);
  update_options_init(o, kind);
  read_update_options(L, 0, o);
  field_bool(L, 4, "update", "older_sampler", &o->older_sampler);
  read_distill(L, &o->distill);
}

/* engine:update(batch, completions, options) -> metrics; the advantages are c.advantage */
static int l_update(lua_State *L) {
  EngineCall call = engine_call_begin(L);
  Batch *b = check_batch(L, 2, NULL);
  UpdateOptions o;
  StepMetrics m;
  check_table(L, 4);
  lua_settop(L, 4);
  check_update(L, &o);
  if (!o.loss.max_new_tokens) o.loss.max_new_tokens = engine_options(call.engine)->max_new_tokens;
  lua_getfield(L, 4, "loss");
  lua_getfield(L, 4, "p");
  LuaLoss loss = {&call, 5, 6};
  if (lua_isfunction(L, 5)) {
    o.loss_fn = call_lua_loss;
    o.loss_user = &loss;
    call.has_step_values = true;
  }
  UpdateBefore before;
  read_update_before(&call, &o, &before);
  o.token_advantage = push_advantage_numbers(L, 3, "advantage", b);
  luaL_checkstack(L, 20, "loss");
  ENGINE_CALL(&call, engine_update(call.engine, b, &o, &m));
  push_metrics(L, &m);
  return 1;
}

CORE_METHODS(update, ENGINE_TYPE, FN(update))
