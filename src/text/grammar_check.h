/* grammar_check.h - what a grammar must be to be sampled from. */
#ifndef GRPO_TEXT_GRAMMAR_CHECK_H
#define GRPO_TEXT_GRAMMAR_CHECK_H

#include "text/grammar_tree.h"

/* EARG: a rule that no finite text satisfies, or left recursion. */
Status grammar_check(const GrammarTree *t, const Grammar *g);

#endif
