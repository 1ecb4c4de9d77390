#include "formats/json.h"

#include <cjson/cJSON.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "os/file.h"

/* cJSON is lenient (leading zeros, control characters, text after the value)
 * and says little about what is wrong, so a strict scan comes first.  What
 * passes it can fail in cJSON for one reason only: no memory. */

enum { LONGEST_NUMBER = 63 }; /* cJSON's own buffer; longer ones are rewritten */

typedef struct Scan {
  const char *text, *end, *p; /* p: the next byte */
  const char *what;
  int depth;
  bool long_number; /* some number is longer than LONGEST_NUMBER */
  bool zeros;       /* \u0000 is allowed */
  bool has_zero;    /* and there is one */
} Scan;

/* ---- numbers and the host's locale ------------------------------------------- */

static locale_t c_locale;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init(void) {
  cJSON_Hooks hooks = {mem_alloc, mem_free};
  cJSON_InitHooks(&hooks);
  c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* Decimal points are points until leave_c(): a host's locale may say otherwise. */
static locale_t enter_c(void) {
  pthread_once(&once, init);
  return c_locale ? uselocale(c_locale) : (locale_t)0;
}
static void leave_c(locale_t before) {
  if (before) uselocale(before);
}

static Status number_value(const char *s, size_t n, double *out) {
  char small[64], *copy = n < sizeof small ? small : mem_alloc(n + 1);
  if (!copy) return fail(GRPO_ENOMEM, "JSON: a number of %zu characters", n);
  memcpy(copy, s, n);
  copy[n] = 0;
  const locale_t before = enter_c();
  *out = strtod(copy, NULL);
  leave_c(before);
  if (copy != small) mem_free(copy);
  return GRPO_OK;
}

/* ---- the strict scan ----------------------------------------------------------- */

static Status bad(const Scan *s, const char *at, const char *problem) {
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

static void skip_space(Scan *s) {
  while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t')) s->p++;
}

static bool next_is(Scan *s, char c) {
  if (s->p == s->end || *s->p != c) return false;
  s->p++;
  return true;
}

/* The four digits after \u, or -1. */
static int hex4(const char *p, const char *end) {
  int v = 0;
  if (end - p < 4) return -1;
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

/* What follows a backslash. */
static Status scan_escape(Scan *s) {
  const char *at = s->p - 1;
  if (s->p == s->end) return bad(s, at, "the text ends inside a string");
  const char c = *s->p++;
  if (c && strchr("\"\\/bfnrt", c)) return GRPO_OK;
  if (c != 'u') return bad(s, at, "unknown escape in a string; write \\\\ for a backslash");
  const int unit = hex4(s->p, s->end);
  if (unit < 0) return bad(s, at, "\\u wants four hexadecimal digits");
  s->p += 4;
  if (unit == 0 && !s->zeros) return bad(s, at, "\\u0000 in a string is not supported");
  s->has_zero |= unit == 0;
  if (unit < 0xd800 || unit > 0xdfff) return GRPO_OK;
  const bool pair = unit < 0xdc00 && s->end - s->p >= 6 && s->p[0] == '\\' && s->p[1] == 'u';
  const int low = pair ? hex4(s->p + 2, s->end) : -1;
  if (low < 0xdc00 || low > 0xdfff) return bad(s, at, "half of a surrogate pair in a string");
  s->p += 6;
  return GRPO_OK;
}

static Status scan_string(Scan *s) {
  const char *start = s->p++;
  while (s->p < s->end) {
    const unsigned char c = (unsigned char)*s->p;
    if (c == '"') {
      s->p++;
      return GRPO_OK;
    }
    if (c < 0x20)
      return bad(s, s->p, "control character in a string; write it as an escape (\\n, \\u001f)");
    if (c == '\\') {
      s->p++;
      try(scan_escape(s));
    } else if (c < 0x80) {
      s->p++;
    } else {
      uint32_t cp;
      bool valid;
      const size_t n = utf8_decode(s->p, (size_t)(s->end - s->p), &cp, &valid);
      if (!valid) return bad(s, s->p, "not UTF-8");
      s->p += n;
    }
  }
  return bad(s, start, "a string that begins here has no end");
}

static size_t digits(Scan *s) {
  const char *start = s->p;
  while (s->p < s->end && *s->p >= '0' && *s->p <= '9') s->p++;
  return (size_t)(s->p - start);
}

static Status scan_number(Scan *s) {
  const char *start = s->p;
  next_is(s, '-');
  const char *first = s->p;
  const size_t whole = digits(s);
  if (!whole) return bad(s, start, "a number wants a digit after the minus sign");
  if (whole > 1 && *first == '0') return bad(s, start, "a number must not begin with 0");
  if (next_is(s, '.') && !digits(s)) return bad(s, start, "a number wants a digit after its point");
  bool exponent = false;
  if (next_is(s, 'e') || next_is(s, 'E')) {
    exponent = true;
    if (!next_is(s, '+')) next_is(s, '-');
    if (!digits(s)) return bad(s, start, "a number wants a digit in its exponent");
  }
  const size_t n = (size_t)(s->p - start);
  if (n > LONGEST_NUMBER) s->long_number = true;
  if (!exponent && n <= LONGEST_NUMBER) return GRPO_OK;
  double v;
  try(number_value(start, n, &v));
  return isinf(v) ? bad(s, start, "a number that no double can hold") : GRPO_OK;
}

static Status scan_value(Scan *s);

static Status scan_array(Scan *s) {
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

static Status scan_object(Scan *s) {
  const char *start = s->p++;
  skip_space(s);
  if (next_is(s, '}')) return GRPO_OK;
  for (;;) {
    skip_space(s);
    if (s->p < s->end && *s->p != '"') return bad(s, s->p, "expected a member's name in quotes");
    if (s->p < s->end) try(scan_string(s));
    skip_space(s);
    if (s->p < s->end && !next_is(s, ':')) return bad(s, s->p, "expected ':'");
    if (s->p < s->end) try(scan_value(s));
    skip_space(s);
    if (next_is(s, '}')) return GRPO_OK;
    if (s->p == s->end) return bad(s, start, "an object that begins here has no end");
    if (!next_is(s, ',')) return bad(s, s->p, "expected ',' or '}'");
  }
}

static bool scan_word(Scan *s, const char *word) {
  const size_t n = strlen(word);
  if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0) return false;
  s->p += n;
  return true;
}

static Status scan_value(Scan *s) {
  skip_space(s);
  if (s->p == s->end) return bad(s, s->p, "a value is missing at the end");
  const char c = *s->p;
  if (c == '"') return scan_string(s);
  if (c == '-' || (c >= '0' && c <= '9')) return scan_number(s);
  if (c == '[' || c == '{') {
    if (++s->depth > JSON_MAX_DEPTH) return bad(s, s->p, "nested too deeply (limit 200)");
    try(c == '[' ? scan_array(s) : scan_object(s));
    s->depth--;
    return GRPO_OK;
  }
  if (scan_word(s, "true") || scan_word(s, "false") || scan_word(s, "null")) return GRPO_OK;
  return bad(s, s->p, "expected a value (text wants double quotes)");
}

static Status scan_document(Scan *s) {
  try(scan_value(s));
  skip_space(s);
  return s->p < s->end ? bad(s, s->p, "more text after the end of the value") : GRPO_OK;
}

/* ---- parsing --------------------------------------------------------------------- */

/* Write every over-long number of a scanned text in 17 digits, padded with spaces. */
static Status shorten_numbers(char *text, size_t len) {
  bool quoted = false;
  for (size_t i = 0; i < len; i++) {
    if (quoted && text[i] == '\\') {
      i++;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && (text[i] == '-' || (text[i] >= '0' && text[i] <= '9'))) {
      size_t n = 1;
      while (i + n < len && text[i + n] && strchr("0123456789+-.eE", text[i + n])) n++;
      if (n > LONGEST_NUMBER) {
        double v;
        char number[32];
        try(number_value(text + i, n, &v));
        const locale_t before = enter_c();
        const int k = snprintf(number, sizeof number, "%.17g", v);
        leave_c(before);
        memset(text + i, ' ', n);
        memcpy(text + i, number, (size_t)k);
      }
      i += n - 1;
    }
  }
  return GRPO_OK;
}

static Status build(const char *text, size_t len, const char *what, Json **out) {
  const locale_t before = enter_c();
  cJSON *root = cJSON_ParseWithLengthOpts(text, len, NULL, 0);
  leave_c(before);
  *out = (Json *)root;
  return root ? GRPO_OK : fail(GRPO_ENOMEM, "%s: no memory for the parsed JSON", what);
}

/* Write JSON_ZERO for every \u0000 of a scanned text.  Returns its new length. */
static size_t mark_zeros(char *text, size_t len) {
  size_t n = 0;
  for (size_t i = 0; i < len; i++) {
    if (text[i] == '\\' && strncmp(text + i, "\\u0000", 6) == 0) {
      text[n++] = JSON_ZERO[0], text[n++] = JSON_ZERO[1];
      i += 5;
    } else {
      if (text[i] == '\\') text[n++] = text[i++];
      text[n++] = text[i];
    }
  }
  text[n] = 0;
  return n;
}

static Status parse(const char *text, size_t len, const char *what, bool zeros, Json **out) {
  *out = NULL;
  if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3, len -= 3;
  Scan s = {.text = text, .end = text + len, .p = text, .what = what, .zeros = zeros};
  try(scan_document(&s));
  if (!s.long_number && !s.has_zero) return build(text, len, what, out);
  char *copy = mem_strndup(text, len);
  if (!copy) return fail(GRPO_ENOMEM, "%s: no memory for a copy of the text", what);
  Status st = shorten_numbers(copy, len);
  if (st == GRPO_OK && s.has_zero) len = mark_zeros(copy, len);
  if (st == GRPO_OK) st = build(copy, len, what, out);
  mem_free(copy);
  return st;
}

Status json_parse(const char *text, size_t len, const char *what, Json **out) {
  return parse(text, len, what, false, out);
}

Status json_parse_zeros(const char *text, size_t len, const char *what, Json **out) {
  return parse(text, len, what, true, out);
}

Status json_read_file(const char *path, size_t max_bytes, Json **out) {
  Buf text = {0};
  *out = NULL;
  Status st = file_read(path, max_bytes, &text);
  if (st == GRPO_OK) st = json_parse(text.len ? text.data : "", text.len, path, out);
  buf_free(&text);
  return st;
}

void json_free(Json *root) { cJSON_Delete((cJSON *)root); }

/* ---- reading the tree ------------------------------------------------------------- */

static const cJSON *node(const Json *j) { return (const cJSON *)j; }

JsonType json_type(const Json *j) {
  if (!j) return JSON_NULL; /* what json_get() did not find */
  switch (node(j)->type & 0xff) {
  case cJSON_False:
  case cJSON_True:
    return JSON_BOOL;
  case cJSON_Number:
    return JSON_NUMBER;
  case cJSON_String:
    return JSON_STRING;
  case cJSON_Array:
    return JSON_ARRAY;
  case cJSON_Object:
    return JSON_OBJECT;
  default:
    return JSON_NULL;
  }
}

const Json *json_child(const Json *j) { return j ? (const Json *)node(j)->child : NULL; }
const Json *json_next(const Json *j) { return (const Json *)node(j)->next; }
const char *json_key(const Json *j) { return node(j)->string; }

const Json *json_get(const Json *j, const char *key) {
  if (json_type(j) != JSON_OBJECT) return NULL;
  const Json *member = json_child(j);
  while (member && strcmp(json_key(member), key) != 0) member = json_next(member);
  return member;
}

size_t json_count(const Json *j) {
  size_t n = 0;
  for (const Json *c = json_child(j); c; c = json_next(c)) n++;
  return n;
}

const char *json_string(const Json *j) {
  return json_type(j) == JSON_STRING ? node(j)->valuestring : NULL;
}
double json_number(const Json *j) {
  return json_type(j) == JSON_NUMBER ? node(j)->valuedouble : (double)NAN;
}
bool json_bool(const Json *j) { return j && (node(j)->type & 0xff) == cJSON_True; }

bool json_integer(const Json *j, int64_t *out) {
  const double v = json_number(j);
  if (!(fabs(v) <= 0x1p53) || v != floor(v)) return false;
  *out = (int64_t)v;
  return true;
}

/* ---- writing ---------------------------------------------------------------------- */

static void put_escaped(Buf *b, unsigned char c) {
  static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt";
  for (const char *l = letters; *l; l += 2)
    if ((unsigned char)*l == c) {
      buf_putc(b, '\\');
      buf_putc(b, l[1]);
      return;
    }
  buf_printf(b, "\\u%04x", c);
}

void json_put_string(Buf *b, const char *s, size_t n) {
  buf_putc(b, '"');
  while (n) {
    size_t k = 0; /* a run without anything to escape */
    while (k < n && (unsigned char)s[k] >= 0x20 && s[k] != '"' && s[k] != '\\' && s[k] != 0x7f) k++;
    utf8_put_lossy(b, s, k);
    s += k, n -= k;
    if (!n) break;
    put_escaped(b, (unsigned char)*s);
    s++, n--;
  }
  buf_putc(b, '"');
}

/* "1e+22" and "1e-05" to "1e22" and "1e-5". */
static void trim_exponent(char *text) {
  char *e = strchr(text, 'e');
  if (!e) return;
  char *from = e + 1, *to = e + 1;
  if (*from == '-') to++;
  from++;
  while (*from == '0') from++;
  memmove(to, from, strlen(from) + 1);
}

void json_put_number(Buf *b, double v) {
  char text[40];
  if (!isfinite(v)) {
    buf_puts(b, "null");
    return;
  }
  if (v == floor(v) && fabs(v) <= 0x1p53 && !(v == 0 && signbit(v))) {
    buf_printf(b, "%lld", (long long)v);
    return;
  }
  const locale_t before = enter_c();
  /* 15 digits always survive, except below the normal range */
  for (int precision = fabs(v) < 0x1p-1022 ? 1 : 15; precision <= 17; precision++) {
    snprintf(text, sizeof text, "%.*g", precision, v);
    if (strtod(text, NULL) == v) break;
  }
  leave_c(before);
  trim_exponent(text);
  buf_puts(b, text);
}
