/* lua_adapter.c - a model's low-rank adapter: adding, loading, merging it, working without it. */
#include <string.h>

#include "checkpoint/peft.h"
#include "model/lora.h"
#include "model/lora_merge.h"
#include "script/lua_model.h"

static LuaModel *check_adaptable(lua_State *L, int arg, const char *what) {
  LuaModel *lm = check_lua_model(L, arg);
  want_idle_model(L, lm, what);
  if (lm->frozen)
    raise_new(L, GRPO_EARG, "this model is a frozen copy (a reference), so it takes no adapter");
  return lm;
}

/* Reads `targets`, a name or a list of names, which stay on the stack. */
static void field_targets(lua_State *L, int index, const char *where, LoraOptions *o) {
  static const char *const all[] = {"all-linear"};
  o->ntargets = 1;
  o->targets = all;
  if (!lua_istable(L, index) || lua_getfield(L, index, "targets") == LUA_TNIL) return;
  const int list = lua_gettop(L), single = lua_type(L, list) == LUA_TSTRING;
  const lua_Integer n = single ? 1 : lua_istable(L, list) ? (lua_Integer)lua_rawlen(L, list) : 0;
  if (n < 1 || n > 1000)
    raise_new(L, GRPO_EARG, "%s.targets: want \"all-linear\" or a list of names of modules", where);
  const char **names = push_scratch(L, (size_t)n, sizeof *names);
  luaL_checkstack(L, (int)n, "targets");
  for (lua_Integer i = 1; i <= n; i++) {
    if (single)
      lua_pushvalue(L, list);
    else
      lua_rawgeti(L, list, i);
    if (lua_type(L, -1) != LUA_TSTRING)
      raise_new(L, GRPO_EARG, "%s.targets[%d]: want a name, got %s", where, (int)i,
                luaL_typename(L, -1));
    names[i - 1] = lua_tostring(L, -1);
  }
  o->ntargets = (int)n;
  o->targets = names;
}

/* m:add_lora{ rank=, alpha=, dropout=, targets=, use_rslora=, seed= } */
static int l_add_lora(lua_State *L) {
  static const char *const known[] = {"rank",       "alpha", "dropout", "targets",
                                      "use_rslora", "seed",  NULL};
  static const char where[] = "lora";
  LoraOptions o = {.rank = 8, .alpha = 16};
  uint64_t seed = 0;
  LuaModel *lm = check_adaptable(L, 1, "add_lora");
  lua_settop(L, 2);
  check_fields(L, 2, where, known);
  field_int(L, 2, where, "rank", 1, 4096, &o.rank);
  field_number(L, 2, where, "alpha", 0, 1e9, &o.alpha);
  field_number(L, 2, where, "dropout", 0, 0.999, &o.dropout);
  field_bool(L, 2, where, "use_rslora", &o.use_rslora);
  field_seed(L, 2, where, "seed", &seed);
  field_targets(L, 2, where, &o);
  want_ok(L, lora_add(lm->m, &o, seed));
  return 0;
}

/* m:load_adapter(path): path is a PEFT directory, or a run directory, for its newest checkpoint */
static int l_load_adapter(lua_State *L) {
  LuaModel *lm = check_adaptable(L, 1, "load_adapter");
  lua_settop(L, 2);
  want_ok(L, peft_load(lm->m, push_model_dir(L, check_string(L, 2, NULL))));
  return 0;
}

/* core.model_load_adapter(m, dir): allows a frozen view, a reference with an adapter of its own */
static int l_model_load_adapter(lua_State *L) {
  LuaModel *lm = check_lua_model(L, 1);
  want_idle_model(L, lm, "load_adapter");
  want_ok(L, peft_load(lm->m, check_string(L, 2, NULL)));
  return 0;
}

/* m:merge_lora() */
static int l_merge_lora(lua_State *L) {
  LuaModel *lm = check_adaptable(L, 1, "merge_lora");
  /* lora_merge refuses while a reference shares the weights; it may be garbage already. */
  if (lora_attached(lm->m)) lua_gc(L, LUA_GCCOLLECT);
  want_ok(L, lora_merge(lm->m));
  return 0;
}

/* m:without_adapter(f, ...) -> what f returns; the model is its base while f runs */
static int l_without_adapter(lua_State *L) {
  LuaModel *lm = check_lua_model(L, 1);
  Model *m = lm->m;
  want_idle_model(L, lm, "without_adapter");
  check_function(L, 2);
  const bool was = lora_switch(m, false);
  const bool good = call_protected(L, lua_gettop(L) - 2, LUA_MULTRET);
  lora_switch(m, was);
  return good ? lua_gettop(L) - 1 : lua_error(L);
}

/* core.model_base(m) -> the base model alone, frozen, sharing the weights */
static int l_model_base(lua_State *L) {
  Model *m = check_model(L, 1);
  LuaModel *view = push_lua_model(L);
  view->frozen = true;
  want_ok(L, model_view(&view->m, m));
  lua_getiuservalue(L, 1, 1);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

CORE_PART(adapter) {
  static const luaL_Reg functions[] = {FN(model_base), FN(model_load_adapter), {NULL, NULL}};
  static const luaL_Reg methods[] = {
      FN(add_lora), FN(load_adapter), FN(merge_lora), FN(without_adapter), {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  add_methods(L, MODEL_TYPE, methods);
}
