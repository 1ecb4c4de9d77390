/* decode_memory.h - the decoder's caches, the room of sampling masks, and how much memory its
 * forwards take, found by running the largest ones while memory is measured (base/mem.h). */
#ifndef GRPO_MODEL_DECODE_MEMORY_H
#define GRPO_MODEL_DECODE_MEMORY_H

#include "model/decode_struct.h"

Status decoder_caches(Decoder *d);
/* Makes room in a completion for the next token's set. */
Status decoder_reserve_mask(const Decoder *d, Completion *o);
/* The bytes that a forward, which gives at most logit_rows rows of logits, takes in the tape's
 * arena.  The decoder's tables and caches are there, and the caches are empty. */
Status decoder_measure(Decoder *d, int logit_rows, size_t *bytes);

#endif
