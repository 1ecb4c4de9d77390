#include "rl/ppo_options.h"

static const Option option_rows[] = {
#define OPTIONS_OF PpoOptions
#include "base/option_rows.h"
#include "rl/ppo_options.def"
};

const OptionSet ppo_option_set = OPTION_SET("train.ppo.", option_rows);

void ppo_options_init(PpoOptions *o) {
  *o = (PpoOptions){0};
  options_init_rows(&ppo_option_set, o);
  update_options_init(&o->update, LOSS_dapo); /* the clipped surrogate, a mean over tokens */
  o->update.loss.clip_high = o->update.loss.clip;
}

Status ppo_options_check(const PpoOptions *o, int prompts) {
  try(options_check(&ppo_option_set, o));
  if (o->minibatches > prompts)
    return fail(GRPO_EARG,
                "train.ppo.minibatches: %d are too many, because a step has %d prompts and a "
                "minibatch takes whole groups; lower it",
                o->minibatches, prompts);
  if (o->kl_estimator == KL_FULL)
    return fail(GRPO_EARG, "train.ppo.kl_estimator: full cannot be a token's reward, because it "
                           "does not depend on the token; use k1");
  return GRPO_OK;
}
