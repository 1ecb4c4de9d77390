/* subword.h - the models over characters: SentencePiece's BPE, and WordPiece.  Private to src/text.
 *
 * Both encode one pre-token of valid UTF-8 and use only tokens of the model's own vocabulary.
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
  char *prefix, *suffix; /* owned, or NULL: marks tokens inside a word; marks its last token */
  int32_t unk;           /* -1: unknown characters are dropped (BPE) */
  bool fuse_unk;         /* neighbouring unknown characters become one token */
  bool byte_fallback;    /* an unknown character becomes its <0xHH>, if all of them exist */
  int32_t byte[256];     /* ids of <0xHH>, or -1 */
  int32_t *small;        /* [SMALL_CHARS] id of the character, or -1.  Owned */
  bool cut; /* text may be cut before a U+2581, because no merge joins it to the word before */
  int32_t max_chars; /* WordPiece: a longer word is unknown */
} Subword;

/* Fills byte, small and cut from the vocabulary and, for BPE, its merges. */
Status subword_prepare(Subword *m, const Vocab *v, const Bpe *merges);
int32_t subword_find(const Vocab *v, const char *s,
                     size_t n); /* -1: it is not a token of the model */

Status subword_bpe(const Subword *m, const Vocab *v, const Bpe *b, BpeScratch *w, Buf *text,
                   const char *s, size_t n, IntBuf *out);
/* Takes the longest token again and again; if a part is unknown, so is the whole word. */
Status subword_wordpiece(const Subword *m, const Vocab *v, Buf *text, const char *s, size_t n,
                         IntBuf *out);
void subword_free(Subword *m);

#endif
