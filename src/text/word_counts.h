/* word_counts.h - counts how often each pre-token occurs in a training text.  Private to
 * src/text. */
#ifndef GRPO_TEXT_WORD_COUNTS_H
#define GRPO_TEXT_WORD_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"

/* Longer pre-tokens are counted in pieces, so that a megabyte without a space does not make every
 * merge walk a megabyte; no token gets longer than this. */
enum { WORD_MAX = 256 };

typedef struct Word {
  size_t at; /* its bytes begin here in WordCounts.bytes */
  uint32_t n;
  int64_t count;
} Word;

typedef struct WordCounts {
  Buf bytes;
  Word *word; /* [n] in order of first appearance */
  size_t n, cap;
  Map index; /* into `word`, by map_hash() of the word's bytes */
} WordCounts;

/* Counts the pre-tokens of a text, which is valid UTF-8. */
Status words_count(WordCounts *w, const char *text, size_t n, bool split_digits);
void words_free(WordCounts *w);

#endif
