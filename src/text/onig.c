#include "text/onig.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/regex.h"

enum { LONGEST = 1 << 16, DEEPEST = 16 };

/* The members of classes.  Outside of classes, \w also stands for some numbers. */
#define WORD                                                                                       \
  "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}" \
  "\\x{1F170}-\\x{1F189}"
#define WORD_ALONE WORD "\\xB2\\xB3\\xB9\\xBC-\\xBE"
#define SPACE      "\\p{Z}\\t-\\r\\x85"
#define HEX        "0-9a-fA-F"

/* ---- escapes --------------------------------------------------------------------------- */

/* The set that \w, \s, \h, or one of these in capitals, stands for; NULL: none. */
static const char *set_of(char escape, bool alone) {
  switch (escape | 0x20) {
  case 'w':
    return alone ? WORD_ALONE : WORD;
  case 's':
    return SPACE;
  case 'h':
    return HEX;
  default:
    return NULL;
  }
}

static bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }

/* Since 10.40 PCRE2 takes the name of a script for all characters that are used with it. */
static bool names_need_sc(void) {
  char version[64];
  regex_library(version, sizeof version);
  return strncmp(version, "10.", 3) != 0 || atoi(version + 3) >= 40;
}

/* The length of the name of a script behind \p{, or 0 for another property. */
static size_t script_name(const char *s) {
  static const char *const scripts[] = {
      "Arabic", "Armenian", "Bengali", "Bopomofo", "Cyrillic", "Devanagari", "Georgian",
      "Greek",  "Han",      "Hangul",  "Hebrew",   "Hiragana", "Katakana",   "Khmer",
      "Lao",    "Latin",    "Myanmar", "Tamil",    "Thai",     "Tibetan"};
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
    const size_t n = strlen(scripts[i]);
    if (strncmp(s, scripts[i], n) == 0 && s[n] == '}') return n;
  }
  return 0;
}

/* Copies \p{Script} or \P{Script}, if it is one. */
static bool put_script(const char **p, Buf *out) {
  const char *s = *p;
  if ((s[1] | 0x20) != 'p' || s[2] != '{' || !names_need_sc()) return false;
  const bool negated = s[3] == '^';
  const size_t n = script_name(s + 3 + negated);
  if (!n) return false;
  buf_printf(out, "\\%c{%ssc:%.*s}", s[1], negated ? "^" : "", (int)n, s + 3 + negated);
  *p += 3 + negated + n + 1;
  return true;
}

/* Copies the escape at *p that means the same in both, and moves behind it. */
static void put_escape(const char **p, Buf *out) {
  const char *s = *p;
  if (put_script(p, out)) return;
  if (s[1] == 'u' && strspn(s + 2, "0123456789abcdefABCDEF") >= 4) {
    buf_printf(out, "\\x{%.4s}", s + 2);
    *p += 6;
    return;
  }
  buf_put(out, s, s[1] ? 2 : 1);
  *p += s[1] ? 2 : 1;
}

/* ---- classes --------------------------------------------------------------------------- */

/* One side of && in a class: characters and ranges, and expressions like "|[^a]". */
typedef struct Side {
  Buf items, others;
} Side;

static void side_clear(Side *x) {
  buf_clear(&x->items);
  buf_clear(&x->others);
}

/* An expression that matches one character of the side. */
static void put_side(const Side *x, Buf *out) {
  if (!x->items.len && !x->others.len) {
    buf_puts(out, "(?!)");
  } else if (!x->others.len) {
    buf_printf(out, "[%s]", x->items.data);
  } else if (!x->items.len) {
    buf_printf(out, "(?:%s)", x->others.data + 1);
  } else {
    buf_printf(out, "(?:[%s]%s)", x->items.data, x->others.data);
  }
}

static Status put_class(const char **p, int depth, Buf *out);

/* Reads a POSIX class like [:alpha:]. */
static bool put_posix(const char **p, Side *x) {
  const char *s = *p, *end = s[1] == ':' ? strstr(s + 2, ":]") : NULL;
  const size_t n = end ? (size_t)(end + 2 - s) : 0;
  if (!end || strspn(s + 2, "^abcdefghijklmnopqrstuvwxyz") != n - 4) return false;
  if (strncmp(s, "[:word:]", n) == 0)
    buf_puts(&x->items, WORD);
  else if (strncmp(s, "[:space:]", n) == 0)
    buf_puts(&x->items, SPACE);
  else if (strncmp(s, "[:punct:]", n) == 0)
    buf_puts(&x->items, "\\p{P}\\p{S}");
  else
    buf_put(&x->items, s, n);
  *p += n;
  return true;
}

/* Reads one item of a class: a character, an escape or a class. */
static Status put_item(const char **p, int depth, Side *x) {
  const char *s = *p;
  const char *set = *s == '\\' ? set_of(s[1], false) : NULL;
  if (set && is_capital(s[1]))
    buf_printf(&x->others, "|[^%s]", set);
  else if (set)
    buf_puts(&x->items, set);
  if (set) {
    *p += 2;
  } else if (*s == '\\') {
    put_escape(p, &x->items);
  } else if (*s == '[' && !put_posix(p, x)) {
    buf_putc(&x->others, '|');
    return put_class(p, depth + 1, &x->others);
  } else if (*s != '[') {
    buf_putc(&x->items, *(*p)++);
  }
  return GRPO_OK;
}

/* Reads the sides of && up to the ].  `all` gets one expression, which matches one character. */
static Status read_sides(const char **p, int depth, Side *x, bool *single, Buf *all) {
  *single = true;
  for (bool first = true; **p != ']' || first; first = false) {
    if (!**p) return fail(GRPO_EFORMAT, "regular expression: a [ without ]");
    if ((*p)[0] != '&' || (*p)[1] != '&') {
      try(put_item(p, depth, x));
      continue;
    }
    *p += 2;
    *single = false;
    buf_puts(all, "(?=");
    put_side(x, all);
    buf_puts(all, ")");
    side_clear(x);
    if (**p == ']') break;
  }
  put_side(x, all);
  ++*p;
  return GRPO_OK;
}

/* Reads the class at *p, which is at its [. */
static Status put_class(const char **p, int depth, Buf *out) {
  Side x = {{0}, {0}};
  Buf all = {0};
  bool single;
  if (depth > DEEPEST) return fail(GRPO_ELIMIT, "regular expression: [ ] nested too deeply");
  const bool negated = *++*p == '^';
  *p += negated;
  Status s = read_sides(p, depth, &x, &single, &all);
  if (s == GRPO_OK && single && !x.others.len)
    buf_printf(out, "[%s%s]", negated ? "^" : "", x.items.len ? x.items.data : "");
  else if (s == GRPO_OK)
    buf_printf(out, negated ? "(?:(?!%s)[\\s\\S])" : "(?:%s)", all.data);
  if (s == GRPO_OK) s = buf_status(&all);
  if (s == GRPO_OK) s = buf_status(&x.items);
  if (s == GRPO_OK) s = buf_status(&x.others);
  buf_free(&x.items), buf_free(&x.others), buf_free(&all);
  return s;
}

/* ---- outside of classes ---------------------------------------------------------------- */

/* (?m) is PCRE2's (?s). */
static void put_group(const char **p, Buf *out) {
  const size_t n = (*p)[1] == '?' ? strspn(*p + 2, "imx-") : 0;
  const char end = n ? (*p)[2 + n] : 0;
  if (end != ')' && end != ':') {
    buf_putc(out, *(*p)++);
    return;
  }
  for (size_t i = 0; i < 2 + n; i++, ++*p) buf_putc(out, **p == 'm' ? 's' : **p);
}

static void put_escape_alone(const char **p, Buf *out) {
  const char c = (*p)[1], *set = set_of(c, true);
  if (set)
    buf_printf(out, is_capital(c) ? "[^%s]" : "[%s]", set);
  else if (c == 'b')
    buf_puts(out, "(?:(?<=[" WORD_ALONE "])(?![" WORD_ALONE "])|(?<![" WORD_ALONE
                  "])(?=[" WORD_ALONE "]))");
  else if (c == 'B')
    buf_puts(out, "(?:(?<=[" WORD_ALONE "])(?=[" WORD_ALONE "])|(?<![" WORD_ALONE
                  "])(?![" WORD_ALONE "]))");
  else {
    put_escape(p, out);
    return;
  }
  *p += 2;
}

Status onig_translate(const char *pattern, Buf *out) {
  const size_t n = strlen(pattern);
  if (n > LONGEST) return fail(GRPO_ELIMIT, "regular expression: %zu bytes are too long", n);
  for (const char *p = pattern; *p;) {
    if (*p == '\\')
      put_escape_alone(&p, out);
    else if (*p == '[')
      try(put_class(&p, 0, out));
    else if (*p == '(')
      put_group(&p, out);
    else
      buf_putc(out, *p++);
  }
  return buf_status(out);
}
