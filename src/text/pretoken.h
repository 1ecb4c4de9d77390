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
#include "base/regex.h"

typedef enum PreKind {
  PRE_GPT2,       /* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
  PRE_LLAMA3,     /* GPT-4's and Llama-3's: up to three digits, newlines end a run */
  PRE_QWEN,       /* the same, one digit */
  PRE_DIGITS,     /* every number character alone, the text between them whole */
  PRE_DIGIT_RUNS, /* runs of number characters */
  PRE_CHARS,      /* every code point alone */
  PRE_REGEX       /* whatever `re` matches, and what lies between */
} PreKind;

typedef struct PreStep {
  PreKind kind;
  bool drop; /* PRE_REGEX: matches are left out ("Removed") */
  Regex *re; /* PRE_REGEX only, owned by the tokenizer */
} PreStep;

/* The kind with this regular expression, or PRE_REGEX. */
PreKind pre_kind_of(const char *pattern);

/* Length in bytes of the first pre-token of s, n > 0; not for PRE_REGEX. */
size_t pre_scan(PreKind kind, const char *s, size_t n);

#endif
