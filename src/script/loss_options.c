/* loss_options.c - reading the options of a loss; see loss_options.h. */
#include "script/loss_options.h"

#include <math.h>
#include <stdio.h>

typedef struct SubTable {
  char where[48];
  int index; /* of the table, or of nil */
} SubTable;

/* Pushes the table NAME of the options (or nil) after a look at its fields; true when it is there. */
static bool push_sub_table(lua_State *L, int index, const char *where, const char *name,
                           const char *const *known, SubTable *t) {
  snprintf(t->where, sizeof t->where, "%s.%s", where, name);
  if (lua_istable(L, index))
    lua_getfield(L, index, name);
  else
    lua_pushnil(L);
  t->index = lua_gettop(L);
  check_fields(L, t->index, t->where, known);
  return !lua_isnil(L, t->index);
}

static void check_sampler_correction(lua_State *L, int index, const char *where, LossOptions *o) {
  static const char *const modes[] = {"token_truncate", "token_mask", "sequence_truncate",
                                      "sequence_mask", NULL};
  static const char *const known[] = {"mode", "min", "max", NULL};
  SubTable t;
  int mode = 0;
  if (push_sub_table(L, index, where, "sampler_correction", known, &t)) {
    field_choice(L, t.index, t.where, "mode", modes, &mode);
    o->sampler_mode = (SamplerMode)(SAMPLER_TOKEN_TRUNCATE + mode);
    o->sampler_max = 3;
    field_number(L, t.index, t.where, "min", 0, INFINITY, &o->sampler_min);
    field_number(L, t.index, t.where, "max", 0, INFINITY, &o->sampler_max);
  }
  lua_pop(L, 1);
}

static void check_sapo(lua_State *L, int index, const char *where, LossOptions *o) {
  static const char *const known[] = {"pos", "neg", NULL};
  SubTable t;
  push_sub_table(L, index, where, "sapo", known, &t);
  field_number(L, t.index, t.where, "pos", 1e-6, INFINITY, &o->sapo_pos);
  field_number(L, t.index, t.where, "neg", 1e-6, INFINITY, &o->sapo_neg);
  lua_pop(L, 1);
}

static void check_vespo(lua_State *L, int index, const char *where, LossOptions *o) {
  static const char *const known[] = {"k_pos", "lambda_pos", "k_neg", "lambda_neg", NULL};
  SubTable t;
  push_sub_table(L, index, where, "vespo", known, &t);
  field_number(L, t.index, t.where, "k_pos", 0, INFINITY, &o->vespo_k_pos);
  field_number(L, t.index, t.where, "lambda_pos", 0, INFINITY, &o->vespo_lambda_pos);
  field_number(L, t.index, t.where, "k_neg", 0, INFINITY, &o->vespo_k_neg);
  field_number(L, t.index, t.where, "lambda_neg", 0, INFINITY, &o->vespo_lambda_neg);
  lua_pop(L, 1);
}

void check_loss_options(lua_State *L, int index, const char *where, LossOptions *o) {
  static const char *const estimators[] = {"k1", "k2", "k3", "full", NULL};
  static const char *const importances[] = {"token", "sequence", NULL};
  int choice;
  if (field_number(L, index, where, "clip", 0, 1000, &o->clip)) o->clip_high = o->clip;
  field_number(L, index, where, "clip_high", 0, 1000, &o->clip_high);
  field_number(L, index, where, "delta", 0, INFINITY, &o->delta);
  if (field_choice(L, index, where, "importance", importances, &choice))
    o->importance = choice == 0                  ? IMPORTANCE_TOKEN
                    : o->kind == LOSS_gspo_token ? IMPORTANCE_SEQUENCE_TOKEN
                                                 : IMPORTANCE_SEQUENCE;
  field_number(L, index, where, "kl", 0, INFINITY, &o->kl);
  if (field_choice(L, index, where, "kl_estimator", estimators, &choice))
    o->kl_estimator = (KlEstimator)choice;
  field_bool(L, index, where, "kl_bias_correction", &o->kl_bias_correction);
  field_number(L, index, where, "off_policy_mask", -INFINITY, INFINITY, &o->off_policy_mask);
  field_number(L, index, where, "entropy", -INFINITY, INFINITY, &o->entropy);
  field_number(L, index, where, "cispo_cap", 0, INFINITY, &o->cispo_cap);
  field_int(L, index, where, "max_new_tokens", 1, INT32_MAX, &o->max_new_tokens);
  check_sampler_correction(L, index, where, o);
  check_sapo(L, index, where, o);
  check_vespo(L, index, where, o);
}
