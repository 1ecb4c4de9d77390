/* regex.h - regular expressions by PCRE2, with bounded time.
 *
 * Patterns are compiled with UTF, UCP, MATCH_INVALID_UTF and, if available, JIT.  Every match has
 * a match limit (200,000 at each position where it may begin, and a budget for all positions), a
 * depth limit and a heap limit, so a catastrophic pattern ends as GRPO_ELIMIT and never hangs.
 * The match data belongs to the Regex and is reused, so a Regex must not be used by two threads at
 * once.  Offsets are bytes, 0-based.
 */
#ifndef GRPO_BASE_REGEX_H
#define GRPO_BASE_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct Regex Regex;

enum {
  REGEX_ICASE = 1,         /* "i" */
  REGEX_DOTALL = 2,        /* "s" */
  REGEX_MULTI = 4,         /* "m" */
  REGEX_EXTENDED = 8,      /* "x" */
  REGEX_VALID_UTF = 16,    /* the subject is valid UTF-8 and is not checked (tokenizers) */
  REGEX_ANCHORED_FULL = 32 /* must match the whole subject */
};

#define REGEX_UNSET ((size_t)-1)

Status regex_compile(Regex **out, const char *pattern, size_t len, unsigned flags);
void regex_free(Regex *re);
int regex_captures(const Regex *re); /* the number of groups, without the whole match */
const char *regex_name(const Regex *re, int group); /* NULL: unnamed */

/* Searches from `start`.  If *found, (*ovector)[2i] and [2i+1] are the bounds of group i
 * (REGEX_UNSET when the group took no part), valid until the next call. */
Status regex_exec(Regex *re, const char *s, size_t len, size_t start, bool *found,
                  const size_t **ovector);

/* Match steps that the last search spent in vain, because a limit was hit: a catastrophic pattern
 * shows here.  No search spends more than three times its budget. */
uint64_t regex_steps(const Regex *re);

/* PCRE2's version: "10.42 2022-12-11". */
void regex_library(char *text, size_t size);

#endif
