/* detokenizer.h - from tokens, as the vocabulary spells them, to text.  Private to src/text.
 *
 * Every step turns a list of strings into a list of strings; the text is the last
 * list joined.  A lone ByteLevel never comes here: a Tokenizer joins bytes by itself.
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
  DEC_SPACES, /* no decoder: tokens with a space between them */
  DEC_BYTE_LEVEL,
  DEC_REPLACE,
  DEC_BYTE_FALLBACK, /* runs of <0xHH> to characters, or one U+FFFD for each */
  DEC_FUSE,
  DEC_STRIP,
  DEC_METASPACE,
  DEC_WORDPIECE,
  DEC_SUFFIX /* BPEDecoder: a space for the end-of-word suffix */
} DecKind;

typedef struct DecStep {
  DecKind kind;
  Pattern pattern;     /* DEC_REPLACE */
  char *text;          /* its content; what is stripped, prefix, replacement or suffix */
  int32_t start, stop; /* DEC_STRIP: at most so many at either end */
  bool flag;           /* Metaspace: the first token loses its spaces; WordPiece: cleanup */
} DecStep;

typedef struct Detok {
  DecStep step[MAX_DECODERS];
  int n;
} Detok;

/* A list of strings, and working memory: reused from call to call. */
typedef struct TokenList {
  Buf text;
  size_t *end; /* [n] where each string ends in `text` */
  size_t n, cap;
} TokenList;

typedef struct DecScratch {
  TokenList list[2];
} DecScratch;

Status detok_read(Detok *d, const Json *j);  /* j: the component, absent or null */
bool detok_is(const Detok *d, DecKind kind); /* it is this one step */

Status token_list_put(TokenList *l, const char *s, size_t n);
/* Appends to `out` the text of the tokens in w->list[0]. */
Status detok_run(const Detok *d, DecScratch *w, Buf *out);
/* Appends what the token adds to text in the middle of others; <0xHH> is a raw byte. */
Status detok_piece(const Detok *d, DecScratch *w, const char *token, size_t n, Buf *out);

void detok_free(Detok *d);
void dec_scratch_free(DecScratch *w);

#endif
