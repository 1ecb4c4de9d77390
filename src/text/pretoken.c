#include "text/pretoken.h"

#include <string.h>

#include "base/utf8.h"
#include "text/patterns.h"
#include "text/unicode.h"
#include "text/unicode_break.h"

enum { LETTER = UNI_LETTER, NUMBER = UNI_NUMBER, SPACE = UNI_SPACE, OTHER = 128 };

/* The class of a character, of the four that the patterns tell apart, and its length in bytes. */
static unsigned class_at(const char *s, size_t n, size_t *len) {
  unsigned char c = (unsigned char)*s;
  if (c < 0x80) {
    *len = 1;
    if ((unsigned)(c | 0x20) - 'a' < 26) return LETTER;
    if ((unsigned)c - '0' < 10) return NUMBER;
    return c == ' ' || (c >= 9 && c <= 13) ? SPACE : OTHER;
  }
  uint32_t cp;
  bool valid;
  *len = utf8_decode(s, n, &cp, &valid);
  unsigned class = unicode_class(cp) & (LETTER | NUMBER | SPACE);
  return class ? class : OTHER;
}

/* The end of the run of `class` that begins at i; i itself if there is none. */
static size_t run(unsigned class, const char *s, size_t n, size_t i) {
  for (size_t len; i < n && class_at(s + i, n - i, &len) == class;) i += len;
  return i;
}

static bool is_newline(char c) { return c == '\n' || c == '\r'; }

/* The length of 's 't 're 've 'm 'll 'd at the beginning of s, or 0. */
static size_t contraction(const char *s, size_t n, bool icase) {
  if (n < 2 || s[0] != '\'') return 0;
  if (icase && n >= 3 && memcmp(s + 1, "\xC5\xBF", 2) == 0) return 3; /* the long s folds to s */
  char a = s[1], b = n > 2 ? s[2] : 0;
  if (icase) {
    a |= 0x20;
    b |= 0x20;
  }
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  return 0;
}

/* \s+(?!\S)|\s+ takes a run of white space, but leaves its last character to the text that
 * follows. */
static size_t spaces(const char *s, size_t n) {
  size_t i = 0, last = 0, len;
  while (i < n && class_at(s + i, n - i, &len) == SPACE) {
    last = i;
    i += len;
  }
  return i == n || last == 0 ? i : last;
}

static size_t scan_gpt2(const char *s, size_t n) {
  size_t len = contraction(s, n, false);
  if (len) return len;
  size_t lead = s[0] == ' ' && n > 1;
  unsigned class = class_at(s + lead, n - lead, &len);
  if (class == SPACE) return spaces(s, n);
  return run(class, s, n, lead + len);
}

/* (?i:'s|...)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*
 * |\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t scan_llama3(const char *s, size_t n, int digits) {
  size_t len = contraction(s, n, true), next;
  if (len) return len;
  unsigned class = class_at(s, n, &len);
  if (class == LETTER) return run(LETTER, s, n, len);
  if (class == NUMBER) {
    size_t i = len;
    while (--digits > 0 && i < n && class_at(s + i, n - i, &next) == NUMBER) i += next;
    return i;
  }
  if (!is_newline(s[0]) && len < n && class_at(s + len, n - len, &next) == LETTER)
    return run(LETTER, s, n, len + next);
  size_t lead = s[0] == ' ', i = run(OTHER, s, n, lead);
  if (i > lead) {
    while (i < n && is_newline(s[i])) i++;
    return i;
  }
  for (i = run(SPACE, s, n, 0); i > 0; i--)
    if (is_newline(s[i - 1])) return i;
  return spaces(s, n);
}

static size_t scan_digits(const char *s, size_t n, bool runs) {
  size_t len;
  if (class_at(s, n, &len) == NUMBER) return runs ? run(NUMBER, s, n, len) : len;
  for (size_t i = len; i < n; i += len)
    if (class_at(s + i, n - i, &len) == NUMBER) return i;
  return n;
}

static unsigned script_at(const char *s, size_t n, size_t *len) {
  uint32_t cp;
  bool valid;
  *len = utf8_decode(s, n, &cp, &valid);
  return unicode_script(cp);
}

size_t pre_skip(PreKind kind, const char *s, size_t n) {
  size_t i = 0;
  for (size_t len; kind == PRE_SCRIPTS && i < n && !script_at(s + i, n - i, &len);) i += len;
  return i;
}

static size_t scan_script(const char *s, size_t n) {
  size_t i, len;
  const unsigned first = script_at(s, n, &i);
  for (; i < n; i += len) {
    const unsigned script = script_at(s + i, n - i, &len);
    if (script && script != first) break;
  }
  return i;
}

/* The numbers of \w that are letters (\p{Nl}); the others are decimal digits. */
static bool is_letter_number(uint32_t cp) {
  static const uint32_t runs[][2] = {{0x16EE, 0x16F0},   {0x2160, 0x2182},   {0x2185, 0x2188},
                                     {0x3007, 0x3007},   {0x3021, 0x3029},   {0x3038, 0x303A},
                                     {0xA6E6, 0xA6EF},   {0x10140, 0x10174}, {0x10341, 0x10341},
                                     {0x1034A, 0x1034A}, {0x103D1, 0x103D5}, {0x12400, 0x1246E}};
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
    if (cp >= runs[i][0] && cp <= runs[i][1]) return true;
  return false;
}

static bool is_digit_at(PreKind kind, const char *s, size_t n, unsigned *class, size_t *len) {
  uint32_t cp;
  bool valid;
  *len = utf8_decode(s, n, &cp, &valid);
  *class = unicode_class(cp);
  /* Outside of classes, \w also stands for the numbers of Latin-1. */
  if (cp >= 0xB2 && cp <= 0xBE && *class & UNI_NUMBER) *class |= UNI_WORD;
  if (kind == PRE_THREES_N || !(*class & UNI_NUMBER)) return *class & UNI_NUMBER;
  return cp <= '9' || (cp > 0xBE && *class & UNI_WORD && !is_letter_number(cp));
}

size_t pre_digits(PreKind kind, const char *s, size_t n, size_t *len) {
  size_t count = 0, i = 0, k = 0;
  unsigned class = 0;
  for (; i < n && is_digit_at(kind, s + i, n - i, &class, &k); i += k) count++;
  *len = count ? i : k;
  /* \b wants something else than a letter behind the digits. */
  return kind == PRE_THREES && i < n && class & UNI_WORD ? 0 : count;
}

size_t pre_scan(PreKind kind, const char *s, size_t n) {
  size_t len = n;
  switch (kind) {
  case PRE_GPT2:
    return scan_gpt2(s, n);
  case PRE_LLAMA3:
    return scan_llama3(s, n, 3);
  case PRE_QWEN:
    return scan_llama3(s, n, 1);
  case PRE_DIGITS:
    return scan_digits(s, n, false);
  case PRE_DIGIT_RUNS:
    return scan_digits(s, n, true);
  case PRE_CHARS:
    class_at(s, n, &len);
    break;
  case PRE_SCRIPTS:
    return scan_script(s, n);
  case PRE_FIXED:
  case PRE_THREES:
  case PRE_THREES_N:
  case PRE_BEFORE_3:
  case PRE_CUT:
  case PRE_METASPACE:
  case PRE_SPACE_FIRST:
  case PRE_BYTES:
    break;
  }
  return len;
}

PreKind pre_kind_of(const char *pattern) {
  static const struct {
    const char *pattern;
    PreKind kind;
  } known[] = {
      {PATTERN_GPT2, PRE_GPT2},         {PATTERN_GPT4, PRE_LLAMA3},
      {PATTERN_QWEN, PRE_QWEN},         {"[\\s\\S]", PRE_CHARS},
      {PATTERN_THREES, PRE_THREES},     {PATTERN_THREES_N, PRE_THREES_N},
      {PATTERN_BEFORE_3, PRE_BEFORE_3},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(pattern, known[i].pattern) == 0) return known[i].kind;
  return PRE_CUT;
}
