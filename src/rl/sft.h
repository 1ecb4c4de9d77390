/* sft.h - supervised fine-tuning: a step of maximum likelihood on demonstrations. */
#ifndef GRPO_RL_SFT_H
#define GRPO_RL_SFT_H

#include "rl/likelihood.h"

/* One optimizer step of maximum likelihood on the targets; the mean is over all target tokens. */
Status engine_sft(Engine *e, int n, const Example *examples, const SftOptions *o, StepMetrics *out);
/* Mean negative log-likelihood of the targets; nothing is changed. */
Status engine_nll(Engine *e, int n, const Example *examples, double *mean, int64_t *tokens);

#endif
