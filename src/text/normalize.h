/* normalize.h - changes text before it is cut into pre-tokens.  Private to src/text.
 *
 * A step that would not change the text is skipped.
 */
#ifndef GRPO_TEXT_NORMALIZE_H
#define GRPO_TEXT_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/intbuf.h"
#include "formats/json.h"
#include "text/charsmap.h"
#include "text/component.h"

enum { MAX_NORMALIZERS = 16 };

typedef enum NormKind {
  NORM_PREPEND,
  NORM_REPLACE,
  NORM_STRIP,
  NORM_LOWER,
  NORM_UNACCENT, /* StripAccents removes marks */
  NORM_FORM,     /* NFC, NFD, NFKC, NFKD */
  NORM_CLEAN,    /* BertNormalizer's clean_text */
  NORM_CHINESE,  /* BertNormalizer's handle_chinese_chars */
  NORM_NMT,      /* removes control characters; white space and the like become a space */
  NORM_BYTES,    /* ByteLevel: GPT-2's alphabet */
  NORM_CHARSMAP  /* Precompiled */
} NormKind;

typedef struct NormStep {
  NormKind kind;
  Pattern pattern;          /* NORM_REPLACE */
  Charsmap map;             /* NORM_CHARSMAP */
  char *content;            /* NORM_REPLACE, NORM_PREPEND */
  bool left, right;         /* NORM_STRIP */
  bool compose, compatible; /* NORM_FORM */
  bool nonspacing;          /* NORM_UNACCENT removes \p{Mn} only */
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
/* Text, and how many of its bytes the first character of the original has become. */
typedef struct NormText {
  const char *s;
  size_t n, origin;
} NormText;

/* Normalizes s, which is valid UTF-8.  out->s is s itself, or text in `w` that lasts until the next
 * call. */
Status normalizer_run(const Normalizer *z, NormScratch *w, const char *s, size_t n, NormText *out);
void normalizer_free(Normalizer *z);
void norm_scratch_free(NormScratch *w);

#endif
