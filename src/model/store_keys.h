/* store_keys.h - decoding: new keys and values go into the cache. */
#ifndef GRPO_MODEL_STORE_KEYS_H
#define GRPO_MODEL_STORE_KEYS_H

#include "base/pool.h"
#include "grad/tensor.h"
#include "kern/kv.h"

/* Stores those of the spans' rows, before the queries look at the cache.  qkv: queries, keys and
 * values, or one tensor with all three (then qkv[1] is NULL). */
void store_keys(Pool *pool, int nspans, const AttnSpan *spans, const AttnShape *shape,
                Tensor *const qkv[3]);

#endif
