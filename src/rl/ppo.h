/* ppo.h - a step of proximal policy optimization. */
#ifndef GRPO_RL_PPO_H
#define GRPO_RL_PPO_H

#include "rl/engine.h"
#include "rl/metrics.h"
#include "rl/ppo_options.h"

/* advantage [tokens of the batch]: receives the advantages that the policy term had; NULL: not
 * wanted. */
Status engine_ppo(Engine *e, Batch *b, const PpoOptions *o, double *advantage, StepMetrics *out);

#endif
