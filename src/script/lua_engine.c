/* lua_engine.c - core.engine: the step API of rl/engine.h as an object.
 *
 * Methods: rollout, replace, reference, update, ppo, sft, nll, denoise, masked_loss, save, load,
 * reserve, estimate, eval_capacity, close.  A loss written in Lua is called back from inside update(): its error is
 * kept and raised again once the engine is left.
 */
#include <math.h>
#include <string.h>

#include "rl/reference.h"
#include "rl/sft.h"
#include "rl/update.h"
#include "script/interrupt.h"
#include "script/lua_generate.h"
#include "script/lua_model.h"
#include "script/lua_rl.h"
#include "script/lua_tensor.h"
#include "script/lua_text.h"
#include "script/read_options.h"

enum { EVAL_SEQUENCES = 1024 }; /* completions of one evaluation rollout, a good slice */

typedef struct EngineHandle {
  Engine *engine; /* NULL: closed */
  bool busy;      /* it has called a script, which may not start it again */
  int params;     /* of the model when the engine was made */
} EngineHandle;

Engine *check_engine(lua_State *L, int arg) {
  EngineHandle *h = check_object(L, arg, ENGINE_TYPE);
  if (!h->engine) raise_new(L, GRPO_EARG, "the engine is closed");
  return h->engine;
}

Engine *check_idle_engine(lua_State *L, int arg) {
  Engine *e = check_engine(L, arg);
  const EngineHandle *h = lua_touserdata(L, arg);
  if (h->busy)
    raise_new(L, GRPO_EARG, "the engine is at work; what it calls cannot start it again");
  if (model_num_params(engine_policy(e)) != h->params)
    raise_new(
        L, GRPO_EARG,
        "the model was given an adapter, or lost one, since its training began; do that before "
        "or after");
  return e;
}

/* Of the engine at stack index 1. */
static void set_busy(lua_State *L, bool busy) {
  EngineHandle *h = lua_touserdata(L, 1);
  h->busy = busy;
}

static int engine_gc(lua_State *L) {
  EngineHandle *h = check_object(L, 1, ENGINE_TYPE);
  engine_free(h->engine);
  h->engine = NULL;
  return 0;
}

static int engine_close(lua_State *L) {
  check_object(L, 1, ENGINE_TYPE);
  return in_use(L) ? 0 : engine_gc(L);
}

/* ---- making ---------------------------------------------------------------------- */

static bool get_table(lua_State *L, int index, const char *name, const char *where) {
  const int type = lua_getfield(L, index, name);
  if (type == LUA_TNIL) return false;
  if (type != LUA_TTABLE)
    raise_new(L, GRPO_EARG, "%s%s: a table expected, got %s", where, name, lua_typename(L, type));
  return true;
}

static void read_optimizer(lua_State *L, int index, OptimizerOptions *o) {
  static const OptionSet *const sets[] = {&adamw_option_set, NULL};
  static const char *const others[] = {"no_decay", NULL};
  static const char where[] = "train.optimizer";
  bool bias = !o->decay_bias, norm = !o->decay_norm;
  check_option_fields(L, index, where, sets, others);
  read_options(L, index, where, &adamw_option_set, 0, &o->adamw);
  field_no_decay(L, index, where, &bias, &norm);
  o->decay_bias = !bias;
  o->decay_norm = !norm;
}

/* reuse_rollout = true, false or "auto" */
static void field_reuse(lua_State *L, int index, const char *where, ReuseRollout *out) {
  const int type = lua_getfield(L, index, "reuse_rollout");
  if (type == LUA_TBOOLEAN)
    *out = lua_toboolean(L, -1) ? REUSE_ON : REUSE_OFF;
  else if (type == LUA_TSTRING && strcmp(lua_tostring(L, -1), "auto") == 0)
    *out = REUSE_AUTO;
  else if (type != LUA_TNIL)
    raise_new(L, GRPO_EARG, "%s.reuse_rollout: true, false or \"auto\" expected", where);
  lua_pop(L, 1);
}

void read_engine_options(lua_State *L, int index, const char *where, EngineOptions *o) {
  const Option *longest = option_find(&sampling_option_set, "sampling.max_new_tokens");
  read_options(L, index, where, &engine_option_set, 0, o);
  field_int(L, index, where, "max_new_tokens", 1, (lua_Integer)longest->high, &o->max_new_tokens);
  field_bool(L, index, where, "examples", &o->examples);
  field_bool(L, index, where, "turns", &o->turns);
  field_reuse(L, index, where, &o->reuse_rollout);
}

static void check_engine_options(lua_State *L, EngineOptions *o) {
  static const OptionSet *const sets[] = {&engine_option_set, NULL};
  static const char *const others[] = {"model",          "tokenizer", "reference", "bigram",
                                       "optimizer",      "examples",  "turns",     "reuse_rollout",
                                       "max_new_tokens", NULL};
  engine_options_init(o);
  check_table(L, 1);
  check_option_fields(L, 1, "engine", sets, others);
  read_engine_options(L, 1, "engine", o);
  o->train = get_table(L, 1, "optimizer", "engine.");
  if (o->train) read_optimizer(L, lua_gettop(L), &o->optimizer);
  lua_pop(L, 1);
}

/* engine{ model=, tokenizer=, reference= or bigram=, ... } */
static int l_engine(lua_State *L) {
  EngineOptions o;
  lua_settop(L, 1);
  check_engine_options(L, &o);
  lua_getfield(L, 1, "model");
  lua_getfield(L, 1, "reference");
  lua_getfield(L, 1, "tokenizer");
  Model *policy = check_model(L, 2);
  Model *reference = lua_toboolean(L, 3) ? check_model(L, 3) : NULL;
  const Tokenizer *tok = lua_toboolean(L, 4) ? check_tokenizer(L, 4) : NULL;
  lua_getfield(L, 1, "bigram");
  if (lua_toboolean(L, 5)) o.bigram = check_bigram(L, 5);
  EngineHandle *h = new_object(L, sizeof *h, 0);
  *h = (EngineHandle){0};
  luaL_setmetatable(L, ENGINE_TYPE);
  const Status s = engine_new(&h->engine, script_pool(L), policy, reference, tok, &o);
  h->params = model_num_params(policy);
  return s ? raise_status(L, s) : 1;
}

/* The engine took its memory when it was made; this is the binding's own: texts and lists of ids. */
static int engine_reserve(lua_State *L) {
  enum { BYTES_PER_TOKEN = 16 }; /* more than a vocabulary's tokens have on average */
  const EngineOptions *o = engine_options(check_engine(L, 1));
  const size_t tokens = (size_t)o->max_prompt_tokens + (size_t)o->max_new_tokens; /* or targets */
  reserve_bufs(L, (size_t)o->max_new_tokens * BYTES_PER_TOKEN,
               tokens * (size_t)o->prompts_per_step);
  lua_settop(L, 1);
  return 1;
}

static int engine_eval_capacity(lua_State *L) {
  check_engine(L, 1);
  lua_pushinteger(L, EVAL_SEQUENCES);
  return 1;
}

static void push_engine_bytes(lua_State *L, const EngineBytes *b) {
  const struct {
    const char *name;
    size_t bytes;
  } rows[] = {
      {"total", b->total},         {"weights", b->weights},         {"reference", b->reference},
      {"optimizer", b->optimizer}, {"critic", b->critic},           {"cache", b->cache},
      {"batch", b->batch},         {"activations", b->activations}, {"kept", b->kept}};
  lua_createtable(L, 0, 9);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    lua_pushinteger(L, (lua_Integer)rows[i].bytes);
    lua_setfield(L, -2, rows[i].name);
  }
}

/* estimate() -> { total=, weights=, ... } in bytes */
static int engine_estimate_bytes(lua_State *L) {
  Engine *e = check_engine(L, 1);
  EngineBytes b;
  const Model *r = engine_reference_model(e);
  ModelPlan policy, reference;
  model_plan_of_model(&policy, engine_policy(e));
  if (r) model_plan_of_model(&reference, r);
  engine_estimate(&policy, r ? &reference : NULL, engine_options(e), &b);
  push_engine_bytes(L, &b);
  return 1;
}

/* ---- rollout --------------------------------------------------------------------- */

/* The field `targets` of the options: for each of n prompts a list of ids, or false. */
static void add_targets(lua_State *L, int options, int n, Prompt *p, IntBuf *ids) {
  const int type = lua_getfield(L, options, "targets");
  if (type != LUA_TNIL && (type != LUA_TTABLE || (int)lua_rawlen(L, -1) != n))
    raise_new(L, GRPO_EARG, "rollout.targets: a list of %d lists of ids expected, one per prompt",
              n);
  for (int i = 0; type == LUA_TTABLE && i < n; i++) {
    const size_t before = ids->len;
    lua_rawgeti(L, -1, i + 1);
    if (lua_toboolean(L, -1)) check_ids(L, -1, "rollout.targets", ids);
    p[i].target_len = (int)(ids->len - before);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* A list of prompts (lists of ids) at `list`; their numbers and targets in the fields `index` and
 * `targets` of the options. */
static Prompt *push_prompts(lua_State *L, int list, int options, int *n, IntBuf **store) {
  int count = 0;
  if (!lua_istable(L, list))
    raise_new(L, GRPO_EARG, "rollout.prompts: a list of lists of ids expected, got %s",
              luaL_typename(L, list));
  *n = (int)lua_rawlen(L, list);
  Prompt *p = push_scratch(L, (size_t)*n, sizeof *p);
  IntBuf *ids = *store = push_ints(L);
  for (int i = 0; i < *n; i++) {
    const size_t before = ids->len;
    lua_rawgeti(L, list, i + 1);
    check_ids(L, -1, "rollout.prompts", ids);
    p[i] = (Prompt){.len = (int)(ids->len - before), .index = (uint32_t)i};
    lua_pop(L, 1);
  }
  add_targets(L, options, *n, p, ids);
  int at = 0;
  for (int i = 0; i < *n; at += p[i++].len) p[i].ids = ids->data + at;
  for (int i = 0; i < *n; at += p[i++].target_len) p[i].target = ids->data + at;
  lua_getfield(L, options, "index");
  const double *numbers = lua_isnil(L, -1) ? NULL : push_numbers(L, -1, "rollout.index", &count);
  if (numbers && count != *n)
    raise_new(L, GRPO_EARG, "rollout.index: %d numbers for %d prompts", count, *n);
  for (int i = 0; numbers && i < *n; i++) {
    if (!(numbers[i] >= 0 && numbers[i] <= UINT32_MAX))
      raise_new(L, GRPO_EARG, "rollout.index[%d]: a whole number from 0 to %u expected", i + 1,
                UINT32_MAX);
    p[i].index = (uint32_t)numbers[i];
  }
  return p;
}

static void check_rollout(lua_State *L, int options, const Engine *e, RolloutOptions *o,
                          BatchSlot *slot) {
  static const char *const known[] = {"prompts", "n",     "sampling", "seed",    "step",
                                      "stream",  "index", "on_turn",  "targets", NULL};
  static const char *const streams[] = {"sample", "eval", NULL};
  int step = 0, stream = *slot;
  check_fields(L, options, "rollout", known);
  *o = (RolloutOptions){.group = engine_options(e)->group_size};
  sampling_init(&o->sampling);
  o->sampling.max_new_tokens = engine_options(e)->max_new_tokens;
  lua_getfield(L, options, "sampling"); /* stays on the stack: its strings are in use */
  if (!lua_isnil(L, -1)) check_sampling(L, lua_gettop(L), "sampling", &o->sampling);
  field_int(L, options, "rollout", "n", 1, 1 << 20, &o->group);
  field_seed(L, options, "rollout", "seed", &o->seed);
  field_int(L, options, "rollout", "step", 0, INT32_MAX, &step);
  field_choice(L, options, "rollout", "stream", streams, &stream);
  o->step = (uint32_t)step;
  o->cancel = &script_cancel;
  *slot = (BatchSlot)stream;
}

/* engine:rollout{ prompts=, n=, sampling=, seed=, step=, stream=, index=, targets=, on_turn= }
 * -> batch */
static int engine_rollout_prompts(lua_State *L) {
  Engine *e = check_idle_engine(L, 1);
  RolloutOptions o;
  BatchSlot slot = BATCH_SAMPLE;
  int n;
  check_table(L, 2);
  lua_settop(L, 2);
  check_rollout(L, 2, e, &o, &slot);
  lua_getfield(L, 2, "prompts");
  IntBuf *ids;
  const Prompt *p = push_prompts(L, lua_gettop(L), 2, &n, &ids);
  LuaTurns turns;
  turns_begin(L, 2, &o, &turns);
  set_busy(L, true);
  const Status s = engine_rollout(e, slot, n, p, &o);
  set_busy(L, false);
  keep_ints(L, ids);
  turns_end(&turns, s);
  push_batch(L, 1, slot);
  return 1;
}

/* engine:replace(batch, slots, prompts, options): slots are 1-based */
static int engine_replace_groups(lua_State *L) {
  Engine *e = check_idle_engine(L, 1);
  RolloutOptions o;
  BatchSlot slot, given;
  int n, count;
  check_batch(L, 2, &slot);
  lua_settop(L, 5);
  check_table(L, 5);
  given = slot;
  check_rollout(L, 5, e, &o, &given);
  if (given != slot) raise_new(L, GRPO_EARG, "replace.stream: not the stream of the batch");
  const double *numbers = push_numbers(L, 3, "replace.slots", &count);
  IntBuf *ids;
  const Prompt *p = push_prompts(L, 4, 5, &n, &ids);
  if (n != count) raise_new(L, GRPO_EARG, "replace: %d slots for %d prompts", count, n);
  int *slots = push_scratch(L, (size_t)n, sizeof *slots);
  for (int i = 0; i < n; i++) slots[i] = isnan(numbers[i]) ? -1 : (int)numbers[i] - 1;
  LuaTurns turns;
  turns_begin(L, 5, &o, &turns);
  set_busy(L, true);
  const Status s = engine_replace(e, slot, n, slots, p, &o);
  set_busy(L, false);
  keep_ints(L, ids);
  turns_end(&turns, s);
  return 0;
}

/* engine:reference(batch) */
static int engine_reference_batch(lua_State *L) {
  Engine *e = check_idle_engine(L, 1);
  const Status s = engine_reference(e, check_batch(L, 2, NULL));
  return s ? raise_status(L, s) : 0;
}

/* ---- a loss written in Lua ------------------------------------------------------- */

typedef struct LuaLoss {
  lua_State *L;
  int function, p; /* stack indices */
  int error;       /* registry reference of what it raised, or LUA_NOREF */
} LuaLoss;

typedef struct LossCall {
  const LuaLoss *loss;
  const LossInput *in;
  Value *result;
} LossCall;

static void set_tensor(lua_State *L, const char *name, Value *v) {
  if (!v) return;
  push_step_value(L, value_retain(v));
  lua_setfield(L, -2, name);
}

/* t.lengths, and t.sequence: the 1-based sequence of each token */
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
  lua_pushinteger(L, in->max_new_tokens);
  lua_setfield(L, -2, "max_new_tokens");
}

/* Protected: (function, p, call) */
static int call_loss(lua_State *L) {
  LossCall *c = lua_touserdata(L, 3);
  end_step_values(L); /* those of the micro-batch before */
  lua_pushvalue(L, 1);
  push_loss_input(L, c->in);
  lua_pushvalue(L, 2);
  lua_setfield(L, -2, "p");
  lua_call(L, 1, 1);
  Value *v = test_value(L, -1);
  if (!v)
    return raise_new(L, GRPO_EARG,
                     "train.loss: the function must return a tensor with one number, got %s",
                     luaL_typename(L, -1));
  c->result = value_retain(v);
  return 0;
}

static Status lua_loss(void *user, const LossInput *in, Value **out) {
  LuaLoss *loss = user;
  lua_State *L = loss->L;
  LossCall c = {loss, in, NULL};
  lua_pushcfunction(L, call_loss);
  lua_pushvalue(L, loss->function);
  lua_pushvalue(L, loss->p);
  lua_pushlightuserdata(L, &c);
  if (call_protected(L, 3, 0)) {
    *out = c.result;
    return GRPO_OK;
  }
  loss->error = luaL_ref(L, LUA_REGISTRYINDEX);
  return fail(GRPO_ESCRIPT, "train.loss raised an error");
}

/* ---- update ---------------------------------------------------------------------- */

/* Advantages: a number per completion, or a list with one per token of it. */
static void check_advantages(lua_State *L, const Batch *b, UpdateOptions *o) {
  const int n = batch_size(b);
  double *scalar = push_scratch(L, (size_t)n, sizeof *scalar), *token = NULL;
  if (lua_getfield(L, 3, "advantages") != LUA_TTABLE || (int)lua_rawlen(L, -1) != n)
    raise_new(L, GRPO_EARG,
              "update.advantages: a list of %d advantages expected, one per completion", n);
  const int list = lua_gettop(L);
  for (int i = 0, at = 0; i < n; at += b->completion[i++].len) {
    const int len = b->completion[i].len;
    int count;
    lua_settop(L, token ? list + 1 : list);
    lua_rawgeti(L, list, i + 1);
    if (lua_type(L, -1) == LUA_TNUMBER) {
      scalar[i] = (double)lua_tonumber(L, -1);
      continue;
    }
    if (!token) {
      token = push_scratch(L, (size_t)batch_tokens(b), sizeof *token);
      lua_insert(L, list + 1);
    }
    const double *v = push_numbers(L, -1, "update.advantages", &count);
    if (count != len)
      raise_new(L, GRPO_EARG, "update.advantages[%d]: %d numbers for %d tokens", i + 1, count, len);
    for (int t = 0; t < len; t++) token[at + t] = isnan(v[t]) ? 0 : v[t];
  }
  lua_settop(L, token ? list + 1 : list);
  o->advantage = scalar;
  o->token_advantage = token;
}

void read_update_options(lua_State *L, unsigned only, UpdateOptions *o) {
  static const char where[] = "train";
  int step = 0;
  read_loss_options(L, 3, where, only, &o->loss);
  read_options(L, 3, where, &update_option_set, only, o);
  field_int(L, 3, where, "step", 0, INT32_MAX, &step);
  field_seed(L, 3, where, "seed", &o->seed);
  o->step = (uint64_t)step;
  o->cancel = &script_interrupted;
}

static void check_update(lua_State *L, UpdateOptions *o) {
  static const OptionSet *const sets[] = {&loss_option_set, &update_option_set, NULL};
  static const char *const others[] = {"advantages", "loss", "max_new_tokens", "seed", "step",
                                       "p",          NULL};
  LossKind kind = LOSS_grpo;
  check_option_fields(L, 3, "update", sets, others);
  if (lua_getfield(L, 3, "loss") == LUA_TSTRING)
    kind = check_loss_kind(L, "train.loss", lua_tostring(L, -1));
  else if (!lua_isnil(L, -1) && !lua_isfunction(L, -1))
    raise_new(L, GRPO_EARG, "train.loss: a name or a function expected, got %s",
              luaL_typename(L, -1));
  lua_pop(L, 1);
  update_options_init(o, kind);
  read_update_options(L, 0, o);
}

void push_metrics(lua_State *L, const StepMetrics *m) {
  const struct {
    const char *name;
    double value;
  } rows[] = {
#define METRIC(field, name) {name, m->field},
#include "rl/metrics.def"
#undef METRIC
  };
  lua_createtable(L, 0, 24);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!isnan(rows[i].value)) set_number(L, rows[i].name, rows[i].value);
}

/* engine:update(batch, options) -> metrics */
static int engine_update_policy(lua_State *L) {
  Engine *e = check_idle_engine(L, 1);
  Batch *b = check_batch(L, 2, NULL);
  UpdateOptions o;
  StepMetrics m;
  check_table(L, 3);
  lua_settop(L, 3);
  check_update(L, &o);
  if (!o.loss.max_new_tokens) o.loss.max_new_tokens = engine_options(e)->max_new_tokens;
  lua_getfield(L, 3, "loss");
  lua_getfield(L, 3, "p");
  LuaLoss loss = {L, 4, 5, LUA_NOREF};
  if (lua_isfunction(L, 4)) {
    o.loss_fn = lua_loss;
    o.loss_user = &loss;
  }
  check_advantages(L, b, &o);
  luaL_checkstack(L, 20, "loss");
  set_busy(L, true);
  const Status s = engine_update(e, b, &o, &m);
  set_busy(L, false);
  if (o.loss_fn) end_step_values(L);
  if (loss.error != LUA_NOREF) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, loss.error);
    luaL_unref(L, LUA_REGISTRYINDEX, loss.error);
    return lua_error(L);
  }
  if (s) return raise_status(L, s);
  push_metrics(L, &m);
  return 1;
}

/* ---- demonstrations -------------------------------------------------------------- */

/* The mask of a demonstration, the table on top: booleans, one for each token of the target. */
static const uint8_t *push_mask(lua_State *L, const char *what, int example, int n) {
  const int table = lua_gettop(L);
  if (lua_getfield(L, table, "mask") == LUA_TNIL) {
    lua_pop(L, 1);
    return NULL;
  }
  if (!lua_istable(L, -1) || (int)lua_rawlen(L, -1) != n)
    raise_new(L, GRPO_EARG, "%s[%d].mask: a list of %d booleans expected", what, example + 1, n);
  uint8_t *mask = push_scratch(L, (size_t)n, sizeof *mask);
  for (int t = 0; t < n; t++) {
    lua_rawgeti(L, -2, t + 1);
    mask[t] = (uint8_t)lua_toboolean(L, -1);
    lua_pop(L, 1);
  }
  lua_remove(L, -2);
  lua_insert(L, table); /* stays on the stack, below the table */
  return mask;
}

/* A list of { prompt=ids, target=ids [, mask=booleans] } at index 2. */
Example *push_examples(lua_State *L, const char *what, int *n, IntBuf **store) {
  check_table(L, 2);
  *n = (int)lua_rawlen(L, 2);
  Example *x = push_scratch(L, (size_t)*n, sizeof *x);
  IntBuf *ids = *store = push_ints(L);
  for (int i = 0; i < *n; i++) {
    static const char *const names[] = {"prompt", "target"};
    size_t at[3];
    if (lua_rawgeti(L, 2, i + 1) != LUA_TTABLE)
      raise_new(L, GRPO_EARG, "%s[%d]: { prompt = ids, target = ids } expected, got %s", what,
                i + 1, luaL_typename(L, -1));
    for (int k = 0; k < 2; k++) {
      at[k] = ids->len;
      lua_getfield(L, -1, names[k]);
      const char *name = lua_pushfstring(L, "%s.%s", what, names[k]);
      check_ids(L, -2, name, ids);
      lua_pop(L, 2);
    }
    at[2] = ids->len;
    x[i] = (Example){.prompt_len = (int)(at[1] - at[0]), .target_len = (int)(at[2] - at[1])};
    luaL_checkstack(L, 8, "sft");
    x[i].mask = push_mask(L, what, i, x[i].target_len);
    lua_pop(L, 1);
  }
  for (int i = 0, at = 0; i < *n; at += x[i].prompt_len + x[i].target_len, i++) {
    x[i].prompt = ids->data + at;
    x[i].target = ids->data + at + x[i].prompt_len;
  }
  return x;
}

/* lr, max_grad_norm, seed and step of the table at index 3 */
void read_sft_options(lua_State *L, const char *where, SftOptions *o) {
  int step = 0;
  sft_options_init(o);
  read_options(L, 3, "train", &sft_option_set, 0, o);
  field_int(L, 3, where, "step", 0, INT32_MAX, &step);
  field_seed(L, 3, where, "seed", &o->seed);
  o->step = (uint64_t)step;
  o->cancel = &script_interrupted;
}

/* engine:sft(list, { lr=, max_grad_norm=, seed=, step= }) -> metrics */
static int engine_sft_step(lua_State *L) {
  static const OptionSet *const sets[] = {&sft_option_set, NULL};
  static const char *const others[] = {"seed", "step", NULL};
  Engine *e = check_idle_engine(L, 1);
  SftOptions o;
  StepMetrics m;
  int n;
  lua_settop(L, 3);
  check_option_fields(L, 3, "sft", sets, others);
  read_sft_options(L, "sft", &o);
  IntBuf *ids;
  const Example *x = push_examples(L, "sft", &n, &ids);
  const Status s = engine_sft(e, n, x, &o, &m);
  keep_ints(L, ids);
  if (s) return raise_status(L, s);
  push_metrics(L, &m);
  return 1;
}

/* engine:nll(list) -> mean, tokens */
static int engine_nll_mean(lua_State *L) {
  Engine *e = check_idle_engine(L, 1);
  double mean;
  int64_t tokens;
  int n;
  lua_settop(L, 2);
  IntBuf *ids;
  const Example *x = push_examples(L, "nll", &n, &ids);
  const Status s = engine_nll(e, n, x, &mean, &tokens);
  keep_ints(L, ids);
  if (s) return raise_status(L, s);
  lua_pushnumber(L, mean);
  lua_pushinteger(L, tokens);
  return 2;
}

/* ---- state ----------------------------------------------------------------------- */

static int engine_save_state(lua_State *L) {
  Engine *e = check_idle_engine(L, 1);
  const Status s = engine_save(e, check_string(L, 2, NULL));
  return s ? raise_status(L, s) : 0;
}

static int engine_load_state(lua_State *L) {
  Engine *e = check_idle_engine(L, 1);
  const Status s = engine_load(e, check_string(L, 2, NULL));
  return s ? raise_status(L, s) : 0;
}

static int engine_tostring(lua_State *L) {
  const EngineHandle *h = check_object(L, 1, ENGINE_TYPE);
  lua_pushstring(L, h->engine ? "engine" : "engine (closed)");
  return 1;
}

/* ---- registration ---------------------------------------------------------------- */

void engine_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"engine", l_engine},
                                       {"options", l_options},
                                       {"losses", l_losses},
                                       {"loss_problem", l_loss_problem},
                                       {"sampling_problem", l_sampling_problem},
                                       {"engine_problem", l_engine_problem},
                                       {"ppo_problem", l_ppo_problem},
                                       {"advantages", l_advantages},
                                       {"dense_advantages", l_dense_advantages},
                                       {"bigram", l_bigram},
                                       {"checkpoint_begin", l_checkpoint_begin},
                                       {"checkpoint_commit", l_checkpoint_commit},
                                       {"checkpoint_verify", l_checkpoint_verify},
                                       {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  static const luaL_Reg methods[] = {{"rollout", engine_rollout_prompts},
                                     {"replace", engine_replace_groups},
                                     {"reference", engine_reference_batch},
                                     {"update", engine_update_policy},
                                     {"ppo", engine_ppo_step},
                                     {"sft", engine_sft_step},
                                     {"nll", engine_nll_mean},
                                     {"denoise", engine_denoise_step},
                                     {"masked_loss", engine_masked_loss_sum},
                                     {"save", engine_save_state},
                                     {"load", engine_load_state},
                                     {"reserve", engine_reserve},
                                     {"estimate", engine_estimate_bytes},
                                     {"eval_capacity", engine_eval_capacity},
                                     {"close", engine_close},
                                     {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", engine_gc},
                                  {"__close", engine_close},
                                  {"__tostring", engine_tostring},
                                  {NULL, NULL}};
  rl_open(L);
  batch_open(L);
  bigram_open(L);
  make_type(L, ENGINE_TYPE, meta, methods);
}
