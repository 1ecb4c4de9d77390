/* decode_draft.h - guesses at the next tokens, which run beside the newest one.
 *
 * A forward over few rows takes little longer than one over a single row, so rows behind the newest
 * token of a completion are cheap.  They hold guesses: what followed the same tokens in the
 * completion, in others of its group, or in the prompt.  The sampler draws the next token from the
 * newest row, as always; if it draws the guess, the guess's row is that of a sampled token, and the
 * sampler goes on there.
 *
 * A row's bits depend on no other row, and a random number on its address.  So every token,
 * log-probability, entropy and set of tokens is that of decoding without guesses.
 *
 * Keys of guesses that were not met are removed from the cache.  A layer's state has no such
 * parts: the state before the guesses is kept, and unless all of them were met the sequence goes
 * back to it, so that the tokens since then become rows of the next forward again.
 */
#ifndef GRPO_MODEL_DECODE_DRAFT_H
#define GRPO_MODEL_DECODE_DRAFT_H

#include "model/decode_struct.h"

enum { DRAFT_ROWS = 16 /* of a forward at most, guesses among them */ };

/* The rows that forwards are filled up to by themselves: DRAFT_ROWS, or 0 where that has not been
 * measured to gain. */
int draft_rows(const Model *m);
/* Guesses up to `most` tokens behind the newest one and stores them behind s->out's tokens; returns
 * their number.  After many misses in a run there are none. */
int draft_tokens(const Decoder *d, const ActiveSequence *s, int most);
/* The sampler has drawn the next token, which is not stored yet. */
void draft_meet(Decoder *d, ActiveSequence *s, int32_t token);
/* How many of the rows that guesses may take are left to the `before` tokens in front of the newest
 * one, which will be rows again if a guess is not met. */
int draft_again(const Decoder *d, int before);
/* The cache forgets guesses that were not met. */
void draft_forget(Decoder *d, ActiveSequence *s);

#endif
