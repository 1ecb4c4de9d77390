/* pretoken.h - cuts text into pre-tokens.  A merge never joins two pre-tokens.  Private to
 * src/text.
 *
 * Scanners written by hand take the place of the well-known patterns: they take linear time
 * without a limit and may be used by any thread.  Other patterns run through PCRE2
 * (pretoken_split.h).  Text is valid UTF-8; offsets are bytes.
 */
#ifndef GRPO_TEXT_PRETOKEN_H
#define GRPO_TEXT_PRETOKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "text/component.h"

typedef enum PreKind {
  PRE_GPT2,        /* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
  PRE_LLAMA3,      /* PATTERN_GPT4 */
  PRE_QWEN,        /* PATTERN_QWEN */
  PRE_DIGITS,      /* each \p{N} alone, and the text between them whole */
  PRE_DIGIT_RUNS,  /* runs of \p{N}, and the text between them whole */
  PRE_CHARS,       /* each code point alone */
  PRE_SCRIPTS,     /* runs of one script, without what stands before the first one */
  PRE_FIXED,       /* every `length` code points */
  PRE_THREES,      /* PATTERN_THREES; these three cut digits in groups of three from their end */
  PRE_THREES_N,    /* PATTERN_THREES_N */
  PRE_BEFORE_3,    /* PATTERN_BEFORE_3 */
  PRE_CUT,         /* cuts at matches, as PreMatch and PreBehavior say */
  PRE_METASPACE,   /* spaces become a mark, one may be prepended; then it cuts like PRE_CUT */
  PRE_SPACE_FIRST, /* ByteLevel's add_prefix_space, which does not cut */
  PRE_BYTES /* spells the text in ByteLevel's alphabet, for the pre-tokenizers after ByteLevel */
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
  PreMatch match;       /* this and the members below are not for scanners */
  Pattern pattern;      /* owned by the tokenizer; for Metaspace it is the mark */
  PreBehavior behavior; /* of the matches, or, if `invert`, of the text between them */
  bool invert;
  int32_t length;     /* PRE_FIXED */
  PrePrepend prepend; /* Metaspace: to the first piece of the text, or to every piece */
} PreStep;

/* The scanner for this regular expression, or PRE_CUT if there is none. */
PreKind pre_kind_of(const char *pattern);

/* The length of what the scanner leaves out where a text begins: n, or where its first pre-token
 * is. */
size_t pre_skip(PreKind kind, const char *s, size_t n);

/* How many digits are at the beginning of s that are cut in groups of three; *len: their bytes.  0:
 * none, and *len bytes stay as they are. */
size_t pre_digits(PreKind kind, const char *s, size_t n, size_t *len);

/* The length in bytes of the first pre-token of s, n > 0; `kind` is a scanner. */
size_t pre_scan(PreKind kind, const char *s, size_t n);

#endif
