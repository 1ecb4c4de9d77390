/* onig.h - patterns of tokenizer.json, which are written for Oniguruma, in PCRE2's words.  Private
 * to src/text.
 *
 * The two differ in \w, \b, \s, \h, \u and (?m), and within classes in [ ] and &&.  ^ and $ match
 * at the ends of lines: the result is for REGEX_MULTI.
 */
#ifndef GRPO_TEXT_ONIG_H
#define GRPO_TEXT_ONIG_H

#include "base/buf.h"
#include "base/err.h"

/* Appends the pattern.  ELIMIT: it is too long, or classes are nested too deeply; EFORMAT: a class
 * has no end. */
Status onig_translate(const char *pattern, Buf *out);

#endif
