#include "script/lua_sft.h"

#include "script/interrupt.h"
#include "script/lua_engine.h"
#include "script/push_metrics.h"
#include "script/read_options.h"

/* Reads `mask` of the demonstration on top: a boolean for each of the n tokens of the target. */
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
  lua_insert(L, table); /* the mask stays on the stack, below the table */
  return mask;
}

Example *push_sft_examples(lua_State *L, const char *what, int *n, IntBuf **store) {
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
static int l_sft(lua_State *L) {
  static const OptionSet *const sets[] = {&sft_option_set, NULL};
  static const char *const others[] = {"seed", "step", NULL};
  EngineCall call = engine_call_begin(L);
  SftOptions o;
  StepMetrics m;
  int n;
  lua_settop(L, 3);
  check_option_fields(L, 3, "sft", sets, others);
  read_sft_options(L, "sft", &o);
  const Example *x = push_sft_examples(L, "sft", &n, &call.ids);
  ENGINE_CALL(&call, engine_sft(call.engine, n, x, &o, &m));
  push_metrics(L, &m);
  return 1;
}

/* engine:nll(list) -> mean, tokens */
static int l_nll(lua_State *L) {
  EngineCall call = engine_call_begin(L);
  double mean;
  int64_t tokens;
  int n;
  lua_settop(L, 2);
  const Example *x = push_sft_examples(L, "nll", &n, &call.ids);
  ENGINE_CALL(&call, engine_nll(call.engine, n, x, &mean, &tokens));
  lua_pushnumber(L, mean);
  lua_pushinteger(L, tokens);
  return 2;
}

CORE_METHODS(sft, ENGINE_TYPE, FN(sft), FN(nll))
