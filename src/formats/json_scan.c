#include "formats/json_scan.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

typedef struct Scanner {
  const char *text, *p, *end; /* the next byte; *end is NUL */
  const char *copied;         /* the text before it is in `out` */
  const char *what;
  Buf *out;
  size_t nodes;
  int depth;
  JsonAllowed allowed;
} Scanner;

static Status bad(const Scanner *s, const char *at, const char *problem) {
  size_t line = 1, column = 1;
  for (const char *p = s->text; p < at; p++) {
    if (*p == '\n') {
      line++;
      column = 1;
    } else if ((*p & 0xc0) != 0x80) {
      column++;
    }
  }
  return fail(GRPO_EFORMAT, "%s:%zu:%zu: %s", s->what, line, column, problem);
}

static void skip_space(Scanner *s) {
  while (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t') s->p++;
}

static bool next_is(Scanner *s, char c) {
  if (*s->p != c) return false;
  s->p++;
  return true;
}

/* Puts `with` in the place of the text from `from` to the next byte. */
static void replace(Scanner *s, const char *from, const char *with, size_t n) {
  buf_put(s->out, s->copied, (size_t)(from - s->copied));
  buf_put(s->out, with, n);
  s->copied = s->p;
}

/* ---- strings ----------------------------------------------------------------------- */

/* The four hexadecimal digits at p, or -1.  The text's NUL is not a digit. */
static int hex4(const char *p) {
  int v = 0;
  for (int i = 0; i < 4; i++) {
    const char c = p[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    v = v * 16 + digit;
  }
  return v;
}

/* After \u. */
static Status scan_code_point(Scanner *s) {
  const char *at = s->p - 2;
  const int unit = hex4(s->p);
  if (unit < 0) return bad(s, at, "\\u wants four hexadecimal digits");
  s->p += 4;
  if (unit == 0) {
    if (s->allowed == JSON_STRICT) return bad(s, at, "\\u0000 in a string is not supported");
    replace(s, at, JSON_ZERO, 2);
  }
  if (unit < 0xd800 || unit > 0xdfff) return GRPO_OK;
  const bool pair = unit < 0xdc00 && s->p[0] == '\\' && s->p[1] == 'u';
  const int low = pair ? hex4(s->p + 2) : -1;
  if (low >= 0xdc00 && low <= 0xdfff) {
    s->p += 6;
  } else if (s->allowed != JSON_ROWS) {
    return bad(s, at, "half of a surrogate pair in a string");
  } else {
    replace(s, at, "\xef\xbf\xbd", 3);
  }
  return GRPO_OK;
}

/* After a backslash. */
static Status scan_escape(Scanner *s) {
  const char *at = s->p - 1;
  if (s->p == s->end) return bad(s, at, "the text ends inside a string");
  const char c = *s->p++;
  if (c == 'u') return scan_code_point(s);
  if (!c || !strchr("\"\\/bfnrt", c))
    return bad(s, at, "unknown escape in a string; write \\\\ for a backslash");
  return GRPO_OK;
}

static Status scan_string(Scanner *s) {
  const char *start = s->p++;
  while (s->p < s->end) {
    const unsigned char c = (unsigned char)*s->p;
    if (c < 0x20)
      return bad(s, s->p, "control character in a string; write it as an escape (\\n, \\u001f)");
    if (c >= 0x80) {
      uint32_t cp;
      bool valid;
      const size_t n = utf8_decode(s->p, (size_t)(s->end - s->p), &cp, &valid);
      if (!valid) return bad(s, s->p, "not UTF-8");
      s->p += n;
      continue;
    }
    s->p++;
    if (c == '"') return GRPO_OK;
    if (c == '\\') try(scan_escape(s));
  }
  return bad(s, start, "a string that begins here has no end");
}

/* ---- numbers ------------------------------------------------------------------------- */

static size_t digits(Scanner *s) {
  const char *start = s->p;
  while (*s->p >= '0' && *s->p <= '9') s->p++;
  return (size_t)(s->p - start);
}

/* Makes a string of the number from `start` to the next byte. */
static void keep_number(Scanner *s, const char *start, bool as_number) {
  const char head[] = {'"', JSON_KEPT_NUMBER};
  const size_t n = (size_t)(s->p - start);
  replace(s, start, head, as_number ? 2 : 1);
  buf_put(s->out, start, n);
  buf_putc(s->out, '"');
}

/* An integer beyond 64 bits is a string within a row, and a double elsewhere. */
static Status keep_integer(Scanner *s, const char *start) {
  enum { CERTAIN = 15 }; /* digits that are below 2^53 */
  if (s->p - start <= CERTAIN) return GRPO_OK;
  errno = 0;
  const long long v = strtoll(start, NULL, 10);
  if (errno) {
    const bool digits_count = s->allowed == JSON_ROWS && s->depth > 0;
    if (!digits_count && isinf(strtod(start, NULL)))
      return bad(s, start, "a number that no double can hold");
    keep_number(s, start, !digits_count);
  } else if (v > 1LL << 53 || v < -(1LL << 53)) {
    keep_number(s, start, true);
  }
  return GRPO_OK;
}

static Status keep_real(Scanner *s, const char *start) {
  enum { LONGEST = 60 }; /* cJSON reads 63 bytes of a number */
  const double v = strtod(start, NULL);
  if (isinf(v)) return bad(s, start, "a number that no double can hold");
  if (v == floor(v) || s->p - start > LONGEST) keep_number(s, start, true);
  return GRPO_OK;
}

static Status scan_number(Scanner *s) {
  const char *start = s->p;
  bool whole = true;
  next_is(s, '-');
  const char *first = s->p;
  const size_t n = digits(s);
  if (!n) return bad(s, start, "a number wants a digit after the minus sign");
  if (n > 1 && *first == '0') return bad(s, start, "a number must not begin with 0");
  if (next_is(s, '.')) {
    whole = false;
    if (!digits(s)) return bad(s, start, "a number wants a digit after its point");
  }
  if (next_is(s, 'e') || next_is(s, 'E')) {
    whole = false;
    if (!next_is(s, '+')) next_is(s, '-');
    if (!digits(s)) return bad(s, start, "a number wants a digit in its exponent");
  }
  return whole ? keep_integer(s, start) : keep_real(s, start);
}

/* ---- values ---------------------------------------------------------------------------- */

static Status scan_value(Scanner *s);

static Status scan_array(Scanner *s) {
  const char *start = s->p++;
  skip_space(s);
  if (next_is(s, ']')) return GRPO_OK;
  for (;;) {
    try(scan_value(s));
    skip_space(s);
    if (next_is(s, ']')) return GRPO_OK;
    if (s->p == s->end) return bad(s, start, "an array that begins here has no end");
    if (!next_is(s, ',')) return bad(s, s->p, "expected ',' or ']'");
  }
}

/* At the end of the text it returns early, and scan_object() names the object that has no end. */
static Status scan_member(Scanner *s) {
  skip_space(s);
  if (s->p == s->end) return GRPO_OK;
  if (*s->p != '"') return bad(s, s->p, "expected a member's name in quotes");
  try(scan_string(s));
  skip_space(s);
  if (s->p == s->end) return GRPO_OK;
  if (!next_is(s, ':')) return bad(s, s->p, "expected ':'");
  return s->p < s->end ? scan_value(s) : GRPO_OK;
}

static Status scan_object(Scanner *s) {
  const char *start = s->p++;
  skip_space(s);
  if (next_is(s, '}')) return GRPO_OK;
  for (;;) {
    try(scan_member(s));
    skip_space(s);
    if (next_is(s, '}')) return GRPO_OK;
    if (s->p == s->end) return bad(s, start, "an object that begins here has no end");
    if (!next_is(s, ',')) return bad(s, s->p, "expected ',' or '}'");
  }
}

static bool next_word(Scanner *s, const char *word) {
  const size_t n = strlen(word);
  if (strncmp(s->p, word, n) != 0) return false;
  s->p += n;
  return true;
}

/* NaN and infinities, as Python's json writes them. */
static bool scan_not_finite(Scanner *s) {
  const char *start = s->p;
  if (!next_word(s, "NaN") && !next_word(s, "Infinity") && !next_word(s, "-Infinity")) return false;
  keep_number(s, start, true);
  return true;
}

static Status scan_value(Scanner *s) {
  skip_space(s);
  if (s->p == s->end) return bad(s, s->p, "a value is missing at the end");
  const char c = *s->p;
  s->nodes++;
  if (c == '"') return scan_string(s);
  if (s->allowed == JSON_ROWS && strchr("-IN", c) && scan_not_finite(s)) return GRPO_OK;
  if (c == '-' || (c >= '0' && c <= '9')) return scan_number(s);
  if (c == '[' || c == '{') {
    if (++s->depth > JSON_MAX_DEPTH) return bad(s, s->p, "nested too deeply (limit 200)");
    try(c == '[' ? scan_array(s) : scan_object(s));
    s->depth--;
    return GRPO_OK;
  }
  if (next_word(s, "null") || next_word(s, "true") || next_word(s, "false")) return GRPO_OK;
  return bad(s, s->p, "expected a value (text wants double quotes)");
}

Status json_scan(const char *text, size_t len, const char *what, JsonAllowed allowed, Buf *out,
                 size_t *nodes) {
  Scanner s = {.text = text,
               .p = text,
               .end = text + len,
               .copied = text,
               .what = what,
               .out = out,
               .allowed = allowed};
  try(scan_value(&s));
  skip_space(&s);
  if (s.p < s.end) return bad(&s, s.p, "more text after the end of the value");
  if (s.copied > text) replace(&s, s.p, "", 1);
  *nodes = s.nodes;
  return buf_status(out);
}
