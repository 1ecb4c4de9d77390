#include "text/grammar.h"

#include <string.h>

#include "base/mem.h"
#include "text/grammar_check.h"
#include "text/grammar_gbnf.h"
#include "text/grammar_regex.h"

static Status fill(GrammarTree *t, const char *source, size_t n, Grammar *g) {
  g->source = mem_alloc(n + 1);
  if (!g->source) return fail(GRPO_ENOMEM, "no memory for %zu bytes of text", n);
  memcpy(g->source, source, n);
  g->source_len = n;
  try(grammar_tree_nodes(t, g));
  return grammar_check(t, g);
}

static Status make(GrammarReader *r, const char *source, size_t n, Grammar **out) {
  Grammar *g = mem_zalloc(sizeof *g);
  if (!g) return fail(GRPO_ENOMEM, "no memory for a grammar");
  g->references = 1;
  g->regex = r->regex;
  const Status s = fill(&r->tree, source, n, g);
  if (s == GRPO_OK)
    *out = g;
  else
    grammar_free(g);
  return s;
}

static Status from(Grammar **out, const char *text, size_t n, bool regex) {
  GrammarReader r;
  Status s = reader_begin(&r, text, n, regex);
  if (s == GRPO_OK) s = (regex ? regex_read : gbnf_read)(&r);
  if (s == GRPO_OK) s = grammar_tree_status(&r.tree);
  if (s == GRPO_OK) s = make(&r, text, n, out);
  grammar_tree_free(&r.tree);
  return s;
}

Status grammar_from_gbnf(Grammar **out, const char *text, size_t n) {
  return from(out, text, n, false);
}

Status grammar_from_regex(Grammar **out, const char *pattern, size_t n) {
  return from(out, pattern, n, true);
}

Grammar *grammar_retain(Grammar *g) {
  g->references++;
  return g;
}

void grammar_free(Grammar *g) {
  if (!g || --g->references > 0) return;
  mem_free(g->source);
  mem_free(g->node);
  mem_free(g->start);
  mem_free(g);
}

bool grammar_equal(const Grammar *a, const Grammar *b) {
  return a->regex == b->regex && a->source_len == b->source_len &&
         memcmp(a->source, b->source, a->source_len) == 0;
}
