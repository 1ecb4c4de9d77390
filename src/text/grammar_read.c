#include "text/grammar_read.h"

#include <string.h>

enum { MOST_TIMES = 100000 };

Status reader_fail(const GrammarReader *r, const char *what) {
  if (r->regex) return fail(GRPO_EARG, "at byte %zu: %s", r->at + 1, what);
  return fail(GRPO_EARG, "line %d: %s", r->line, what);
}

Status reader_begin(GrammarReader *r, const char *text, size_t n, bool regex) {
  *r = (GrammarReader){.text = text, .n = n, .line = 1, .regex = regex};
  if (n > GRAMMAR_TEXT)
    return fail(GRPO_EARG, "it has %zu bytes, want at most %d", n, (int)GRAMMAR_TEXT);
  if (!utf8_is_valid(text, n)) return fail(GRPO_EARG, "it is not valid UTF-8");
  return GRPO_OK;
}

uint32_t reader_character(GrammarReader *r) {
  uint32_t c;
  bool valid;
  r->at += utf8_decode(r->text + r->at, r->n - r->at, &c, &valid);
  if (c == '\n') r->line++;
  return c;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

Status reader_hex(GrammarReader *r, int digits, uint32_t *c) {
  int n = 0;
  for (*c = 0; r->at < r->n && (!digits || n < digits) && n <= 8; n++, r->at++) {
    const int d = hex_digit(r->text[r->at]);
    if (d < 0) break;
    *c = *c << 4 | (uint32_t)d;
  }
  if (n == 0 || n < digits || n > 8 || (!digits && !reader_take(r, '}')))
    return reader_fail(r, "an escape with hexadecimal digits is not complete");
  if (*c > 0x10ffff || (*c >= 0xd800 && *c <= 0xdfff))
    return reader_fail(r, "an escape does not name a character");
  return GRPO_OK;
}

/* *x = -1: there is no number. */
static Status number(GrammarReader *r, int *x) {
  *x = -1;
  for (; r->at < r->n && r->text[r->at] >= '0' && r->text[r->at] <= '9'; r->at++) {
    *x = (*x < 0 ? 0 : *x) * 10 + (r->text[r->at] - '0');
    if (*x > MOST_TIMES) return reader_fail(r, "a repetition of more than 100000 times");
  }
  return GRPO_OK;
}

Status reader_bounds(GrammarReader *r, int *least, int *most) {
  try(number(r, least));
  const bool given = *least >= 0;
  *most = *least;
  if (reader_take(r, ',')) {
    try(number(r, most));
    if (*most < 0) *most = GRAMMAR_MANY;
    if (!given) *least = 0;
    if (!given && *most == GRAMMAR_MANY) return reader_fail(r, "{,} has no number");
  }
  if (*least < 0 || !reader_take(r, '}'))
    return reader_fail(r, "a repetition is {m}, {m,} or {m,n}");
  if (*most != GRAMMAR_MANY && *most < *least)
    return reader_fail(r, "a repetition ends below where it begins");
  return GRPO_OK;
}

static Status repetition(GrammarReader *r, bool *is, int *least, int *most) {
  *is = true;
  *least = 0;
  *most = GRAMMAR_MANY;
  if (reader_take(r, '*')) return GRPO_OK;
  if (reader_take(r, '+')) {
    *least = 1;
    return GRPO_OK;
  }
  if (reader_take(r, '?')) {
    *most = 1;
    return GRPO_OK;
  }
  if (reader_take(r, '{')) return reader_bounds(r, least, most);
  *is = false;
  return GRPO_OK;
}

Status reader_repeat(GrammarReader *r, int *part) {
  int least, most;
  bool is;
  try(repetition(r, &is, &least, &most));
  if (!is) return GRPO_OK;
  *part = grammar_repeat(&r->tree, *part, least, most);
  if (r->regex) (void)reader_take(r, '?'); /* lazy: the same texts */
  const char next = r->at < r->n ? r->text[r->at] : '\0';
  if (next && strchr("*+?{", next))
    return reader_fail(r, "two repetitions of one part; put the first one in parentheses");
  return GRPO_OK;
}

Status reader_enter(GrammarReader *r) {
  if (++r->depth > GRAMMAR_DEPTH) return reader_fail(r, "more than 200 groups within one another");
  return GRPO_OK;
}
