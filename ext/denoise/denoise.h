/* denoise.h - masked training (BERT, 1810.04805): some tokens of a text are hidden, and a model
 * with bidirectional attention learns to predict them. corrupt.h says which tokens.
 *
 * loss = -sum over masked tokens of log p(token | corrupted text) / their number in the step
 */
#ifndef GRPO_DENOISE_DENOISE_H
#define GRPO_DENOISE_DENOISE_H

#include "denoise/corrupt.h"
#include "rl/likelihood.h"

/* One optimizer step on n examples; `train`: as in engine_sft.  mask_ratio: masked tokens of the
 * step by those that may be masked. */
Status engine_denoise(Engine *e, int n, const Example *examples, const MaskOptions *mask,
                      const SftOptions *train, StepMetrics *out, double *mask_ratio);

typedef struct MaskedLoss {
  double nll;     /* summed over masked tokens */
  int64_t tokens; /* that were masked */
  int64_t right;  /* of these, the model's most probable token is the right one */
} MaskedLoss;
/* Adds the loss of these examples to *sum and changes nothing else. */
Status engine_masked_loss(Engine *e, int n, const Example *examples, const MaskOptions *mask,
                          MaskedLoss *sum);

#endif
