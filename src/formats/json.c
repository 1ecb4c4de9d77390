#include "formats/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "os/file.h"
#include "os/locale.h"

struct Json {
  JsonType type;
  bool truth; /* of a JSON_BOOL */
  bool whole; /* of a JSON_NUMBER: it is written as an integer and `integer` holds it */
  int64_t integer;
  union {
    double number;
    const char *string;
    Json *child;
  } as;
  const char *key;
  Json *next;
};

typedef struct NodeBlock {
  struct NodeBlock *next;
  Json node[];
} NodeBlock;

/* A parsed text.  Strings and keys are unescaped where they stand in the copy, because no escape is
 * shorter than the bytes that it means; the closing quote becomes the NUL. */
typedef struct Document {
  Json root; /* first, so that the root's address is the document's */
  NodeBlock *blocks;
  size_t used, room; /* nodes of the first block */
  char text[];
} Document;

/* STRICT: json_parse(); ZEROS: json_parse_zeros(); ROWS: json_parse_rows() */
typedef enum Allowed { STRICT, ZEROS, ROWS } Allowed;

typedef struct Parser {
  Document *doc;
  char *p, *end;      /* the next byte of doc->text, and its NUL */
  const char *source; /* the text as it was given */
  const char *what;
  int depth;
  Allowed allowed;
} Parser;

static Status bad(const Parser *s, const char *at, const char *problem) {
  size_t line = 1, column = 1;
  const char *stop = s->source + (at - s->doc->text);
  for (const char *p = s->source; p < stop; p++) {
    if (*p == '\n') {
      line++;
      column = 1;
    } else if ((*p & 0xc0) != 0x80) {
      column++;
    }
  }
  return fail(GRPO_EFORMAT, "%s:%zu:%zu: %s", s->what, line, column, problem);
}

static void skip_space(Parser *s) {
  while (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t') s->p++;
}

static bool next_is(Parser *s, char c) {
  if (*s->p != c) return false;
  s->p++;
  return true;
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
static Status parse_code_point(Parser *s, char **to) {
  const char *at = s->p - 2;
  int unit = hex4(s->p);
  if (unit < 0) return bad(s, at, "\\u wants four hexadecimal digits");
  s->p += 4;
  if (unit == 0) {
    if (s->allowed == STRICT) return bad(s, at, "\\u0000 in a string is not supported");
    memcpy(*to, JSON_ZERO, 2);
    *to += 2;
    return GRPO_OK;
  }
  if (unit >= 0xd800 && unit <= 0xdfff) {
    const bool pair = unit < 0xdc00 && s->p[0] == '\\' && s->p[1] == 'u';
    const int low = pair ? hex4(s->p + 2) : -1;
    const bool half = low < 0xdc00 || low > 0xdfff;
    if (half && s->allowed != ROWS) return bad(s, at, "half of a surrogate pair in a string");
    unit = half ? 0xfffd : 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    if (!half) s->p += 6;
  }
  *to += utf8_encode((uint32_t)unit, *to);
  return GRPO_OK;
}

/* After a backslash. */
static Status parse_escape(Parser *s, char **to) {
  static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
  const char *at = s->p - 1;
  if (s->p == s->end) return bad(s, at, "the text ends inside a string");
  const char c = *s->p++, *name = c ? strchr(names, c) : NULL;
  if (c == 'u') return parse_code_point(s, to);
  if (!name) return bad(s, at, "unknown escape in a string; write \\\\ for a backslash");
  *(*to)++ = bytes[name - names];
  return GRPO_OK;
}

static Status parse_string(Parser *s, const char **out) {
  const char *start = s->p++;
  char *to = s->p;
  *out = to;
  while (s->p < s->end) {
    const unsigned char c = (unsigned char)*s->p;
    if (c == '"') {
      s->p++;
      *to = 0;
      return GRPO_OK;
    }
    if (c < 0x20)
      return bad(s, s->p, "control character in a string; write it as an escape (\\n, \\u001f)");
    if (c == '\\') {
      s->p++;
      try(parse_escape(s, &to));
    } else if (c < 0x80) {
      *to++ = *s->p++;
    } else {
      uint32_t cp;
      bool valid;
      const size_t n = utf8_decode(s->p, (size_t)(s->end - s->p), &cp, &valid);
      if (!valid) return bad(s, s->p, "not UTF-8");
      memmove(to, s->p, n);
      to += n, s->p += n;
    }
  }
  return bad(s, start, "a string that begins here has no end");
}

/* ---- numbers ------------------------------------------------------------------------- */

static size_t digits(Parser *s) {
  const char *start = s->p;
  while (*s->p >= '0' && *s->p <= '9') s->p++;
  return (size_t)(s->p - start);
}

/* Makes a string of an integer that no 64 bits hold.  The byte before it has been read already, so
 * the digits move there and leave room for the NUL. */
static void keep_digits(Parser *s, char *start, Json *j) {
  const size_t n = (size_t)(s->p - start);
  j->type = JSON_STRING;
  j->as.string = memmove(start - 1, start, n);
  start[n - 1] = 0;
}

static Status parse_number(Parser *s, Json *j) {
  char *start = s->p;
  next_is(s, '-');
  const char *first = s->p;
  const size_t n = digits(s);
  j->type = JSON_NUMBER;
  j->whole = true;
  if (!n) return bad(s, start, "a number wants a digit after the minus sign");
  if (n > 1 && *first == '0') return bad(s, start, "a number must not begin with 0");
  if (next_is(s, '.')) {
    j->whole = false;
    if (!digits(s)) return bad(s, start, "a number wants a digit after its point");
  }
  if (next_is(s, 'e') || next_is(s, 'E')) {
    j->whole = false;
    if (!next_is(s, '+')) next_is(s, '-');
    if (!digits(s)) return bad(s, start, "a number wants a digit in its exponent");
  }
  errno = 0;
  if (j->whole) j->integer = strtoll(start, NULL, 10);
  if (errno && s->allowed == ROWS && start > s->doc->text) {
    keep_digits(s, start, j);
    return GRPO_OK;
  }
  if (errno) j->whole = false;
  j->as.number = strtod(start, NULL);
  return isinf(j->as.number) ? bad(s, start, "a number that no double can hold") : GRPO_OK;
}

/* ---- values ---------------------------------------------------------------------------- */

static Status new_node(Parser *s, Json **out) {
  enum { FIRST = 8, LARGEST = 1 << 14 };
  Document *d = s->doc;
  if (d->used == d->room) {
    const size_t room = !d->room ? FIRST : d->room < LARGEST ? 2 * d->room : LARGEST;
    NodeBlock *b = mem_alloc(sizeof *b + room * sizeof *b->node);
    if (!b) return fail(GRPO_ENOMEM, "%s: no memory for the parsed JSON", s->what);
    b->next = d->blocks;
    d->blocks = b;
    d->room = room;
    d->used = 0;
  }
  *out = &d->blocks->node[d->used++];
  **out = (Json){0};
  return GRPO_OK;
}

static Status parse_value(Parser *s, Json *j);

static Status parse_array(Parser *s, Json *j) {
  const char *start = s->p++;
  j->type = JSON_ARRAY;
  skip_space(s);
  if (next_is(s, ']')) return GRPO_OK;
  for (Json **link = &j->as.child;; link = &(*link)->next) {
    try(new_node(s, link));
    try(parse_value(s, *link));
    skip_space(s);
    if (next_is(s, ']')) return GRPO_OK;
    if (s->p == s->end) return bad(s, start, "an array that begins here has no end");
    if (!next_is(s, ',')) return bad(s, s->p, "expected ',' or ']'");
  }
}

/* At the end of the text it returns early, and parse_object() names the object that has no end. */
static Status parse_member(Parser *s, Json *j) {
  skip_space(s);
  if (s->p == s->end) return GRPO_OK;
  if (*s->p != '"') return bad(s, s->p, "expected a member's name in quotes");
  try(parse_string(s, &j->key));
  skip_space(s);
  if (s->p == s->end) return GRPO_OK;
  if (!next_is(s, ':')) return bad(s, s->p, "expected ':'");
  return s->p < s->end ? parse_value(s, j) : GRPO_OK;
}

static Status parse_object(Parser *s, Json *j) {
  const char *start = s->p++;
  j->type = JSON_OBJECT;
  skip_space(s);
  if (next_is(s, '}')) return GRPO_OK;
  for (Json **link = &j->as.child;; link = &(*link)->next) {
    try(new_node(s, link));
    try(parse_member(s, *link));
    skip_space(s);
    if (next_is(s, '}')) return GRPO_OK;
    if (s->p == s->end) return bad(s, start, "an object that begins here has no end");
    if (!next_is(s, ',')) return bad(s, s->p, "expected ',' or '}'");
  }
}

static bool parse_word(Parser *s, const char *word) {
  const size_t n = strlen(word);
  if (strncmp(s->p, word, n) != 0) return false;
  s->p += n;
  return true;
}

/* NaN and infinities, as Python's json writes them. */
static bool parse_not_finite(Parser *s, Json *j) {
  const bool minus = *s->p == '-';
  j->type = JSON_NUMBER;
  j->as.number = minus ? (double)-INFINITY : (double)INFINITY;
  if (parse_word(s, minus ? "-Infinity" : "Infinity")) return true;
  j->as.number = (double)NAN;
  return parse_word(s, "NaN");
}

static Status parse_value(Parser *s, Json *j) {
  skip_space(s);
  if (s->p == s->end) return bad(s, s->p, "a value is missing at the end");
  const char c = *s->p;
  if (c == '"') {
    j->type = JSON_STRING;
    return parse_string(s, &j->as.string);
  }
  if (s->allowed == ROWS && strchr("-IN", c) && parse_not_finite(s, j)) return GRPO_OK;
  if (c == '-' || (c >= '0' && c <= '9')) return parse_number(s, j);
  if (c == '[' || c == '{') {
    if (++s->depth > JSON_MAX_DEPTH) return bad(s, s->p, "nested too deeply (limit 200)");
    try(c == '[' ? parse_array(s, j) : parse_object(s, j));
    s->depth--;
    return GRPO_OK;
  }
  j->type = JSON_NULL;
  if (parse_word(s, "null")) return GRPO_OK;
  j->type = JSON_BOOL;
  j->truth = c == 't';
  if (parse_word(s, "true") || parse_word(s, "false")) return GRPO_OK;
  return bad(s, s->p, "expected a value (text wants double quotes)");
}

static Status parse_document(Parser *s) {
  try(parse_value(s, &s->doc->root));
  skip_space(s);
  return s->p < s->end ? bad(s, s->p, "more text after the end of the value") : GRPO_OK;
}

static Status parse(const char *text, size_t len, const char *what, Allowed allowed, Json **out) {
  *out = NULL;
  if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3, len -= 3;
  Document *d = mem_alloc(sizeof *d + len + 1);
  if (!d) return fail(GRPO_ENOMEM, "%s: no memory for a copy of the text", what);
  *d = (Document){0};
  memcpy(d->text, text, len);
  d->text[len] = 0;
  Parser s = {.doc = d, .source = text, .what = what, .allowed = allowed};
  s.p = d->text;
  s.end = d->text + len;
  const LocaleMark host = locale_enter(); /* for strtod() */
  const Status st = parse_document(&s);
  locale_switch(host);
  if (st == GRPO_OK)
    *out = &d->root;
  else
    json_free(&d->root);
  return st;
}

Status json_parse(const char *text, size_t len, const char *what, Json **out) {
  return parse(text, len, what, STRICT, out);
}

Status json_parse_zeros(const char *text, size_t len, const char *what, Json **out) {
  return parse(text, len, what, ZEROS, out);
}

Status json_parse_rows(const char *text, size_t len, const char *what, Json **out) {
  return parse(text, len, what, ROWS, out);
}

Status json_read_file(const char *path, size_t max_bytes, Json **out) {
  Buf text = {0};
  *out = NULL;
  Status st = file_read(path, max_bytes, &text);
  if (st == GRPO_OK) st = json_parse(text.len ? text.data : "", text.len, path, out);
  buf_free(&text);
  return st;
}

void json_free(Json *root) {
  Document *d = (Document *)root;
  if (!d) return;
  for (NodeBlock *b = d->blocks, *next; b; b = next) {
    next = b->next;
    mem_free(b);
  }
  mem_free(d);
}

/* ---- reading the tree ------------------------------------------------------------- */

JsonType json_type(const Json *j) { return j ? j->type : JSON_NULL; }

const Json *json_child(const Json *j) {
  return j && (j->type == JSON_ARRAY || j->type == JSON_OBJECT) ? j->as.child : NULL;
}
const Json *json_next(const Json *j) { return j->next; }
const char *json_key(const Json *j) { return j->key; }

const Json *json_get(const Json *j, const char *key) {
  if (json_type(j) != JSON_OBJECT) return NULL;
  const Json *found = NULL;
  for (const Json *member = json_child(j); member; member = json_next(member))
    if (strcmp(json_key(member), key) == 0) found = member;
  return found;
}

size_t json_count(const Json *j) {
  size_t n = 0;
  for (const Json *c = json_child(j); c; c = json_next(c)) n++;
  return n;
}

const char *json_string(const Json *j) { return json_type(j) == JSON_STRING ? j->as.string : NULL; }
double json_number(const Json *j) {
  return json_type(j) == JSON_NUMBER ? j->as.number : (double)NAN;
}
bool json_bool(const Json *j) { return json_type(j) == JSON_BOOL && j->truth; }

bool json_integer(const Json *j, int64_t *out) {
  const double v = json_number(j);
  if (!(fabs(v) <= 0x1p53) || v != floor(v)) return false;
  *out = (int64_t)v;
  return true;
}

bool json_int64(const Json *j, int64_t *out) {
  if (json_type(j) != JSON_NUMBER || !j->whole) return false;
  *out = j->integer;
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
  const LocaleMark host = locale_enter();
  /* 15 digits always survive, except below the normal range */
  for (int precision = fabs(v) < 0x1p-1022 ? 1 : 15; precision <= 17; precision++) {
    snprintf(text, sizeof text, "%.*g", precision, v);
    if (strtod(text, NULL) == v) break;
  }
  locale_switch(host);
  trim_exponent(text);
  buf_puts(b, text);
}
