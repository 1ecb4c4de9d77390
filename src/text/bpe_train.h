/* bpe_train.h - learns merges from counted pre-tokens.  Private to src/text.
 *
 * The most frequent pair becomes a token, again and again; ties go to the lower left id, then to
 * the lower right id.  Counts are exact and are updated only where a merge changed something, and
 * a heap holds the candidates, so the time is about O(text * depth) and not O(text * merges).
 */
#ifndef GRPO_TEXT_BPE_TRAIN_H
#define GRPO_TEXT_BPE_TRAIN_H

#include <stdint.h>

#include "base/err.h"
#include "base/intbuf.h"
#include "text/vocab.h"
#include "text/word_counts.h"

/* `vocab` holds the 256 raw bytes as tokens and grows by the merged tokens up to `max_size` ids.
 * `merges` receives left, right, left, ... */
Status bpe_train(const WordCounts *words, int max_size, int64_t min_frequency, Vocab *vocab,
                 IntBuf *merges);

#endif
