/* The table of options is sound, and the engine's defaults are its defaults. */
#include <stdlib.h>

#include "formats/json.h"
#include "grad/policy.h"
#include "rl/options.h"
#include "testing.h"

TEST(every_row_is_sound) {
  for (int i = 0; i < option_count(); i++) {
    const Option *o = option_at(i);
    Json *j;
    CHECK(!json_parse(o->fallback, strlen(o->fallback), o->path, &j));
    json_free(j);
    CHECK(*o->doc && option_find(o->path) == o);
    CHECK((strstr(o->type, "enum") != NULL) == (*o->choices != 0));
    if (*o->fallback == '"' && strstr(o->type, "enum")) CHECK(option_choice(o->path) >= 0);
    if (*o->fallback >= '0' && *o->fallback <= '9')
      CHECK(option_number(o->path) == atof(o->fallback));
  }
}

static double changed(const char *loss, const char *path, double otherwise) {
  for (int i = 0; i < loss_default_count(); i++) {
    const LossDefault *d = loss_default_at(i);
    if (!strcmp(d->loss, loss) && !strcmp(d->path, path)) return atof(d->fallback);
  }
  return otherwise;
}

TEST(what_a_loss_changes_is_the_same_for_scripts_and_in_c) {
#define LOSS(name) #name,
  static const char *const names[] = {
#include "grad/losses.def"
  };
#undef LOSS
  for (int k = 0; k < LOSS_COUNT; k++) {
    LossOptions o;
    loss_options_init(&o, (LossKind)k);
    const double clip = changed(names[k], "train.clip", option_number("train.clip"));
    CHECK_NEAR(o.clip, clip, 0);
    CHECK_NEAR(o.clip_high, changed(names[k], "train.clip_high", clip), 0);
    CHECK_NEAR(o.sapo_neg, option_number("train.sapo.neg"), 0);
    CHECK_NEAR(o.vespo_lambda_pos, option_number("train.vespo.lambda_pos"), 0);
    CHECK((int)o.kl_estimator == option_choice("train.kl_estimator"));
    if (k != LOSS_nll) CHECK(option_choice_of("train.loss", names[k]) == k);
  }
  for (int i = 0; i < loss_default_count(); i++) {
    LossKind kind;
    CHECK(option_find(loss_default_at(i)->path) != NULL);
    CHECK(!loss_kind_from_name(loss_default_at(i)->loss, &kind));
  }
}

TEST(combinations_without_meaning_are_refused) {
  LossOptions o;
  loss_options_init(&o, LOSS_grpo);
  CHECK(!loss_options_check(&o));
  o.kl = 0.1;
  o.kl_estimator = KL_K1;
  CHECK(loss_options_check(&o) == GRPO_EARG);
  loss_options_init(&o, LOSS_gspo);
  o.importance = IMPORTANCE_TOKEN;
  CHECK(loss_options_check(&o) == GRPO_EARG);
  loss_options_init(&o, LOSS_gmpo);
  o.importance = IMPORTANCE_SEQUENCE;
  CHECK(loss_options_check(&o) == GRPO_EARG);
}
