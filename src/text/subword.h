/* subword.h - models over characters: BPE as SentencePiece's files have it, and WordPiece.
 * Private to src/text.
 *
 * Both work on one pre-token of valid UTF-8 and find only tokens of the model's own vocabulary.
 */
#ifndef GRPO_TEXT_SUBWORD_H
#define GRPO_TEXT_SUBWORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/intbuf.h"
#include "text/bpe.h"
#include "text/vocab.h"

enum { SMALL_CHARS = 0x2600 /* code points with an entry in Subword.small */ };

typedef struct Subword {
  char *prefix, *suffix; /* of a token inside a word, at its end; NULL: none.  Owned */
  int32_t unk;           /* -1: what is unknown is dropped (BPE) */
  bool fuse_unk;         /* unknown neighbours are one token */
  bool byte_fallback;    /* an unknown character is its bytes, when all <0xHH> are there */
  int32_t byte[256];     /* ids of <0xHH>, or -1 */
  int32_t *small;        /* [SMALL_CHARS] id of the character, or -1.  Owned */
  bool cut;              /* no merge joins a word and a following U+2581: cut there */
  int32_t max_chars;     /* WordPiece: longer words are unknown */
} Subword;

/* Fill byte, small and cut from the vocabulary (and, for BPE, its merges). */
Status subword_prepare(Subword *m, const Vocab *v, const Bpe *merges);
int32_t subword_find(const Vocab *v, const char *s, size_t n); /* -1: no token of the model */

Status subword_bpe(const Subword *m, const Vocab *v, const Bpe *b, BpeScratch *w, Buf *text,
                   const char *s, size_t n, IntBuf *out);
/* Longest token first; the whole word is unknown when some part is. */
Status subword_wordpiece(const Subword *m, const Vocab *v, Buf *text, const char *s, size_t n,
                         IntBuf *out);
void subword_free(Subword *m);

#endif
