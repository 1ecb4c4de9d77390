/* lua_engine.c - core.engine: an engine (rl/engine.h) as a Lua object, its memory and its state.
 *
 * Other files add the methods that make a step: lua_rollout.c, lua_update.c, lua_ppo.c, lua_sft.c.
 */
#include "script/lua_engine.h"

#include <limits.h>
#include <string.h>

#include "model/lora.h"
#include "model/sampler.h"
#include "os/comm.h"
#include "rl/engine_memory.h"
#include "script/lua_model.h"
#include "script/lua_tensor.h"
#include "script/lua_tokenizer.h"
#include "script/read_options.h"
#include "script/reference_type.h"

/* One rollout of an evaluation has at most this many completions, and room for this many tokens. */
enum { EVAL_SEQUENCES = 1024, EVAL_TOKENS = 1 << 20 };

typedef struct EngineHandle {
  Engine *engine; /* NULL: closed */
  bool busy;      /* it may call a script, which must not call it again */
} EngineHandle;

Engine *check_engine(lua_State *L, int arg) {
  EngineHandle *h = check_object(L, arg, ENGINE_TYPE);
  if (!h->engine) raise_new(L, GRPO_EARG, "the engine is closed");
  return h->engine;
}

EngineCall engine_call_begin(lua_State *L) {
  Engine *e = check_engine(L, 1);
  const EngineHandle *h = lua_touserdata(L, 1);
  if (h->busy)
    raise_new(L, GRPO_EARG, "the engine is at work, so what it calls cannot start it again");
  return (EngineCall){.L = L, .engine = e, .error = LUA_NOREF};
}

static void set_busy(const EngineCall *call, bool busy) {
  EngineHandle *h = lua_touserdata(call->L, 1);
  h->busy = busy;
}

void engine_call_start(EngineCall *call) { set_busy(call, true); }

Status engine_call_fail(EngineCall *call, const char *what) {
  const Status s = fail_raised(call->L, what);
  call->error = luaL_ref(call->L, LUA_REGISTRYINDEX);
  return s;
}

void engine_call_end(EngineCall *call, Status s) {
  lua_State *L = call->L;
  set_busy(call, false);
  if (call->has_step_values) end_step_tensors(L);
  if (call->ids) keep_ints(L, call->ids);
  if (call->error != LUA_NOREF) {
    lua_rawgeti(L, LUA_REGISTRYINDEX, call->error);
    luaL_unref(L, LUA_REGISTRYINDEX, call->error);
    lua_error(L);
  }
  want_ok(L, s);
}

static int l_gc(lua_State *L) {
  EngineHandle *h = check_object(L, 1, ENGINE_TYPE);
  engine_free(h->engine);
  h->engine = NULL;
  return 0;
}

static int l_close(lua_State *L) {
  check_object(L, 1, ENGINE_TYPE);
  return in_use(L) ? 0 : l_gc(L);
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
  static const OptionSet *const sets[] = {&optimizer_option_set, &adamw_option_set, NULL};
  static const char *const others[] = {"no_decay", NULL};
  static const char where[] = "train.optimizer";
  bool bias = !o->decay_bias, norm = !o->decay_norm;
  check_option_fields(L, index, where, sets, others);
  read_options(L, index, where, &optimizer_option_set, 0, o);
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
  field_int(L, index, where, "mask_tokens", 0, INT_MAX, &o->mask_tokens);
  field_int(L, index, where, "ref_prompt_tokens", 0, (lua_Integer)longest->high,
            &o->ref_prompt_tokens);
  field_bool(L, index, where, "examples", &o->examples);
  field_bool(L, index, where, "turns", &o->turns);
  field_reuse(L, index, where, &o->reuse_rollout);
}

/* estimate: fields of engine_estimate alone are known too. */
static void check_engine_options(lua_State *L, bool estimate, EngineOptions *o) {
  static const OptionSet *const sets[] = {&engine_option_set, NULL};
  static const char *const others[] = {
      "storage",  "lora",  "model",         "tokenizer",      "reference",   "optimizer",
      "examples", "turns", "reuse_rollout", "max_new_tokens", "mask_tokens", "ref_prompt_tokens",
      NULL};
  engine_options_init(o);
  check_table(L, 1);
  check_option_fields(L, 1, "engine", sets, estimate ? others : others + 2);
  read_engine_options(L, 1, "engine", o);
  o->train = get_table(L, 1, "optimizer", "engine.");
  if (o->train) read_optimizer(L, lua_gettop(L), &o->optimizer);
  lua_pop(L, 1);
}

/* Pushes the field reference of the table at 1, and returns it if it is a model.  What a type of
 * reference_type.h knows becomes o->source. */
static Model *read_reference(lua_State *L, EngineOptions *o) {
  lua_getfield(L, 1, "reference");
  const int arg = lua_gettop(L);
  if (!lua_toboolean(L, arg)) return NULL;
  for (const ReferenceType *t = reference_type_first(); t; t = t->next) {
    if (!luaL_testudata(L, arg, t->name)) continue;
    o->source = t->check(L, arg);
    return NULL;
  }
  return check_model(L, arg);
}

/* engine{ model=, tokenizer=, reference=, ... } */
static int l_engine(lua_State *L) {
  EngineOptions o;
  lua_settop(L, 1);
  check_engine_options(L, false, &o);
  lua_getfield(L, 1, "model");
  Model *policy = check_model(L, 2), *reference = read_reference(L, &o);
  lua_getfield(L, 1, "tokenizer");
  const Tokenizer *tok = lua_toboolean(L, 4) ? check_tokenizer(L, 4) : NULL;
  EngineHandle *h = new_object(L, sizeof *h, 0);
  *h = (EngineHandle){0};
  luaL_setmetatable(L, ENGINE_TYPE);
  want_ok(L, engine_new(&h->engine, script_pool(L), policy, reference, tok, &o));
  return 1;
}

/* reserve() -> the engine: allocates the memory of the bindings, for texts and lists of ids; the
 * engine has allocated its own */
static int l_reserve(lua_State *L) {
  enum { BYTES_PER_TOKEN = 16 }; /* more than the average of a vocabulary */
  const EngineOptions *o = engine_options(check_engine(L, 1));
  const size_t tokens = (size_t)o->max_prompt_tokens + (size_t)o->max_new_tokens;
  reserve_bufs(L, (size_t)o->max_new_tokens * BYTES_PER_TOKEN,
               tokens * (size_t)o->prompts_per_step);
  lua_settop(L, 1);
  return 1;
}

/* sizes() -> { prompts_per_step=, group_size=, max_prompt_tokens=, max_new_tokens= } */
static int l_sizes(lua_State *L) {
  const EngineOptions *o = engine_options(check_engine(L, 1));
  lua_createtable(L, 0, 4);
  set_integer(L, "prompts_per_step", o->prompts_per_step);
  set_integer(L, "group_size", o->group_size);
  set_integer(L, "max_prompt_tokens", o->max_prompt_tokens);
  set_integer(L, "max_new_tokens", o->max_new_tokens);
  return 1;
}

/* eval_capacity() -> completions that one rollout of an evaluation has at most */
static int l_eval_capacity(lua_State *L) {
  const int fit = EVAL_TOKENS / engine_options(check_engine(L, 1))->max_new_tokens;
  return give_integer(L, fit < 1 ? 1 : fit < EVAL_SEQUENCES ? fit : EVAL_SEQUENCES);
}

static void push_engine_bytes(lua_State *L, const EngineBytes *b) {
  const struct {
    const char *name;
    size_t bytes;
  } rows[] = {{"total", b->total},
              {"weights", b->weights},
              {"reference", b->reference},
              {"optimizer", b->optimizer},
              {"critic", b->critic},
              {"cache", b->cache},
              {"batch", b->batch},
              {"activations", b->activations},
              {"kept", b->kept},
              {"masks", b->masks},
              {"held", b->held}};
  lua_createtable(L, 0, 11);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    set_integer(L, rows[i].name, (lua_Integer)rows[i].bytes);
  }
}

/* ---- memory before there is an engine ---------------------------------------------------- */

/* The fields storage and lora of the table at 1: how else the policy's weights might be stored, and
 * an adapter that it might have. */
typedef struct AskedForm {
  ModelForm form;
  Storage storage;
  LoraOptions lora;
  const char *targets[64];
} AskedForm;

static void read_form(lua_State *L, AskedForm *a) {
  static const char *const storages[] = {"f32", "auto", "bf16", "int8", "nf4", NULL};
  enum { MOST_TARGETS = sizeof a->targets / sizeof *a->targets };
  int storage = 0, n = 0;
  *a = (AskedForm){.lora = {.rank = 8, .alpha = 16, .targets = a->targets}};
  if (field_choice(L, 1, "engine", "storage", storages, &storage)) a->form.storage = &a->storage;
  a->storage = (Storage)storage;
  if (!get_table(L, 1, "lora", "engine.")) return;
  const int table = lua_gettop(L);
  a->form.lora = &a->lora;
  field_int(L, table, "engine.lora", "rank", 1, 4096, &a->lora.rank);
  get_table(L, table, "targets", "engine.lora.");
  for (const int count = (int)lua_rawlen(L, -1); n < count && n < MOST_TARGETS; n++) {
    lua_rawgeti(L, table + 1, n + 1);
    a->targets[n] = luaL_checkstring(L, -1);
    luaL_checkstack(L, 4, "targets");
  }
  a->lora.ntargets = n;
}

/* engine_estimate{ as of core.engine, storage=, lora={ rank=, targets={} } } -> { total=, weights=,
 * ... } in bytes, and of these `held`, which the models that there are take already */
static int l_engine_estimate(lua_State *L) {
  EngineOptions o;
  EngineNeeds needs;
  AskedForm asked;
  lua_settop(L, 1);
  check_engine_options(L, true, &o);
  lua_getfield(L, 1, "model");
  const Model *m = check_model(L, 2), *r = read_reference(L, &o);
  want_ok(L, engine_options_check(&o, lora_dropout(m)));
  read_form(L, &asked);
  want_ok(L, engine_measure(script_pool(L), m, r, &o, &asked.form, &needs));
  push_engine_bytes(L, &needs.bytes);
  return 1;
}

/* gradient_sums(numbers, fewest, groups, blocks, ranks) -> the most partial sums of the gradient of
 * that many numbers that one of the ranks holds at once, in steps of fewest .. groups groups */
static int l_gradient_sums(lua_State *L) {
  const uint64_t numbers = (uint64_t)luaL_checkinteger(L, 1);
  TreeSteps s = {.fewest = (int)luaL_checkinteger(L, 2),
                 .groups = (int)luaL_checkinteger(L, 3),
                 .blocks = (int)luaL_checkinteger(L, 4),
                 .ranks = (int)luaL_checkinteger(L, 5)};
  int most = 0;
  luaL_argcheck(L, s.fewest >= 1, 2, "must be from 1");
  luaL_argcheck(L, s.blocks >= 0, 4, "must not be negative");
  luaL_argcheck(L, s.ranks >= 1 && s.ranks <= COMM_RANKS, 5, "want 1 to 4096 ranks");
  for (; s.rank < s.ranks; s.rank++) {
    const int n = gradient_tree_sums(numbers, &s);
    if (n > most) most = n;
  }
  return give_integer(L, most);
}

/* estimate() -> { total=, weights=, ... } in bytes */
static int l_estimate(lua_State *L) {
  Engine *e = check_engine(L, 1);
  EngineNeeds needs;
  want_ok(L, engine_measure(script_pool(L), engine_policy(e), engine_reference_model(e),
                            engine_options(e), NULL, &needs));
  push_engine_bytes(L, &needs.bytes);
  return 1;
}

/* ---- state ----------------------------------------------------------------------- */

static int l_optimizer_steps(lua_State *L) {
  return give_integer(L, (lua_Integer)engine_optimizer_steps(check_engine(L, 1)));
}

static int l_update_tokens(lua_State *L) {
  return give_integer(L, (lua_Integer)engine_update_tokens(check_engine(L, 1)));
}

/* largest_gradient() -> the name of the parameter that had it in the last optimizer step, or nil */
static int l_largest_gradient(lua_State *L) {
  return give_string(L, engine_largest_gradient(check_engine(L, 1)));
}

/* engine:save([dir]): without a directory as engine_save() */
static int l_save(lua_State *L) {
  EngineCall call = engine_call_begin(L);
  const char *dir = lua_isnoneornil(L, 2) ? NULL : check_string(L, 2, NULL);
  ENGINE_CALL(&call, engine_save(call.engine, dir));
  return 0;
}

static int l_load(lua_State *L) {
  EngineCall call = engine_call_begin(L);
  const char *dir = check_string(L, 2, NULL);
  ENGINE_CALL(&call, engine_load(call.engine, dir));
  return 0;
}

static int l_tostring(lua_State *L) {
  const EngineHandle *h = check_object(L, 1, ENGINE_TYPE);
  return give_string(L, h->engine ? "engine" : "engine (closed)");
}

CORE_PART(engine) {
  static const luaL_Reg functions[] = {
      FN(engine), FN(engine_estimate), FN(gradient_sums), {NULL, NULL}};
  static const luaL_Reg methods[] = {
      FN(save),
      FN(load),
      FN(reserve),
      FN(estimate),
      FN(eval_capacity),
      FN(close),
      FN(optimizer_steps),
      FN(update_tokens),
      FN(largest_gradient),
      FN(sizes),
      {NULL, NULL},
  };
  static const luaL_Reg meta[] = {META(gc), META(close), META(tostring), {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  make_type(L, ENGINE_TYPE, meta, methods);
}
