/* lua_classifier.c - core.classifier_load: a decoder with a sequence-classification head. */
#include "checkpoint/weights.h"
#include "model/classifier.h"
#include "script/lua_model.h"
#include "script/read_prompts.h"

#define CLASSIFIER_TYPE "grpo.Classifier"

static Classifier *check_classifier(lua_State *L) {
  return check_handle(L, 1, CLASSIFIER_TYPE, "the classifier is closed");
}

/* classifier_load(dir, { dtype=, quantize=, compute= }) -> c */
static int l_classifier_load(lua_State *L) {
  static const char *const known[] = {"dtype", "quantize", "compute", NULL};
  const char *where = "reward_model", *dir = check_string(L, 1, NULL);
  lua_settop(L, 2);
  check_fields(L, 2, where, known);
  const Storage storage = field_model_storage(L, 2, where);
  const Compute compute = field_model_compute(L, 2, where);
  Pool *pool = script_pool(L);
  Classifier **c = new_handle(L, CLASSIFIER_TYPE);
  want_ok(L, weights_load_classifier(c, pool, dir, storage, compute));
  return 1;
}

/* c:labels() -> number of labels */
static int l_labels(lua_State *L) { return give_integer(L, check_classifier(L)->labels); }

/* c:logits(texts) -> a list of logits for each list of ids */
static int l_logits(lua_State *L) {
  Classifier *c = check_classifier(L);
  check_table(L, 2);
  Prompts texts = read_prompt_completions(L, 2, NULL, "texts");
  const size_t n = (size_t)texts.n;
  Sequence *s = push_scratch(L, n, sizeof *s);
  real *logits = push_scratch(L, n * (size_t)c->labels, sizeof *logits);
  for (int i = 0; i < texts.n; i++)
    s[i] = (Sequence){texts.ids->data + texts.at[i], prompt_len(&texts, i)};
  want_ok(L, classifier_logits(c, texts.n, s, logits));
  lua_createtable(L, texts.n, 0);
  for (int i = 0; i < texts.n; i++) {
    push_floats(L, logits + (size_t)i * (size_t)c->labels, c->labels);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

/* model_with_head(model, seed) -> the model with a head for one label; c:model() -> a classifier's
 * model, trained with its head */
static int l_model_with_head(lua_State *L) {
  Model *m = check_model(L, 1);
  const uint64_t seed = (uint64_t)check_integer(L, 2, 0, INT64_MAX);
  LuaModel *lm = push_lua_model(L);
  want_ok(L, model_with_score(&lm->m, m, 1, NULL, seed));
  return 1;
}

static int l_model(lua_State *L) {
  const Classifier *c = check_classifier(L);
  LuaModel *lm = push_lua_model(L);
  want_ok(L, model_with_score(&lm->m, c->trunk, c->labels, c->score, 0));
  return 1;
}

static int l_gc(lua_State *L) {
  classifier_free(take_handle(L, 1, CLASSIFIER_TYPE));
  return 0;
}

CORE_PART(classifier) {
  static const luaL_Reg methods[] = {FN(labels), FN(logits), FN(model), {NULL, NULL}};
  static const luaL_Reg meta[] = {META(gc), {NULL, NULL}};
  make_type(L, CLASSIFIER_TYPE, meta, methods);
  lua_pushcfunction(L, l_classifier_load);
  lua_setfield(L, -2, "classifier_load");
  lua_pushcfunction(L, l_model_with_head);
  lua_setfield(L, -2, "model_with_head");
}
