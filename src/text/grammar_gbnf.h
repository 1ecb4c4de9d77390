/* grammar_gbnf.h - the parser of GBNF.
 *
 *   grammar  = { NAME "::=" either NEWLINE }
 *   either   = sequence { "|" sequence }
 *   sequence = { part [ repetition ] }
 *   part     = LITERAL | CLASS | "." | NAME | "(" either ")"
 *
 * A rule may continue in the next line within parentheses and behind ::= and |. */
#ifndef GRPO_TEXT_GRAMMAR_GBNF_H
#define GRPO_TEXT_GRAMMAR_GBNF_H

#include "text/grammar_read.h"

/* Reads all rules; rule 0 is root. */
Status gbnf_read(GrammarReader *r);

#endif
