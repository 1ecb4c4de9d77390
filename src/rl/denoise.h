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

#include "rl/engine.h"

typedef struct MaskOptions {
  int32_t mask_id;
  int vocab; /* random tokens are drawn from 0 .. vocab - 1 without mask_id; 0: the model's */
  double low,
      high; /* mask ratios of the rows, spread evenly over low .. high: 0 < low <= high <= 1 */
  double random,
      keep; /* shares of masked tokens that become a random one, or are left as they are */
  uint64_t seed, step;
  bool held_out; /* other masks than any step of training has */
  int first;     /* row number of the first example */
} MaskOptions;

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

/* Bytes of the step's arena for n examples of that many tokens. */
size_t denoise_bytes(int n, size_t tokens);

/* ---- for tests -------------------------------------------------------------------- */
/* Examples as the model sees them. */
typedef struct Corrupted {
  int n, nout;
  int *at, *out_at;        /* [n + 1] tokens and masked tokens before each example */
  int32_t *ids;            /* [at[n]] */
  int32_t *rows, *targets; /* [nout] which tokens are masked, and what they were */
} Corrupted;
Status corrupt(Arena *a, const Config *c, int n, const Example *examples, const MaskOptions *mask,
               Corrupted *out);

#endif
