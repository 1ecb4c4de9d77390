/* pretoken.h - cutting text into pre-tokens, which BPE never merges across.
 *
 * The well-known patterns are scanners written by hand: linear, without limits,
 * safe from any thread.  Other patterns run through PCRE2.  Subjects are valid
 * UTF-8; offsets are bytes.
 */
#ifndef GRPO_TEXT_PRETOKEN_H
#define GRPO_TEXT_PRETOKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "text/component.h"

typedef enum PreKind {
  PRE_GPT2,       /* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
  PRE_LLAMA3,     /* GPT-4's and Llama-3's: up to three digits, newlines end a run */
  PRE_QWEN,       /* the same, one digit */
  PRE_DIGITS,     /* every number character alone, the text between them whole */
  PRE_DIGIT_RUNS, /* runs of number characters */
  PRE_CHARS,      /* every code point alone */
  PRE_CUT,        /* below: matches, and what becomes of them */
  PRE_METASPACE,  /* spaces become `mark`, and one may be put first; then as PRE_CUT */
  PRE_SPACE_FIRST /* ByteLevel's add_prefix_space; cuts nothing */
} PreKind;

typedef enum PreMatch {
  MATCH_PATTERN, /* Split, CharDelimiterSplit, Metaspace */
  MATCH_SPACE,   /* one white space character */
  MATCH_PUNCT,   /* one character of ASCII punctuation or \p{P} */
  MATCH_WORD,    /* \w+|[^\w\s]+ */
  MATCH_NEVER
} PreMatch;

typedef enum PreBehavior {
  CUT_REMOVED,
  CUT_ISOLATED,
  CUT_MERGED_WITH_PREVIOUS,
  CUT_MERGED_WITH_NEXT,
  CUT_CONTIGUOUS
} PreBehavior;

typedef enum PrePrepend { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS } PrePrepend;

typedef struct PreStep {
  PreKind kind;
  PreMatch match;       /* this and the rest: not for the scanners */
  Pattern pattern;      /* owned by the tokenizer; Metaspace: its mark */
  PreBehavior behavior; /* of matches, or of what is between them when `invert` */
  bool invert;
  PrePrepend prepend; /* Metaspace: to the piece the whole text begins with, to every piece */
} PreStep;

/* The kind with this regular expression, or PRE_CUT. */
PreKind pre_kind_of(const char *pattern);

/* Length in bytes of the first pre-token of s, n > 0; not for PRE_CUT. */
size_t pre_scan(PreKind kind, const char *s, size_t n);

#endif
