/* pretoken_split.h - pre-tokenizers that cut at matches: Split and its relatives.  Private to src/text. */
#ifndef GRPO_TEXT_PRETOKEN_SPLIT_H
#define GRPO_TEXT_PRETOKEN_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "formats/json.h"
#include "text/pretoken.h"

/* The pieces that a PRE_CUT (or Metaspace) makes of a text, one after the other:
 * zero-initialise but for step, s and n, and call until *more is false. */
typedef struct PreCut {
  const PreStep *step;
  const char *s;
  size_t n;
  size_t at;                     /* where the next match is looked for */
  size_t match_start, match_end; /* a match found and not yet reached */
  size_t start, end;             /* a piece that may grow */
  bool looked, have, matched, ended;
} PreCut;

Status pre_cut_next(PreCut *c, bool *more, size_t *start, size_t *end);

/* Appends the steps that a pre-tokenizer component stands for; *byte_level says that ByteLevel
 * was among them.  At most `max` steps in all. */
Status pre_read(PreStep *step, int *nstep, int max, bool *byte_level, const Json *j);

#endif
