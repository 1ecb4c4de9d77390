/* ppo_options.h - the options of a step of proximal policy optimization. */
#ifndef GRPO_RL_PPO_OPTIONS_H
#define GRPO_RL_PPO_OPTIONS_H

#include "rl/update_options.h"

/* Proximal policy optimization: advantages and targets of the critic from GAE (gae.h), then
 * update.iterations passes over the rollout in `minibatches` parts, an optimizer step each. */
typedef struct PpoOptions {
  /* Its loss uses the rows with OPTION_PPO, averaged over tokens; its advantages and loss_fn are
   * ignored. */
  UpdateOptions update;
  const double *score;        /* [completions] NaN: none, the completion is left out */
  const double *token_reward; /* [tokens of the batch], read where the mask is 1; NULL: none */
  /* kl_coef > 0 wants engine_reference() before; minibatches: at most as many as prompts */
#include "base/option_fields.h"
#include "rl/ppo_options.def"
} PpoOptions;
extern const OptionSet ppo_option_set; /* without `update` */
void ppo_options_init(PpoOptions *o);
/* Refuses options that contradict each other; prompts: of the step. */
Status ppo_options_check(const PpoOptions *o, int prompts);

#endif
