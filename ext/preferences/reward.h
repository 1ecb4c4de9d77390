/* reward.h - training a reward model: a step on the rewards of pairs of texts.
 *
 * The policy is a model with a head for one label (model_with_score).  A text's reward is the
 * head's output after its last token that is not the configuration's pad token, as in classifier.h.
 */
#ifndef GRPO_PREFERENCES_REWARD_H
#define GRPO_PREFERENCES_REWARD_H

#include "rl/likelihood.h"

/* reward [n] of n texts, each a target behind its prompt; neighbours 2i, 2i + 1 have one prompt.
 * EARG if n is odd, or a text is empty or longer than the model's context. */
Status engine_rewards(Engine *e, int n, const Example *texts, real *reward);
/* One optimizer step on the sum of slope [n] times reward. */
Status engine_reward_step(Engine *e, int n, const Example *texts, const double *slope,
                          const SftOptions *o, StepMetrics *out);

#endif
