/* bpe_train.h - learning merges from counted pre-tokens.
 *
 * The most frequent pair becomes a token, again and again; ties go to the lower
 * left id, then the lower right id.  Counts are kept exact and updated only
 * where a merge changed something, candidates in a heap: about O(text * depth),
 * not O(text * merges).
 */
#ifndef GRPO_TEXT_BPE_TRAIN_H
#define GRPO_TEXT_BPE_TRAIN_H

#include <stdint.h>

#include "base/err.h"
#include "base/intbuf.h"
#include "text/vocab.h"
#include "text/word_counts.h"

/* `vocab` holds the 256 bytes as tokens (raw, not in the alphabet) and grows by
 * the merged ones up to `max_size` ids.  `merges` receives left, right, left, ... */
Status bpe_train(const WordCounts *words, int max_size, int64_t min_frequency, Vocab *vocab,
                 IntBuf *merges);

#endif
