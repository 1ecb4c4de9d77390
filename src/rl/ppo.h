/* ppo.h - a step of proximal policy optimization. */
#ifndef GRPO_RL_PPO_H
#define GRPO_RL_PPO_H

#include "rl/update.h"

/* Proximal policy optimization: advantages and targets of the critic from GAE (gae.h), then
 * update.iterations passes over the rollout in `minibatches` parts, an optimizer step each. */
typedef struct PpoOptions {
  /* Of its loss the rows with OPTION_PPO, averaged over tokens; advantages and loss_fn are not
   * looked at. */
  UpdateOptions update;
  const double *score;        /* [completions] NaN: none, the completion is left out */
  const double *token_reward; /* [tokens of the batch]; NULL: none */
  /* kl_coef > 0 wants engine_reference() before; minibatches: at most as many as prompts */
#include "base/option_fields.h"
#include "rl/ppo_options.def"
} PpoOptions;
extern const OptionSet ppo_option_set; /* but for `update` */
void ppo_options_init(PpoOptions *o);
/* What has no meaning together; prompts: of the step. */
Status ppo_options_check(const PpoOptions *o, int prompts);
/* advantage [tokens of the batch]: those that the policy term had, for whoever looks at them; NULL: not
 * wanted. */
Status engine_ppo(Engine *e, Batch *b, const PpoOptions *o, double *advantage, StepMetrics *out);

#endif
