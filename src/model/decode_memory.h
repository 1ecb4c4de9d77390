/* decode_memory.h - how much memory the decoder's forwards take, found by running the largest ones
 * while memory is measured (base/mem.h). */
#ifndef GRPO_MODEL_DECODE_MEMORY_H
#define GRPO_MODEL_DECODE_MEMORY_H

#include "model/decode_struct.h"

/* The bytes that a forward, which gives at most logit_rows rows of logits, takes in the tape's
 * arena.  The decoder's tables and caches are there, and the caches are empty. */
Status decoder_measure(Decoder *d, int logit_rows, size_t *bytes);

#endif
