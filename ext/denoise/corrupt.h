/* corrupt.h - the corruption of texts for masked training (BERT, 1810.04805).
 *
 * A prompt is never masked.  Each token of a target is masked with the row's mask ratio; in a row
 * where none is, the token that came nearest to it is.  The result depends on (seed, step, row,
 * position) alone.
 */
#ifndef GRPO_DENOISE_CORRUPT_H
#define GRPO_DENOISE_CORRUPT_H

#include "base/arena.h"
#include "model/config.h"
#include "rl/units.h"

typedef struct MaskOptions {
  int32_t mask_id;
  int vocab; /* random tokens are sampled from 0 .. vocab - 1 without mask_id; 0: the model's */
  double low, high;    /* mask ratios of the rows, evenly spread: 0 < low <= high <= 1 */
  double random, keep; /* shares of masked tokens that become a random one, or stay as they are */
  uint64_t seed, step;
  bool held_out; /* use masks that no step of training uses */
  int first;     /* row number of the first example */
} MaskOptions;

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
