/* lua_denoise.c - masked training and its held-out loss as methods of the engine, and tokenizers
 * with a mask token. */
#include <string.h>

#include "denoise/denoise.h"
#include "denoise/tokenizer_mask.h"
#include "script/lua_engine.h"
#include "script/lua_sft.h"
#include "script/lua_tokenizer.h"
#include "script/parts.h"
#include "script/push_metrics.h"
#include "script/read_options.h"

#define MASK_FIELDS "mask", "vocab", "low", "high", "random", "keep", "seed", "step"

static void check_mask(lua_State *L, const char *where, MaskOptions *o) {
  const char *train = "train.denoise";
  int mask = -1, step = 0;
  field_int(L, 3, where, "mask", 0, INT32_MAX, &mask);
  field_int(L, 3, where, "vocab", 0, INT32_MAX, &o->vocab);
  field_int(L, 3, where, "step", 0, INT32_MAX, &step);
  field_number(L, 3, where, "low", 0, 1, &o->low);
  field_number(L, 3, where, "high", 0, 1, &o->high);
  field_number(L, 3, train, "random", 0, 1, &o->random);
  field_number(L, 3, train, "keep", 0, 1, &o->keep);
  field_seed(L, 3, where, "seed", &o->seed);
  o->mask_id = (int32_t)mask;
  o->step = (uint64_t)step;
}

/* engine:denoise(examples, options of MaskOptions and SftOptions) -> metrics */
static int l_denoise(lua_State *L) {
  static const OptionSet *const sets[] = {&sft_option_set, NULL};
  static const char *const others[] = {MASK_FIELDS, NULL};
  EngineCall call = engine_call_begin(L);
  MaskOptions mask = {0};
  SftOptions train;
  StepMetrics m;
  double mask_ratio;
  int n;
  lua_settop(L, 3);
  check_option_fields(L, 3, "denoise", sets, others);
  check_mask(L, "denoise", &mask);
  read_sft_options(L, "denoise", &train);
  const Example *x = push_sft_examples(L, "denoise", &n, &call.ids);
  ENGINE_CALL(&call, engine_denoise(call.engine, n, x, &mask, &train, &m, &mask_ratio));
  push_metrics(L, &m);
  set_number(L, "mask_ratio", mask_ratio);
  return 1;
}

/* engine:masked_loss(examples, options of MaskOptions) -> summed loss, masked tokens, those that
 * the model guessed right */
static int l_masked_loss(lua_State *L) {
  static const char *const known[] = {MASK_FIELDS, "first", NULL};
  EngineCall call = engine_call_begin(L);
  MaskOptions mask = {.held_out = true};
  MaskedLoss sum = {0};
  int n;
  lua_settop(L, 3);
  check_fields(L, 3, "masked_loss", known);
  check_mask(L, "masked_loss", &mask);
  field_int(L, 3, "masked_loss", "first", 0, INT32_MAX / 2, &mask.first);
  const Example *x = push_sft_examples(L, "masked_loss", &n, &call.ids);
  ENGINE_CALL(&call, engine_masked_loss(call.engine, n, x, &mask, &sum));
  lua_pushnumber(L, sum.nll);
  lua_pushinteger(L, sum.tokens);
  lua_pushinteger(L, sum.right);
  return 3;
}

/* tok:with_mask([token]) -> a tokenizer with a mask token; this one if it already has one */
static int l_with_mask(lua_State *L) {
  Tokenizer *made = NULL;
  const Tokenizer *t = check_tokenizer(L, 1);
  size_t n = 0;
  lua_settop(L, 2);
  const char *token = lua_isnil(L, 2) ? "<|mask|>" : check_string(L, 2, &n);
  if (!lua_isnil(L, 2) && strlen(token) != n) return arg_error(L, 2, "the token has a zero byte");
  if (tokenizer_role(t, TOK_MASK) >= 0) {
    lua_settop(L, 1);
    return 1;
  }
  const Tokenizer **place = push_tokenizer(L, NULL);
  want_ok(L, tokenizer_with_mask(&made, t, token));
  *place = made;
  lua_getiuservalue(L, 1, 1); /* the chat template that a script gave it */
  lua_setiuservalue(L, 3, 1);
  return 1;
}

EXTENSION_PART(denoise) {
  static const luaL_Reg engine[] = {FN(denoise), FN(masked_loss), {NULL, NULL}};
  static const luaL_Reg tokenizer[] = {FN(with_mask), {NULL, NULL}};
  add_methods(L, ENGINE_TYPE, engine);
  add_methods(L, TOKENIZER_TYPE, tokenizer);
}
