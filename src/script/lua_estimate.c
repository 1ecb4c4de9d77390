/* lua_estimate.c - core.model_estimate: what a model and a stage will take, before they exist. */
#include <string.h>

#include "checkpoint/weights.h"
#include "model/lora.h"
#include "os/file.h"
#include "script/lua_estimate.h"
#include "script/lua_model.h"
#include "script/lua_rl.h"

/* lora = { rank =, targets = { ... } or "all-linear" } */
static void add_lora(lua_State *L, int options, const char *where, ModelPlan *p) {
  enum { MOST = 64 };
  const char *target[MOST];
  int rank = 8, n = 0;
  if (lua_getfield(L, options, "lora") == LUA_TNIL) {
    lua_pop(L, 1);
    return;
  }
  check_table(L, -1);
  field_int(L, lua_gettop(L), where, "rank", 1, 4096, &rank);
  if (lua_getfield(L, -1, "targets") == LUA_TTABLE) {
    const int list = lua_gettop(L);
    for (int i = 1; i <= (int)lua_rawlen(L, list) && n < MOST; i++) {
      lua_rawgeti(L, list, i);
      target[n++] = check_string(L, -1, NULL); /* the list holds it */
      lua_pop(L, 1);
    }
  } else {
    target[n++] = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "all-linear";
  }
  const Status s = model_plan_add_lora(p, rank, n, target);
  if (s) raise_status(L, s);
  lua_pop(L, 2);
}

/* reference: "view" of the policy's base (adapters), "copy" of the whole, or nothing */
static ModelPlan *reference_of(lua_State *L, int options, const char *where,
                               const ModelPlan *policy, ModelPlan *out) {
  static const char *const kinds[] = {"view", "copy", NULL};
  int kind;
  if (!field_choice(L, options, where, "reference", kinds, &kind)) return NULL;
  *out = *policy;
  out->shared = kind == 0;
  out->lora_rank = out->lora_modules = 0;
  out->lora_params = out->lora_panels = 0;
  return out;
}

void field_reuse(lua_State *L, int index, const char *where, ReuseRollout *out) {
  const int type = lua_getfield(L, index, "reuse_rollout");
  if (type == LUA_TBOOLEAN)
    *out = lua_toboolean(L, -1) ? REUSE_ON : REUSE_OFF;
  else if (type == LUA_TSTRING && strcmp(lua_tostring(L, -1), "auto") == 0)
    *out = REUSE_AUTO;
  else if (type != LUA_TNIL)
    raise_new(L, GRPO_EARG, "%s.reuse_rollout: true, false or \"auto\" expected", where);
  lua_pop(L, 1);
}

void push_engine_bytes(lua_State *L, const EngineBytes *b) {
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

/* core.model_estimate(path or config, { dtype=, quantize=, compute=, lora = { rank=, targets= },
 * reference = "view"|"copy", train=, examples=, and core.engine's sizes }) -> bytes:
 * model (its weights alone, frozen), weights (with gradients), reference, optimizer, cache, batch,
 * activations, kept (of sampling), total */
static int l_model_estimate(lua_State *L) {
  static const char *const known[] = {"dtype",
                                      "quantize",
                                      "compute",
                                      "lora",
                                      "reference",
                                      "prompts_per_step",
                                      "group_size",
                                      "max_prompt_tokens",
                                      "train",
                                      "examples",
                                      "max_new_tokens",
                                      "micro_batch_tokens",
                                      "gradient_checkpointing",
                                      "reuse_rollout",
                                      NULL};
  const char *where = "model.estimate";
  EngineOptions o;
  EngineBytes bytes;
  ModelPlan policy, reference;
  Config c;
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) {
    lua_newtable(L);
    lua_replace(L, 2);
  }
  check_fields(L, 2, where, known);
  const Storage storage = field_storage(L, 2, where);
  if (lua_type(L, 1) == LUA_TSTRING && file_is_dir(lua_tostring(L, 1))) {
    const Status s = weights_plan(&policy, push_model_dir(L, lua_tostring(L, 1)), storage);
    if (s) return raise_status(L, s);
  } else {
    check_model_config(L, 1, &c);
    model_plan_of_config(&policy, &c);
  }
  policy.compute = field_compute(L, 2, where);
  add_lora(L, 2, where, &policy);
  engine_options_init(&o);
  o.examples = false;
  read_engine_options(L, 2, where, &o);
  field_bool(L, 2, where, "train", &o.train);
  engine_estimate(&policy, reference_of(L, 2, where, &policy, &reference), &o, &bytes);
  push_engine_bytes(L, &bytes);
  lua_pushinteger(L, (lua_Integer)model_plan_weight_bytes(&policy, false));
  lua_setfield(L, -2, "model");
  return 1;
}

void estimate_open(lua_State *L) {
  static const luaL_Reg functions[] = {{"model_estimate", l_model_estimate}, {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
}
