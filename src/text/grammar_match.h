/* grammar_match.h - where a text stands in a grammar, and which tokens may follow it.
 *
 * A state is a set of places in the network, each with the rules that are still to be finished.
 * States are numbers, made as they are reached and kept; so are their transitions, and the tokens
 * that may follow each: one bit for each token of the vocabulary.  State 0 is the beginning.
 *
 * What was kept is forgotten by matcher_trim(), after which every number that was got before means
 * nothing and matcher_generation() has changed.  A Matcher is for one thread.
 */
#ifndef GRPO_TEXT_GRAMMAR_MATCH_H
#define GRPO_TEXT_GRAMMAR_MATCH_H

#include "text/grammar.h"
#include "text/tokenizer.h"

typedef struct Matcher Matcher;

enum { MATCHER_DEAD = -1 };

/* ends [nends]: the tokens that end a text; they may follow where the text is complete.  The
 * matcher keeps the grammar alive, the tokenizer must outlive it. */
Status matcher_new(Matcher **out, Grammar *g, const Tokenizer *tok, int vocab, const int32_t *ends,
                   int nends);
void matcher_free(Matcher *m); /* NULL is fine */
/* Was it made for the same grammar and end tokens?  NULL: no. */
bool matcher_fits(const Matcher *m, const Grammar *g, const int32_t *ends, int nends);
uint64_t matcher_generation(const Matcher *m);
/* Forgets all states where they have taken half of their room. */
Status matcher_trim(Matcher *m);

/* *state becomes the one behind these bytes, or MATCHER_DEAD: no text of the grammar has them
 * there.  ELIMIT: a state is too large, or there are too many. */
Status matcher_bytes(Matcher *m, int32_t *state, const char *bytes, size_t n);
Status matcher_token(Matcher *m, int32_t *state, int32_t id);
bool matcher_complete(const Matcher *m, int32_t state); /* Is the text one of the grammar's? */
/* *allowed: a bit for each token of the vocabulary, until the next matcher_trim().  *n: their
 * number. */
Status matcher_allowed(Matcher *m, int32_t state, const uint32_t **allowed, int *n);

#endif
