/* unigram.h - SentencePiece's Unigram model: every token has a score, and a text is cut into tokens
 * whose scores have the largest sum (Viterbi).  Private to src/text.
 *
 * A character that is no token by itself may also be taken as unknown, at the lowest score of all
 * minus 10.  Unknown neighbours are one: its bytes as <0xHH> tokens with byte fallback when all of
 * them are there, else the unknown token.  Time is O(n) in the text times the longest token.
 */
#ifndef GRPO_TEXT_UNIGRAM_H
#define GRPO_TEXT_UNIGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/intbuf.h"
#include "formats/json.h"
#include "text/vocab.h"

typedef struct UniNode UniNode;
typedef struct UniCell UniCell;

typedef struct Unigram {
  UniNode *node;    /* [nnode] the tokens' bytes as a tree, the root first */
  double *score;    /* [nscore] by id */
  int32_t nscore;   /* tokens of the model: ids are places in its list */
  double unk_score; /* of a character as unknown */
  int32_t unk;      /* -1: none, and an unknown character is an error */
  bool byte_fallback;
  int32_t byte[256]; /* ids of <0xHH>, or -1 */
} Unigram;

/* The best ways to every place of a text, reused from call to call. */
typedef struct UniScratch {
  UniCell *cell; /* [cap] */
  size_t cap;
} UniScratch;

/* From model.vocab, a list of [token, score], and the options beside it; fills `v`. */
Status unigram_read(Unigram *u, Vocab *v, const Json *model);
/* Appends the ids of one pre-token of valid UTF-8.  *unknown: where in it a character is that
 * cannot be encoded, or n; then nothing is appended. */
Status unigram_encode(const Unigram *u, const Vocab *v, UniScratch *w, const char *s, size_t n,
                      IntBuf *out, size_t *unknown);
void unigram_free(Unigram *u);
void uni_scratch_free(UniScratch *w);

#endif
