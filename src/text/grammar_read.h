/* grammar_read.h - what the two parsers of grammars share: a text that is read, with its place. */
#ifndef GRPO_TEXT_GRAMMAR_READ_H
#define GRPO_TEXT_GRAMMAR_READ_H

#include "base/utf8.h"
#include "text/grammar_tree.h"

typedef struct GrammarReader {
  GrammarTree tree;
  const char *text;
  size_t n, at;
  int line, depth;
  bool regex;
} GrammarReader;

static inline bool reader_has(const GrammarReader *r, char c) {
  return r->at < r->n && r->text[r->at] == c;
}
static inline bool reader_take(GrammarReader *r, char c) {
  const bool is = reader_has(r, c);
  r->at += is;
  return is;
}

/* EARG that names the place: a grammar's line, or the byte of an expression, from 1. */
Status reader_fail(const GrammarReader *r, const char *what);
/* Refuses texts that are too long or not UTF-8, and finds the place of the latter. */
Status reader_begin(GrammarReader *r, const char *text, size_t n, bool regex);
/* The next character; there is one. */
uint32_t reader_character(GrammarReader *r);
/* `digits` hexadecimal digits; with 0 at least one, up to a closing brace. */
Status reader_hex(GrammarReader *r, int digits, uint32_t *c);
/* The bounds of a repetition behind its opening brace: {m}, {m,} or {m,n}. */
Status reader_bounds(GrammarReader *r, int *least, int *most);
/* *, +, ? or {m,n} where one stands there; another one behind it is refused. */
Status reader_repeat(GrammarReader *r, int *part);
Status reader_enter(GrammarReader *r); /* a group begins; refuses too many within one another */

#endif
