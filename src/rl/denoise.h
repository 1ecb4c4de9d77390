/* denoise.h - masked training (BERT, 1810.04805): some tokens of a text are hidden, and a model that
 * sees it both ways learns to tell them.
 *
 * Of an example the prompt is never masked, and of the target each token with the row's mask ratio;
 * a row where no token is drawn has the nearest miss masked.  What happens to a token depends on
 * (seed, step, row, position) alone.
 *
 * loss = -sum over masked tokens of log p(token | corrupted text) / their number in the step
 */
#ifndef GRPO_RL_DENOISE_H
#define GRPO_RL_DENOISE_H

#include "rl/corrupt.h"
#include "rl/likelihood.h"

/* One optimizer step on n examples; `train` as of engine_sft. */
Status engine_denoise(Engine *e, int n, const Example *examples, const MaskOptions *mask,
                      const SftOptions *train, StepMetrics *out);

typedef struct MaskedLoss {
  double nll;     /* summed over masked tokens */
  int64_t tokens; /* that were masked */
  int64_t right;  /* of them the model's first choice is the token */
} MaskedLoss;
/* Adds the loss of these examples to *sum; nothing else is changed. */
Status engine_masked_loss(Engine *e, int n, const Example *examples, const MaskOptions *mask,
                          MaskedLoss *sum);

#endif
