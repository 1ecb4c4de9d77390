/* unmask.h - filling in masks over a few forwards (MaskGIT, 2202.04200).
 *
 * Each of `steps` forwards sees a sequence in both directions and samples a token for every mask
 * that is left.  Some of these tokens stay, the others become masks again: after forward s of S at
 * most a part cos(pi/2 s/S) of the masks is left, and at least one fewer than before.  The tokens
 * that stay are
 *   confidence  those whose probability before temperature and filters is highest, by
 *               log p + noise (1 - s/S) g, g from a standard Gumbel distribution
 *   random      any, as in sampling from a masked diffusion (2406.07524)
 *   left        the first ones
 * Results depend only on the sequence, its number, options and weights.
 */
#ifndef GRPO_DENOISE_UNMASK_H
#define GRPO_DENOISE_UNMASK_H

#include "grad/tape.h"
#include "model/model.h"
#include "model/sampler.h"

typedef enum UnmaskOrder { UNMASK_CONFIDENCE, UNMASK_RANDOM, UNMASK_LEFT } UnmaskOrder;

typedef struct UnmaskOptions {
  Sampling sampling; /* temperature, top_p, top_k and min_p are used */
  int steps;         /* at least 1 */
  UnmaskOrder order;
  double noise; /* in the order by confidence */
  int32_t mask_id;
  int vocab; /* tokens that may be filled in are 0 .. vocab - 1 without mask_id; 0: the model's */
  uint64_t seed;
  const volatile int *cancel; /* NULL: none */
} UnmaskOptions;
void unmask_init(UnmaskOptions *o);

/* The masks of n sequences are replaced in place; ids: their tokens, one sequence after another.
 * logp (NULL: not wanted): log-probability of each token filled in, 0 elsewhere.  The tape's arena
 * is reset. */
Status unmask(Model *m, Tape *t, int n, const int *len, int32_t *ids, float *logp,
              const UnmaskOptions *o);

#endif
