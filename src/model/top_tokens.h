/* top_tokens.h - the likeliest tokens of a row of logits. */
#ifndef GRPO_MODEL_TOP_TOKENS_H
#define GRPO_MODEL_TOP_TOKENS_H

#include <stdint.h>

#include "kern/kern.h"

/* ids[n] = the n largest of `vocab` logits, n at most vocab; of equal ones the smaller id first. */
void top_tokens(const real *logits, int vocab, int n, int32_t *ids);

#endif
