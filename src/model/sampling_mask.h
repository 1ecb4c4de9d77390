/* sampling_mask.h - which tokens the filters of sampling left, for each token of a completion. */
#ifndef GRPO_MODEL_SAMPLING_MASK_H
#define GRPO_MODEL_SAMPLING_MASK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* For each token of a completion, in order, the set of tokens from which it was sampled
 * (kern/token_set.h); for an injected token, the whole vocabulary. */
typedef struct SamplingMask {
  uint32_t *words; /* [room] */
  size_t len, room;
} SamplingMask;
Status sampling_mask_reserve(SamplingMask *k, size_t room); /* keeps what is there */
void sampling_mask_free(SamplingMask *k);
/* The most words of the sets of max_new tokens; mask_tokens: sampling_mask_tokens(). */
size_t sampling_mask_words(int vocab, int mask_tokens, int max_new);

#endif
