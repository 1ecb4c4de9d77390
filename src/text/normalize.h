/* normalize.h - changing text before it is cut into pre-tokens.  Private to src/text.
 *
 * ASCII text and text that is in the wanted form already need no library; other
 * text needs libutf8proc for the Unicode forms, for lower case and for
 * BertNormalizer.  A build without it refuses such text and names the library.
 */
#ifndef GRPO_TEXT_NORMALIZE_H
#define GRPO_TEXT_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/intbuf.h"
#include "formats/json.h"
#include "text/component.h"

enum { MAX_NORMALIZERS = 16 };

typedef enum NormKind {
  NORM_PREPEND,
  NORM_REPLACE,
  NORM_STRIP,
  NORM_LOWER,
  NORM_UNACCENT, /* StripAccents: marks are removed */
  NORM_FORM,     /* NFC, NFD, NFKC, NFKD */
  NORM_CLEAN,    /* BertNormalizer clean_text: no control characters, white space is a space */
  NORM_CHINESE,  /* BertNormalizer: spaces around CJK ideographs */
  NORM_BYTES     /* ByteLevel: GPT-2's alphabet */
} NormKind;

typedef struct NormStep {
  NormKind kind;
  Pattern pattern;          /* NORM_REPLACE */
  char *content;            /* what is put there, or before */
  bool left, right;         /* NORM_STRIP */
  bool compose, compatible; /* NORM_FORM */
  bool nonspacing;          /* NORM_UNACCENT: only \p{Mn} */
} NormStep;

typedef struct Normalizer {
  NormStep step[MAX_NORMALIZERS];
  int n;
} Normalizer;

/* Working memory, reused from call to call. */
typedef struct NormScratch {
  Buf text[2];
  IntBuf code_points;
} NormScratch;

Status normalizer_read(Normalizer *z, const Json *j); /* j: the component, absent or null */
/* *out, *nout: s itself, or text in `w` that lasts until the next call.  s is valid UTF-8. */
Status normalizer_run(const Normalizer *z, NormScratch *w, const char *s, size_t n,
                      const char **out, size_t *nout);
void normalizer_free(Normalizer *z);
void norm_scratch_free(NormScratch *w);

#endif
