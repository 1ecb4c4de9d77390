/* pretoken_split.h - pre-tokenizers that cut at matches: Split and its relatives.  Private to
 * src/text. */
#ifndef GRPO_TEXT_PRETOKEN_SPLIT_H
#define GRPO_TEXT_PRETOKEN_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "formats/json.h"
#include "text/pretoken.h"

/* Gives the pieces of a text one after the other, for a PRE_CUT or Metaspace.  Set step, s and n,
 * leave the rest zero, and call pre_cut_next() until *more is false. */
typedef struct PreCut {
  const PreStep *step;
  const char *s;
  size_t n;
  size_t at;                     /* the next match is searched from here */
  size_t past;                   /* 1 + the end of the match before; 0: none */
  size_t match_start, match_end; /* a match that was found and not yet reached */
  size_t start, end;             /* a piece that may grow */
  bool looked, have, matched, ended;
} PreCut;

Status pre_cut_next(PreCut *c, bool *more, size_t *start, size_t *end);

/* Appends the steps of a pre-tokenizer component, up to `max` steps in all.  *byte_level, false at
 * first: the last one was ByteLevel, whose alphabet the pieces still have to be spelt in. */
Status pre_read(PreStep *step, int *nstep, int max, bool *byte_level, const Json *j);

#endif
