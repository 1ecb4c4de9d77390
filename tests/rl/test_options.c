/* The engine's rows of options are sound, and what a loss's name changes is a row's. */
#include "base/options.h"

#include "grad/policy.h"
#include "rl/advantage.h"
#include "rl/ppo.h"
#include "rl/sft.h"
#include "testing.h"

static const OptionSet *const sets[] = {&loss_option_set,   &update_option_set,   &sft_option_set,
                                        &ppo_option_set,    &sampling_option_set, &adamw_option_set,
                                        &engine_option_set, &advantage_option_set};
enum { SETS = sizeof sets / sizeof *sets };

static bool is_number(const Option *o) { return o->type == OPTION_NUMBER || o->type == OPTION_INT; }

TEST(every_row_is_sound) {
  for (int k = 0; k < SETS; k++)
    for (int i = 0; i < sets[k]->count; i++) {
      const Option *o = &sets[k]->row[i];
      const char *section = sets[k]->section ? sets[k]->section : "";
      CHECK(*o->doc && option_find(sets[k], o->path) == o);
      CHECK(strncmp(o->path, section, strlen(section)) == 0);
      CHECK((o->type == OPTION_CHOICE) == (*o->words != 0));
      if (is_number(o) && !isnan(o->initial)) CHECK(!option_check_number(o, o->initial));
    }
}

TEST(a_choice_finds_its_words_and_no_others) {
  int enumerator = -1;
  const Option *o = option_find(&loss_option_set, "train.kl_estimator");
  CHECK(!option_find_word(o, "full", &enumerator) && enumerator == KL_FULL);
  CHECK(option_find_word(o, "k", &enumerator) == GRPO_EARG);
  o = option_find(&loss_option_set, "train.sampler_correction.mode");
  CHECK(!option_find_word(o, "sequence_mask", &enumerator) && enumerator == SAMPLER_SEQUENCE_MASK);
}

TEST(an_optional_section_is_off_until_it_is_given) {
  LossOptions o;
  loss_options_init(&o, LOSS_grpo);
  CHECK(o.sampler_mode == SAMPLER_NONE);
  options_begin_section(&loss_option_set, "train.sampler_correction", &o);
  CHECK(o.sampler_mode == SAMPLER_TOKEN_TRUNCATE && isnan(o.sampler_min) && o.sampler_max == 3);
}

TEST(a_number_out_of_its_row_s_bounds_is_refused_by_its_path) {
  LossOptions o;
  loss_options_init(&o, LOSS_grpo);
  CHECK(!loss_options_check(&o));
  o.clip = 1001;
  CHECK(loss_options_check(&o) == GRPO_EARG);
  CHECK(!strcmp(err_message(), "train.clip: want a number from 0 to 1000, got 1001"));
  o.clip = (double)NAN;
  CHECK(loss_options_check(&o) == GRPO_EARG);
}

static bool is_row(const char *path) {
  for (int k = 0; k < SETS; k++)
    if (option_find(sets[k], path)) return true;
  return false;
}

TEST(what_a_loss_changes_are_rows) {
  for (int i = 0; i < loss_default_count(); i++) CHECK(is_row(loss_default_at(i)->path));
  LossOptions o;
  loss_options_init(&o, LOSS_gspo_token);
  CHECK(o.clip == 3e-4 && o.clip_high == 4e-4 && o.importance == IMPORTANCE_SEQUENCE_TOKEN);
  loss_options_init(&o, LOSS_gmpo);
  CHECK(o.clip == .4 && o.clip_high == .4 && o.importance == IMPORTANCE_TOKEN);
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
  loss_options_init(&o, LOSS_rloo);
  o.sampler_mode = SAMPLER_SEQUENCE_MASK;
  CHECK(!loss_options_check(&o));
  o.sampler_mode = SAMPLER_TOKEN_MASK;
  CHECK(loss_options_check(&o) == GRPO_EARG);
  loss_options_init(&o, LOSS_grpo);
  o.clip_cov_low = o.clip_cov_high;
  CHECK(!loss_options_check(&o)); /* it is off */
  o.clip_cov_ratio = 0.1;
  CHECK(loss_options_check(&o) == GRPO_EARG);
}
