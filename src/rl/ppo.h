/* ppo.h - a step of proximal policy optimization. */
#ifndef GRPO_RL_PPO_H
#define GRPO_RL_PPO_H

#include "rl/engine.h"
#include "rl/metrics.h"

/* Proximal policy optimization: advantages and targets of the critic from GAE (gae.h), then
 * `epochs` passes over the rollout in `minibatches` parts, an optimizer step each. */
typedef struct PpoOptions {
  LossOptions loss;           /* clip, clip_high, delta, entropy; averaged over tokens */
  const double *score;        /* [completions] NaN: none, the completion is left out */
  const double *token_reward; /* [tokens of the batch]; NULL: none */
  double gamma, lambda, value_coef, clip_value;
  double kl_coef; /* of a token's reward; > 0 wants engine_reference() before */
  KlEstimator kl_estimator;
  bool whiten_rewards, mask_truncated;
  double top_entropy_quantile;
  int epochs, minibatches; /* minibatches: at most as many as prompts */
  double lr, max_grad_norm;
  uint64_t seed, step;
  const volatile int *cancel; /* as in UpdateOptions */
} PpoOptions;
void ppo_options_init(PpoOptions *o);
/* advantage [tokens of the batch]: those that the policy term had, for whoever looks at them; NULL: not
 * wanted. */
Status engine_ppo(Engine *e, Batch *b, const PpoOptions *o, double *advantage, StepMetrics *out);

#endif
