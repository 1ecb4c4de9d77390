/* grammar_regex.h - the parser of regular expressions that sampling may be bound to: those that
 * describe a regular language, in the notation of PCRE2. */
#ifndef GRPO_TEXT_GRAMMAR_REGEX_H
#define GRPO_TEXT_GRAMMAR_REGEX_H

#include "text/grammar_read.h"

/* Reads the whole expression as rule 0. */
Status regex_read(GrammarReader *r);

#endif
