#include "text/grammar_check.h"

#include <string.h>

#include "base/mem.h"

/* Facts of nodes: from here the rule's end can be reached, and without a byte. */
enum { ENDS = 1, EMPTY = 2 };

typedef struct Check {
  const GrammarTree *t;
  const Grammar *g;
  uint8_t *fact;  /* [nnodes] */
  int *stack;     /* [nnodes] */
  int *seen;      /* [nnodes] the rule for which a node was last looked at */
  uint8_t *state; /* [nrules] left recursion: 1: it is being looked at, 2: it has been */
} Check;

static int rule_fact(const Check *c, int rule) { return c->fact[c->g->start[rule]]; }

static int fact_of(const Check *c, const GrammarNode *n) {
  switch ((GrammarNodeKind)n->kind) {
  case NODE_BYTES:
    return c->fact[n->next] & ENDS;
  case NODE_SPLIT:
    return c->fact[n->next] | c->fact[n->other];
  case NODE_CALL:
    return c->fact[n->next] & rule_fact(c, n->other);
  case NODE_RETURN:
    break;
  }
  return ENDS | EMPTY;
}

/* Facts grow until none changes.  A node's successors have smaller numbers but in loops. */
static void find_facts(Check *c) {
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < c->g->nnodes; i++) {
      const int fact = fact_of(c, &c->g->node[i]);
      changed |= fact != c->fact[i];
      c->fact[i] = (uint8_t)fact;
    }
  }
}

static Status complain(const Check *c, int rule, const char *what) {
  if (c->g->regex) return fail(GRPO_EARG, "it %s", what);
  return fail(GRPO_EARG, "the rule %s %s", grammar_rule_name(c->t, rule), what);
}

static Status check_ends(const Check *c) {
  for (int i = 0; i < c->g->nrules; i++)
    if (!(rule_fact(c, i) & ENDS))
      return complain(c, i, "has no end: every text of it needs a longer one");
  return GRPO_OK;
}

static Status check_left(Check *c, int rule);

/* Looks at what may stand first in a rule. */
static Status check_first(Check *c, int rule) {
  int n = 0, *stack = c->stack;
  Buf called = {0};
  for (stack[n++] = c->g->start[rule]; n > 0;) {
    const int at = stack[--n];
    const GrammarNode *node = &c->g->node[at];
    if (c->seen[at] == rule + 1) continue;
    c->seen[at] = rule + 1;
    if (node->kind == NODE_CALL) buf_put(&called, &node->other, sizeof node->other);
    const bool on =
        node->kind == NODE_SPLIT || (node->kind == NODE_CALL && rule_fact(c, node->other) & EMPTY);
    if (on) stack[n++] = node->next;
    if (node->kind == NODE_SPLIT) stack[n++] = node->other;
  }
  Status s = buf_status(&called);
  for (size_t at = 0; at < called.len && s == GRPO_OK; at += sizeof(int32_t))
    s = check_left(c, *(int32_t *)(void *)(called.data + at));
  buf_free(&called);
  return s;
}

static Status check_left(Check *c, int rule) {
  if (c->state[rule] == 2) return GRPO_OK;
  if (c->state[rule] == 1)
    return complain(c, rule,
                    "is left-recursive: it begins with itself before any character; write "
                    "the repetition with * or +");
  c->state[rule] = 1;
  try(check_first(c, rule));
  c->state[rule] = 2;
  return GRPO_OK;
}

static Status check_all(Check *c) {
  find_facts(c);
  try(check_ends(c));
  for (int i = 0; i < c->g->nrules; i++) try(check_left(c, i));
  return GRPO_OK;
}

Status grammar_check(const GrammarTree *t, const Grammar *g) {
  const size_t n = (size_t)g->nnodes;
  Check c = {.t = t, .g = g};
  c.fact = mem_zalloc(n);
  c.stack = mem_alloc(2 * n * sizeof *c.stack + 1);
  c.seen = mem_zalloc(n * sizeof *c.seen);
  c.state = mem_zalloc((size_t)g->nrules);
  const bool ok = c.fact && c.stack && c.seen && c.state;
  const Status s = ok ? check_all(&c) : fail(GRPO_ENOMEM, "no memory for %d nodes", g->nnodes);
  mem_free(c.fact);
  mem_free(c.stack);
  mem_free(c.seen);
  mem_free(c.state);
  return s;
}
