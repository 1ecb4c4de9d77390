/* grammar_tree.h - what the two parsers of grammars build: rules as trees, made into nodes at the
 * end.
 *
 * A place in the tree is a number; every function that makes one returns it, or -1 once memory or a
 * limit is exceeded, and takes -1.  Parsers look at grammar_tree_status() at the end.
 */
#ifndef GRPO_TEXT_GRAMMAR_TREE_H
#define GRPO_TEXT_GRAMMAR_TREE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/map.h"
#include "text/grammar_nodes.h"

enum { GRAMMAR_MANY = -1 }; /* the upper bound of a repetition without one */

typedef struct GrammarTree {
  Buf items, ranges;
  Buf names;      /* of the rules, each with a NUL */
  Buf rules;      /* GrammarRule */
  Map by_name;    /* map_hash() of a name -> rule */
  int class_from; /* the first range of the class that is being read */
} GrammarTree;

typedef struct GrammarRule {
  int name; /* its place in `names` */
  int tree; /* -1: not defined yet */
  int line; /* where it was defined, or first used */
} GrammarRule;

int grammar_empty(GrammarTree *t); /* the empty text */
int grammar_sequence(GrammarTree *t, int a, int b);
int grammar_either(GrammarTree *t, int a, int b);
int grammar_repeat(GrammarTree *t, int a, int least, int most);
int grammar_call(GrammarTree *t, int rule);
/* One character of a class: begin, add ranges, end. */
void grammar_class_begin(GrammarTree *t);
void grammar_class_add(GrammarTree *t, uint32_t low, uint32_t high);
/* -1 with *empty: no character is in it. */
int grammar_class_end(GrammarTree *t, bool negated, bool *empty);
int grammar_character(GrammarTree *t, uint32_t c);

/* The number of the rule with this name, which is made if there is none; -1: too many rules. */
int grammar_rule(GrammarTree *t, const char *name, size_t n, int line);
GrammarRule *grammar_rule_at(GrammarTree *t, int rule);
int grammar_rule_count(const GrammarTree *t);
const char *grammar_rule_name(const GrammarTree *t, int rule);

Status grammar_tree_status(const GrammarTree *t);
/* Fills in the nodes of the rules, which are all defined.  EARG: there are too many. */
Status grammar_tree_nodes(GrammarTree *t, Grammar *g);
void grammar_tree_free(GrammarTree *t);

#endif
