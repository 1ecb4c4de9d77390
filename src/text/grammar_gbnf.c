#include "text/grammar_gbnf.h"

#include <string.h>

static Status either(GrammarReader *r, bool within, int *part);

static bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

/* Skips spaces and comments; lines: also over the ends of lines. */
static void skip(GrammarReader *r, bool lines) {
  for (; r->at < r->n; r->at++) {
    const char c = r->text[r->at];
    if (c == '#')
      while (r->at + 1 < r->n && r->text[r->at + 1] != '\n') r->at++;
    else if (c == '\n' && lines)
      r->line++;
    else if (c != ' ' && c != '\t' && c != '\r')
      return;
  }
}

static size_t name_length(const GrammarReader *r) {
  size_t n = 0;
  while (r->at + n < r->n && is_name(r->text[r->at + n])) n++;
  return n;
}

static Status escape(GrammarReader *r, uint32_t *c) {
  if (r->at == r->n) return reader_fail(r, "a text ends in \\");
  const char kind = r->text[r->at++];
  static const char plain[] = "\\\"[]-^.", letters[] = "nrt", codes[] = "\n\r\t";
  const char *known = strchr(letters, kind);
  *c = (uint32_t)(unsigned char)kind;
  if (kind && known) *c = (uint32_t)codes[known - letters];
  if (kind == 'x') return reader_hex(r, 2, c);
  if (kind == 'u') return reader_hex(r, 4, c);
  if (kind == 'U') return reader_hex(r, 8, c);
  if (!kind || (!known && !strchr(plain, kind)))
    return reader_fail(
        r, "an unknown escape; there are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\. \\xHH "
           "\\uHHHH \\UHHHHHHHH");
  return GRPO_OK;
}

static Status character(GrammarReader *r, uint32_t *c) {
  if (reader_take(r, '\\')) return escape(r, c);
  *c = reader_character(r);
  return GRPO_OK;
}

static Status literal(GrammarReader *r, int *part) {
  *part = grammar_empty(&r->tree);
  while (!reader_take(r, '"')) {
    uint32_t c;
    if (r->at == r->n || r->text[r->at] == '\n')
      return reader_fail(r, "a literal has no closing \"");
    try(character(r, &c));
    *part = grammar_sequence(&r->tree, *part, grammar_character(&r->tree, c));
  }
  return GRPO_OK;
}

static Status class(GrammarReader *r, int *part) {
  const bool negated = reader_take(r, '^');
  bool empty;
  grammar_class_begin(&r->tree);
  while (!reader_take(r, ']')) {
    uint32_t low, high;
    if (r->at == r->n) return reader_fail(r, "a class has no closing ]");
    try(character(r, &low));
    high = low;
    if (r->at + 1 < r->n && r->text[r->at] == '-' && r->text[r->at + 1] != ']') {
      r->at++;
      try(character(r, &high));
    }
    if (high < low) return reader_fail(r, "a range of characters ends below where it begins");
    grammar_class_add(&r->tree, low, high);
  }
  *part = grammar_class_end(&r->tree, negated, &empty);
  return empty ? reader_fail(r, "a class without characters") : GRPO_OK;
}

static Status rule_reference(GrammarReader *r, int *part) {
  const size_t n = name_length(r);
  const int rule = grammar_rule(&r->tree, r->text + r->at, n, r->line);
  if (rule < 0 && grammar_rule_count(&r->tree) == GRAMMAR_RULES)
    return reader_fail(r, "more than 4096 rules");
  *part = grammar_call(&r->tree, rule);
  r->at += n;
  return GRPO_OK;
}

static Status group(GrammarReader *r, int *part) {
  try(reader_enter(r));
  try(either(r, true, part));
  r->depth--;
  return reader_take(r, ')') ? GRPO_OK : reader_fail(r, "a group has no closing )");
}

/* *is: there is another part. */
static Status one(GrammarReader *r, bool *is, int *part) {
  bool empty;
  *is = true;
  if (reader_take(r, '"')) return literal(r, part);
  if (reader_take(r, '[')) return class(r, part);
  if (reader_take(r, '(')) return group(r, part);
  if (reader_take(r, '.')) {
    grammar_class_begin(&r->tree);
    *part = grammar_class_end(&r->tree, true, &empty);
    return GRPO_OK;
  }
  if (name_length(r)) return rule_reference(r, part);
  *is = false;
  return GRPO_OK;
}

static Status sequence(GrammarReader *r, bool within, int *all) {
  *all = grammar_empty(&r->tree);
  for (;;) {
    bool is;
    int part;
    try(one(r, &is, &part));
    if (!is) return GRPO_OK;
    skip(r, within);
    try(reader_repeat(r, &part));
    *all = grammar_sequence(&r->tree, *all, part);
    skip(r, within);
  }
}

static Status either(GrammarReader *r, bool within, int *all) {
  skip(r, true);
  try(sequence(r, within, all));
  while (reader_take(r, '|')) {
    int more;
    skip(r, true);
    try(sequence(r, within, &more));
    *all = grammar_either(&r->tree, *all, more);
  }
  return GRPO_OK;
}

static Status rule(GrammarReader *r) {
  const size_t n = name_length(r);
  const int line = r->line;
  int tree;
  if (!n) return reader_fail(r, "want a rule: NAME ::= ...");
  const int at = grammar_rule(&r->tree, r->text + r->at, n, line);
  r->at += n;
  skip(r, false);
  if (r->n - r->at < 3 || memcmp(r->text + r->at, "::=", 3) != 0)
    return reader_fail(r, "want ::= behind the name of a rule");
  r->at += 3;
  if (at < 0) return reader_fail(r, "more than 4096 rules");
  if (grammar_rule_at(&r->tree, at)->tree >= 0)
    return fail(GRPO_EARG, "line %d: the rule %s is defined twice", line,
                grammar_rule_name(&r->tree, at));
  try(either(r, false, &tree));
  try(grammar_tree_status(&r->tree));
  *grammar_rule_at(&r->tree, at) =
      (GrammarRule){.name = grammar_rule_at(&r->tree, at)->name, .tree = tree, .line = line};
  if (r->at < r->n && r->text[r->at] != '\n')
    return reader_fail(r, "want a literal, a class, the name of a rule, a group or the end of the "
                          "line");
  return GRPO_OK;
}

Status gbnf_read(GrammarReader *r) {
  if (grammar_rule(&r->tree, "root", 4, 0) < 0) return grammar_tree_status(&r->tree);
  for (skip(r, true); r->at < r->n; skip(r, true)) try(rule(r));
  for (int i = 0; i < grammar_rule_count(&r->tree); i++) {
    const GrammarRule *known = grammar_rule_at(&r->tree, i);
    if (known->tree >= 0) continue;
    if (i == 0) return fail(GRPO_EARG, "it has no rule root, which is the whole text");
    return fail(GRPO_EARG, "line %d: there is no rule %s", known->line,
                grammar_rule_name(&r->tree, i));
  }
  return GRPO_OK;
}
