/* token_set.h - which tokens of the vocabulary a token was sampled from.
 *
 * A set is a run of words: first the number of its tokens, then their ids in rising order or, where
 * that is shorter, one bit for each token of the vocabulary.  The number 0 stands for all tokens
 * and is followed by nothing.
 *
 * A row of logits is compacted to those of a set's tokens, in rising order of their ids, so that
 * the functions of logits.h compute with the distribution that is renormalised over the set.
 */
#ifndef GRPO_KERN_TOKEN_SET_H
#define GRPO_KERN_TOKEN_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kern/real.h"

/* Words that a set of n tokens takes, and the most that sets of at most n tokens take. */
size_t token_set_words(int vocab, int n);
/* Is what begins there, of at most `words` words, a set?  For sets that are not our own. */
bool token_set_is_valid(const uint32_t *set, size_t words, int vocab);
/* The set that follows in memory. */
const uint32_t *token_set_next(const uint32_t *set, int vocab);

/* Begins a set of n tokens, 1 to vocab; then every token is added: number i of n, ids rising. */
void token_set_begin(uint32_t *set, int vocab, int n);
void token_set_add(uint32_t *set, int vocab, int i, int32_t id);

/* How many tokens of the set have smaller ids; -1: the token is not in it. */
int token_set_place(const uint32_t *set, int vocab, int32_t id);
/* out = the logits of the set's tokens; out may be the row itself.  Returns their number. */
int token_set_compact(const uint32_t *set, int vocab, const real *row, real *out);
/* Undoes a compaction in place: what is not in the set becomes 0. */
void token_set_expand(const uint32_t *set, int vocab, real *row);

#endif
