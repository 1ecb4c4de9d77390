/* bigram.h - the simplest reference policy: P(next | token before), counted on a text.
 *
 * With add-one smoothing P(j | i) = (n_ij + 1) / (n_i + vocabulary).  Its logits are the
 * logarithms of these, a table [vocab, vocab]: the row of the token before takes the place of a
 * model's output. The table grows with the square of the vocabulary, so bigram_new() refuses
 * more than BIGRAM_TOKENS.
 */
#ifndef GRPO_RL_BIGRAM_H
#define GRPO_RL_BIGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kern/real.h"

enum { BIGRAM_TOKENS = 16384 }; /* a table of 1 GiB, beside its counts */

typedef struct Bigram Bigram;

Status bigram_new(Bigram **out, int vocab); /* nothing counted: every token is as likely */
Bigram *bigram_retain(Bigram *b);
void bigram_free(Bigram *b); /* drops one reference; NULL is fine */

/* Counts the n - 1 pairs of n consecutive tokens. */
Status bigram_count(Bigram *b, size_t n, const int32_t *ids);
/* Brings the table of logits up to date with the counts. */
void bigram_update(Bigram *b);

int bigram_vocab(const Bigram *b);
const real *bigram_logits(const Bigram *b); /* [vocab, vocab], as bigram_update() left it */
size_t bigram_bytes(int vocab);             /* what bigram_new takes */

#endif
