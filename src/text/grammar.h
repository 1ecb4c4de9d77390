/* grammar.h - a set of texts, given as a grammar or as a regular expression, that sampling may be
 * bound to.
 *
 * GBNF is the notation of llama.cpp: rules NAME ::= ..., of which `root` is the whole text, with
 * "literals", [classes], ., (groups), |, *, +, ?, {m,n} and # comments.  A regular expression has
 * literals, escapes (\d \w \s and their complements are of ASCII), classes, ., groups, |, *, +, ?
 * and {m,n}; it is the whole text, so ^ in front and $ behind change nothing.  Both are over code
 * points.
 *
 * The result is a network of nodes over the bytes of UTF-8 (grammar_match.h walks it).  Refused
 * are: what is not of these forms, left recursion, a rule that no finite text satisfies, more than
 * GRAMMAR_TEXT bytes of text, GRAMMAR_RULES rules or GRAMMAR_NODES nodes.  Errors are EARG and
 * ENOMEM; those of a grammar name its line.
 */
#ifndef GRPO_TEXT_GRAMMAR_H
#define GRPO_TEXT_GRAMMAR_H

#include "base/err.h"
#include "text/grammar_nodes.h"

Status grammar_from_gbnf(Grammar **out, const char *text, size_t n);
Status grammar_from_regex(Grammar **out, const char *pattern, size_t n);
Grammar *grammar_retain(Grammar *g);
void grammar_free(Grammar *g);                          /* drops one reference; NULL is fine */
bool grammar_equal(const Grammar *a, const Grammar *b); /* Were they made of the same text? */

#endif
