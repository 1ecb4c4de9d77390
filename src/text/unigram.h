/* unigram.h - SentencePiece's Unigram model: every token has a score, and a text is cut into the
 * tokens whose scores have the largest sum (Viterbi).  Private to src/text.
 *
 * A character that is not a token by itself can also be unknown, with the lowest score of all
 * minus 10.  A run of unknown characters becomes its bytes as <0xHH> tokens, if byte fallback is
 * on and all of them exist, or else one unknown token.  Time is O(n) in the text times the longest
 * token.
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
  UniNode *node;    /* [nnode] a tree of the tokens' bytes, the root first */
  double *score;    /* [nscore] by id */
  int32_t nscore;   /* tokens of the model; an id is a position in its list */
  double unk_score; /* of an unknown character */
  int32_t unk;      /* -1: an unknown character is an error */
  bool byte_fallback;
  int32_t byte[256]; /* ids of <0xHH>, or -1 */
} Unigram;

/* The best paths to every position of a text; the memory is reused from call to call. */
typedef struct UniScratch {
  UniCell *cell; /* [cap] */
  size_t cap;
} UniScratch;

/* Reads model.vocab, a list of [token, score], and the options beside it; fills `v`. */
Status unigram_read(Unigram *u, Vocab *v, const Json *model);
/* Appends the ids of one pre-token of valid UTF-8.  *unknown is n, or the position of a character
 * that cannot be encoded; then nothing is appended. */
Status unigram_encode(const Unigram *u, const Vocab *v, UniScratch *w, const char *s, size_t n,
                      IntBuf *out, size_t *unknown);
void unigram_free(Unigram *u);
void uni_scratch_free(UniScratch *w);

#endif
