#include "text/grammar_regex.h"

#include <string.h>

static Status either(GrammarReader *r, int *part);

/* \d \w \s, in a class that has begun. */
static void add_kind(GrammarTree *t, char kind) {
  if (kind == 's') {
    grammar_class_add(t, '\t', '\r');
    grammar_class_add(t, ' ', ' ');
    return;
  }
  grammar_class_add(t, '0', '9');
  if (kind == 'd') return;
  grammar_class_add(t, 'a', 'z');
  grammar_class_add(t, 'A', 'Z');
  grammar_class_add(t, '_', '_');
}

static void add_complement(GrammarTree *t, char kind) {
  if (kind == 'S') {
    grammar_class_add(t, 0, '\t' - 1);
    grammar_class_add(t, '\r' + 1, ' ' - 1);
    grammar_class_add(t, ' ' + 1, 0x10ffff);
    return;
  }
  grammar_class_add(t, 0, '0' - 1);
  if (kind == 'D') {
    grammar_class_add(t, '9' + 1, 0x10ffff);
    return;
  }
  grammar_class_add(t, '9' + 1, 'A' - 1);
  grammar_class_add(t, 'Z' + 1, '_' - 1);
  grammar_class_add(t, '_' + 1, 'a' - 1);
  grammar_class_add(t, 'z' + 1, 0x10ffff);
}

/* Behind a backslash: a kind of characters, which is added to the class, or one character. */
static Status escape(GrammarReader *r, bool *kind, uint32_t *c) {
  static const char letters[] = "nrtfve", codes[] = "\n\r\t\f\v\x1b";
  if (r->at == r->n) return reader_fail(r, "it ends in \\");
  const char e = r->text[r->at];
  *kind = e && strchr("dwsDWS", e);
  if (*kind) {
    r->at++;
    (e >= 'a' ? add_kind : add_complement)(&r->tree, e);
    return GRPO_OK;
  }
  *c = reader_character(r);
  if (e == 'x' && reader_take(r, '{')) return reader_hex(r, 0, c);
  if (e == 'x') return reader_hex(r, 2, c);
  const char *known = e ? strchr(letters, e) : NULL;
  if (known) *c = (uint32_t)codes[known - letters];
  const bool word = (e >= 'a' && e <= 'z') || (e >= 'A' && e <= 'Z') || (e >= '0' && e <= '9');
  if (word && !known)
    return reader_fail(r, "an escape that is not of a regular language, such as a boundary, a "
                          "property or a reference to a group; use a class");
  return GRPO_OK;
}

static Status class_item(GrammarReader *r) {
  uint32_t low, high;
  bool kind = false;
  const char next = r->n - r->at > 1 ? r->text[r->at + 1] : '\0';
  if (reader_has(r, '[') && next && strchr(":.=", next))
    return reader_fail(r, "a named class such as [:alpha:]; write its characters");
  if (reader_take(r, '\\'))
    try(escape(r, &kind, &low));
  else
    low = reader_character(r);
  if (kind) return GRPO_OK;
  high = low;
  if (r->at + 1 < r->n && r->text[r->at] == '-' && r->text[r->at + 1] != ']') {
    r->at++;
    if (reader_take(r, '\\'))
      try(escape(r, &kind, &high));
    else
      high = reader_character(r);
    if (kind || high < low) return reader_fail(r, "a range of characters has no end");
  }
  grammar_class_add(&r->tree, low, high);
  return GRPO_OK;
}

static Status class(GrammarReader *r, int *part) {
  const bool negated = reader_take(r, '^');
  bool empty, begun = false;
  grammar_class_begin(&r->tree);
  while (!begun || !reader_has(r, ']')) { /* a ] that stands first is a character */
    if (r->at == r->n) return reader_fail(r, "a class has no closing ]");
    try(class_item(r));
    begun = true;
  }
  r->at++;
  *part = grammar_class_end(&r->tree, negated, &empty);
  return empty ? reader_fail(r, "a class without characters") : GRPO_OK;
}

static Status escaped(GrammarReader *r, int *part) {
  bool kind, empty;
  uint32_t c = 0;
  grammar_class_begin(&r->tree);
  try(escape(r, &kind, &c));
  if (!kind) grammar_class_add(&r->tree, c, c);
  *part = grammar_class_end(&r->tree, false, &empty);
  return GRPO_OK;
}

static Status group(GrammarReader *r, int *part) {
  if (reader_take(r, '?') && !reader_take(r, ':'))
    return reader_fail(r, "a group with ?; only (...) and (?:...) are regular");
  try(reader_enter(r));
  try(either(r, part));
  r->depth--;
  return reader_take(r, ')') ? GRPO_OK : reader_fail(r, "a group has no closing )");
}

static Status any(GrammarReader *r, int *part) {
  bool empty;
  grammar_class_begin(&r->tree);
  grammar_class_add(&r->tree, '\n', '\n');
  *part = grammar_class_end(&r->tree, true, &empty);
  return GRPO_OK;
}

static Status one(GrammarReader *r, int *part) {
  if (reader_take(r, '\\')) return escaped(r, part);
  if (reader_take(r, '[')) return class(r, part);
  if (reader_take(r, '(')) return group(r, part);
  if (reader_take(r, '.')) return any(r, part);
  const char c = r->text[r->at];
  if (c == '^' || c == '$')
    return reader_fail(r, "^ may stand at the beginning only, and $ at the end");
  if (c && strchr("*+?{", c)) return reader_fail(r, "a repetition of nothing");
  *part = grammar_character(&r->tree, reader_character(r));
  return GRPO_OK;
}

static Status either(GrammarReader *r, int *all) {
  int sequence = grammar_empty(&r->tree);
  *all = -1;
  for (;;) {
    int part;
    const bool end = r->at == r->n || reader_has(r, ')');
    if (end || reader_take(r, '|')) {
      *all = *all < 0 ? sequence : grammar_either(&r->tree, *all, sequence);
      if (end) return grammar_tree_status(&r->tree);
      sequence = grammar_empty(&r->tree);
      continue;
    }
    try(one(r, &part));
    try(reader_repeat(r, &part));
    sequence = grammar_sequence(&r->tree, sequence, part);
  }
}

/* Is the last character a $ that no backslash escapes? */
static bool ends_in_anchor(const char *s, size_t n) {
  size_t slashes = 0;
  if (!n || s[n - 1] != '$') return false;
  while (slashes + 1 < n && s[n - 2 - slashes] == '\\') slashes++;
  return slashes % 2 == 0;
}

Status regex_read(GrammarReader *r) {
  int tree;
  const int rule = grammar_rule(&r->tree, "root", 4, 1);
  (void)reader_take(r, '^');
  if (r->at < r->n && ends_in_anchor(r->text + r->at, r->n - r->at)) r->n--;
  try(either(r, &tree));
  if (r->at < r->n) return reader_fail(r, "a ) without its (");
  try(grammar_tree_status(&r->tree));
  grammar_rule_at(&r->tree, rule)->tree = tree;
  return GRPO_OK;
}
