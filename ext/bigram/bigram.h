/* bigram.h - the simplest reference policy: P(next | token before), counted on a text.
 *
 * With add-one smoothing P(j | i) = (n_ij + 1) / (n_i + vocabulary).  Its logits are the
 * logarithms of these: the row of the token before takes the place of a model's output.  Pairs that
 * were never seen share one value in a row, so only the others are stored, row by row in ascending
 * order, and a row of logits is made when it is asked for.  Memory grows with the pairs that were
 * seen and with the vocabulary, not with its square.
 */
#ifndef GRPO_BIGRAM_BIGRAM_H
#define GRPO_BIGRAM_BIGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kern/real.h"

typedef struct Bigram Bigram;

Status bigram_new(Bigram **out, int vocab); /* nothing counted: every token is as likely */
Bigram *bigram_retain(Bigram *b);
void bigram_free(Bigram *b); /* drops one reference; NULL is fine */

/* Counts the n - 1 pairs of n consecutive tokens.  After an error, ENOMEM apart, nothing of them
 * was counted. */
Status bigram_count(Bigram *b, size_t n, const int32_t *ids);
/* Brings the logits up to date with the counts. */
Status bigram_update(Bigram *b);

int bigram_vocab(const Bigram *b);
size_t bigram_pairs(const Bigram *b); /* different pairs that were seen, as of bigram_update() */
/* out [vocab]: log P(next | prev), as bigram_update() left it.  Any thread may. */
void bigram_row(const Bigram *b, int32_t prev, real *out);
size_t bigram_bytes(const Bigram *b); /* that it holds */

#endif
