/* grammar_nodes.h - a grammar as a network of nodes over bytes, and its limits. */
#ifndef GRPO_TEXT_GRAMMAR_NODES_H
#define GRPO_TEXT_GRAMMAR_NODES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  GRAMMAR_TEXT = 1 << 20,
  GRAMMAR_RULES = 4096,
  GRAMMAR_NODES = 1 << 18,
  GRAMMAR_DEPTH = 200 /* groups within one another */
};

typedef enum GrammarNodeKind {
  NODE_BYTES, /* a byte from low to high, then `next` */
  NODE_SPLIT, /* `next` or `other` */
  NODE_CALL,  /* the rule `other`, then `next` */
  NODE_RETURN /* the end of a rule */
} GrammarNodeKind;

typedef struct GrammarNode {
  uint8_t kind, low, high;
  int32_t next, other;
} GrammarNode;

typedef struct Grammar {
  int references;
  bool regex;
  char *source; /* [source_len] as it was given */
  size_t source_len;
  GrammarNode *node; /* [nnodes] */
  int32_t *start;    /* [nrules] the first node of each rule; rule 0 is the whole text */
  int nnodes, nrules;
} Grammar;

#endif
