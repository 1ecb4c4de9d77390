/* detokenizer.h - makes text of tokens, as the vocabulary spells them.  Private to src/text.
 *
 * tokenizer.json calls it the decoder.  Every step makes a list of strings of a list of strings;
 * the text is the last list joined.  If the only step is ByteLevel, the Tokenizer joins bytes by
 * itself.
 */
#ifndef GRPO_TEXT_DETOKENIZER_H
#define GRPO_TEXT_DETOKENIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "formats/json.h"
#include "text/component.h"

enum { MAX_DECODERS = 16 };

typedef enum DecKind {
  DEC_SPACES, /* without a decoder tokens are joined by spaces */
  DEC_BYTE_LEVEL,
  DEC_REPLACE,
  DEC_BYTE_FALLBACK, /* a run of <0xHH> becomes characters, or one U+FFFD for each byte */
  DEC_FUSE,
  DEC_STRIP,
  DEC_METASPACE,
  DEC_WORDPIECE,
  DEC_SUFFIX, /* BPEDecoder: the end-of-word suffix becomes a space */
  DEC_CTC     /* of equal neighbours one is left; the pad token is removed */
} DecKind;

typedef struct DecStep {
  DecKind kind;
  Pattern pattern;     /* DEC_REPLACE */
  char *text;          /* the content, the text to strip, the prefix, replacement, suffix or pad */
  char *delimiter;     /* DEC_CTC: with `flag`, it becomes a space */
  int32_t start, stop; /* DEC_STRIP: the most characters stripped at either end */
  bool flag;           /* Metaspace: the first token loses its spaces; WordPiece, CTC: cleanup */
} DecStep;

typedef struct Detok {
  DecStep step[MAX_DECODERS];
  int n;
} Detok;

/* A list of strings; its memory is reused from call to call. */
typedef struct TokenList {
  Buf text;
  size_t *end; /* [n] where each string ends in `text` */
  size_t n, cap;
} TokenList;

typedef struct DecScratch {
  TokenList list[2];
} DecScratch;

Status detok_read(Detok *d, const Json *j);  /* j: the component, absent or null */
bool detok_is(const Detok *d, DecKind kind); /* true if this is its only step */

Status token_list_put(TokenList *l, const char *s, size_t n);
/* Appends to `out` the text of the tokens in w->list[0]. */
Status detok_run(const Detok *d, DecScratch *w, Buf *out);
/* Appends the bytes that a token adds to a text when other tokens stand around it; <0xHH> is a raw
 * byte. */
Status detok_piece(const Detok *d, DecScratch *w, const char *token, size_t n, Buf *out);

void detok_free(Detok *d);
void dec_scratch_free(DecScratch *w);

#endif
