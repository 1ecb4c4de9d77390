/* regex.h - PCRE2 behind a small, bounded door.
 *
 * Patterns are compiled with UTF, UCP, MATCH_INVALID_UTF and JIT where there
 * is one; every match has a match limit (200,000 at each place where it may
 * begin, and a budget for all of them), a depth and a heap limit, so a catastrophic pattern ends as
 * GRPO_ELIMIT and never hangs.  A compiled Regex is immutable; match data belongs to the Regex and
 * is reused, so one Regex is for one thread.  Offsets are bytes, 0-based.
 */
#ifndef GRPO_BASE_REGEX_H
#define GRPO_BASE_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

typedef struct Regex Regex;

enum {
  REGEX_ICASE = 1,         /* "i" */
  REGEX_DOTALL = 2,        /* "s" */
  REGEX_MULTI = 4,         /* "m" */
  REGEX_EXTENDED = 8,      /* "x" */
  REGEX_VALID_UTF = 16,    /* subject is known to be valid UTF-8: no checks (tokenizers) */
  REGEX_ANCHORED_FULL = 32 /* must match the whole subject */
};

#define REGEX_UNSET ((size_t)-1)

Status regex_compile(Regex **out, const char *pattern, size_t len, unsigned flags);
void regex_free(Regex *re);
int regex_captures(const Regex *re);                /* groups without the whole match */
const char *regex_name(const Regex *re, int group); /* NULL: unnamed */
int regex_group(const Regex *re, const char *name); /* -1: no such name */

/* Search from `start`.  *found says whether; (*ovector)[2i], [2i+1] are the bounds
 * of group i (REGEX_UNSET when it took no part), valid until the next exec. */
Status regex_exec(Regex *re, const char *s, size_t len, size_t start, bool *found,
                  const size_t **ovector);

/* PCRE2's version: "10.42 2022-12-11". */
void regex_library(char *text, size_t size);

#endif
