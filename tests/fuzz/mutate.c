/* mutate.c - mutations that know the formats of the inputs, for libFuzzer and for main.c.
 *
 * An input is one text or file, or several with NUL bytes between them.  What each is, its first
 * bytes tell: JSON, safetensors, GGUF, or else text.  Every second mutation changes one of them
 * so that it stays one: a value of JSON takes another's place, the length of a safetensors header
 * and the places of its tensors fit what it says, a string of GGUF gets its length, and a key that
 * is left out is not counted.  The others change bytes, whatever they mean. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "fuzz.h"

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

enum { MOST_VALUES = 1 << 12, MOST_BYTES = 1 << 16 };

static uint64_t state;
static uint64_t below(uint64_t n) { /* xorshift64*; n >= 1 */
  state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
  return (state * 0x2545f4914f6cdd1du >> 11) % n;
}

/* The input, which has room for `most` bytes. */
typedef struct Input {
  uint8_t *data;
  size_t size, most;
} Input;

/* Puts n bytes in the place of `old` bytes at `at`.  Returns false if there is no room. */
static bool splice(Input *in, size_t at, size_t old, const void *with, size_t n) {
  static uint8_t piece[MOST_BYTES];
  if (n > sizeof piece || in->size - old + n > in->most) return false;
  if (n) memcpy(piece, with, n); /* it may be part of the input */
  memmove(in->data + at + n, in->data + at + old, in->size - at - old);
  if (n) memcpy(in->data + at, piece, n);
  in->size += n - old;
  return true;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

typedef struct Value {
  size_t first, end; /* in the input */
  size_t begin;      /* where its key begins, if it has one */
} Value;

static Value value[MOST_VALUES];
static size_t nvalues;

static size_t skip_string(const uint8_t *s, size_t at, size_t end) {
  for (at++; at < end && s[at] != '"'; at++)
    if (s[at] == '\\') at++;
  return at < end ? at + 1 : end;
}

static size_t skip_spaces(const uint8_t *s, size_t at, size_t end) {
  while (at < end && isspace(s[at])) at++;
  return at;
}

/* The end of the value at `at`, be it JSON or not. */
static size_t skip_value(const uint8_t *s, size_t at, size_t end) {
  size_t depth = 0;
  for (;;) {
    if (at >= end) return end;
    const uint8_t c = s[at];
    if (c == '"') {
      at = skip_string(s, at, end);
    } else if (c == '{' || c == '[') {
      depth++, at++;
    } else if (c == '}' || c == ']') {
      if (depth) depth--, at++;
    } else if (isalnum(c) || c == '-') {
      while (at < end && (isalnum(s[at]) || strchr("+-.", s[at]))) at++;
    } else {
      at++;
    }
    if (!depth) return at;
  }
}

/* Lists the values between two places: whatever begins like one and is not a key. */
static void list_values(const uint8_t *s, size_t at, size_t end) {
  size_t key = end;
  for (nvalues = 0; at < end && nvalues < MOST_VALUES;) {
    const uint8_t c = s[at];
    const size_t behind = c == '"' ? skip_string(s, at, end) : at + 1;
    const size_t next = skip_spaces(s, behind, end);
    if (c == '"' && next < end && s[next] == ':') {
      key = at;
      at = next + 1;
    } else if (c == '"' || c == '{' || c == '[' || isalnum(c) || c == '-') {
      const size_t stop = skip_value(s, at, end);
      value[nvalues++] = (Value){at, stop, key < at ? key : at};
      key = end;
      at = c == '{' || c == '[' ? at + 1 : stop;
    } else {
      at++;
    }
  }
}

static const char *const words[] = {"0",
                                    "1",
                                    "-1",
                                    "2",
                                    "3",
                                    "7",
                                    "0.5",
                                    "-0",
                                    "1e-9",
                                    "1e30",
                                    "1e308",
                                    "1e400",
                                    "64",
                                    "255",
                                    "65536",
                                    "2147483648",
                                    "4294967296",
                                    "null",
                                    "true",
                                    "false",
                                    "\"\"",
                                    "\"a\"",
                                    "[]",
                                    "{}",
                                    "[[]]",
                                    "[0]",
                                    "[1,2,3]",
                                    "{\"a\":0}",
                                    "\"0\"",
                                    "\"\\u0000\"",
                                    "\"\\ud800\"",
                                    "\"\\n\"",
                                    "[null]",
                                    "9007199254740993",
                                    "-2147483649",
                                    "9223372036854775807",
                                    "18446744073709551616"};

/* Removes or copies a member or an element with the comma behind or before it. */
static bool take_out(Input *in, const Value *v, size_t end) {
  const size_t next = skip_spaces(in->data, v->end, end);
  size_t first = v->begin;
  if (next < end && in->data[next] == ',') return splice(in, first, next + 1 - first, "", 0);
  while (first && isspace(in->data[first - 1])) first--;
  if (first && in->data[first - 1] == ',') first--;
  return splice(in, first, v->end - first, "", 0);
}

static bool copy_member(Input *in, const Value *v, const Value *where) {
  const size_t n = v->end - v->begin;
  const size_t at = where->begin;
  return splice(in, at, 0, in->data + v->begin, n) && splice(in, at + n, 0, ",", 1);
}

static bool change_number(Input *in, const Value *v) {
  char text[64];
  const size_t n = v->end - v->first;
  if (n >= 24 || !(isdigit(in->data[v->first]) || in->data[v->first] == '-')) return false;
  memcpy(text, in->data + v->first, n);
  text[n] = 0;
  const double x = strtod(text, NULL);
  const double list[] = {x + 1, x - 1, x * 2, x / 2, -x, x * 1024, x + 0.5};
  const int m = snprintf(text, sizeof text, "%.17g", list[below(sizeof list / sizeof *list)]);
  return splice(in, v->first, n, text, (size_t)m);
}

/* Changes the JSON between two places.  Returns false if that is not possible. */
static bool mutate_json(Input *in, size_t begin, size_t end) {
  list_values(in->data, begin, end);
  if (!nvalues) return false;
  const Value v = value[below(nvalues)], other = value[below(nvalues)];
  const size_t n = v.end - v.first;
  switch (below(8)) {
  case 0:
    return take_out(in, &v, end);
  case 1:
    return copy_member(in, &other, &v);
  case 2:
    return splice(in, v.first, n, in->data + other.first, other.end - other.first);
  case 3: /* its key, when both have one */
    return splice(in, v.begin, v.first - v.begin, in->data + other.begin,
                  other.first - other.begin);
  case 4:
    return splice(in, v.end, 0, "]", 1) && splice(in, v.first, 0, "[", 1);
  case 5:
  case 6:
    if (change_number(in, &v)) return true; /* fall through */
  default: {
    const char *word = words[below(sizeof words / sizeof *words)];
    return splice(in, v.first, n, word, strlen(word));
  }
  }
}

/* ---- safetensors ----------------------------------------------------------------------------*/

static uint64_t get_u64(const uint8_t *p) {
  uint64_t v = 0;
  for (int i = 0; i < 8; i++) v |= (uint64_t)p[i] << 8 * i;
  return v;
}

static void put_u64(uint8_t *p, uint64_t v) {
  for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> 8 * i);
}

static bool is_gguf(const uint8_t *s, size_t n) { return n > 24 && memcmp(s, "GGUF", 4) == 0; }

static bool is_safetensors(const uint8_t *s, size_t n) {
  return n > 10 && s[8] == '{' && get_u64(s) <= n - 8;
}

static const uint8_t *find(const uint8_t *s, const uint8_t *end, const char *what) {
  const size_t n = strlen(what);
  for (; s + n <= end; s++)
    if (memcmp(s, what, n) == 0) return s;
  return NULL;
}

static uint64_t bytes_of_type(const uint8_t *s, const uint8_t *end) {
  static const char *const types[] = {"BOOL", "U8",  "I8",  "F8_E", "U16", "I16", "F16",
                                      "BF16", "U32", "I32", "F32",  "U64", "I64", "F64"};
  static const uint8_t sizes[] = {1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8};
  const uint8_t *p = find(s, end, "\"dtype\":\"");
  for (size_t i = 0; p && i < sizeof sizes; i++)
    if (find(p + 9, p + 9 + strlen(types[i]) < end ? p + 9 + strlen(types[i]) : end, types[i]))
      return sizes[i];
  return 4;
}

static uint64_t count_of_shape(const uint8_t *s, const uint8_t *end) {
  const uint8_t *p = find(s, end, "\"shape\":[");
  uint64_t n = 1;
  if (!p) return 0;
  for (p += 9; p < end && *p != ']'; p++) {
    if (!isdigit(*p)) continue;
    uint64_t dim = 0;
    for (; p < end && isdigit(*p); p++) dim = dim * 10 + (uint64_t)(*p - '0');
    n *= dim;
    p--;
  }
  return n;
}

/* Rewrites data_offsets so that the tensors lie one behind the other with the bytes that dtype and
 * shape ask for, and gives the file that many bytes, as far as there is room. */
static void fit_tensors(Input *in, size_t at) {
  uint64_t place = 0;
  size_t header = (size_t)get_u64(in->data + at);
  const uint8_t *from = in->data + at + 8;
  for (;;) {
    const uint8_t *end = in->data + at + 8 + header;
    const uint8_t *p = find(from, end, "\"data_offsets\":["), *open = p;
    if (!p) break;
    while (open > from && *open != '{') open--;
    const size_t first = (size_t)(p - in->data) + 16;
    const uint8_t *close = memchr(p, '}', (size_t)(end - p));
    if (!close) close = end;
    size_t last = first;
    const size_t stop = at + 8 + header; /* a list that does not end there is left to the reader */
    while (last < stop && in->data[last] != ']' && last - first < 50) last++;
    char text[64];
    const uint64_t next = place + count_of_shape(open, close) * bytes_of_type(open, close);
    const int n = snprintf(text, sizeof text, "%llu,%llu", (unsigned long long)place,
                           (unsigned long long)next);
    if (!splice(in, first, last - first, text, (size_t)n)) break;
    header = header + (size_t)n - (last - first);
    place = next;
    from = in->data + first + (size_t)n;
  }
  put_u64(in->data + at, header);
  const size_t whole = at + 8 + header;
  if (whole > in->size || place > in->most - whole) return;
  if (whole + place > in->size) memset(in->data + in->size, 0, whole + place - in->size);
  in->size = whole + (size_t)place;
}

static bool mutate_safetensors(Input *in, size_t at) {
  const size_t header = (size_t)get_u64(in->data + at), before = in->size;
  if (!below(4)) {
    const size_t data = at + 8 + header;
    if (data < in->size)
      in->size = data + LLVMFuzzerMutate(in->data + data, in->size - data, in->size - data);
    return true;
  }
  const bool done = mutate_json(in, at + 8, at + 8 + header);
  put_u64(in->data + at, header + in->size - before);
  if (below(4)) fit_tensors(in, at);
  return done;
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

typedef enum FieldKind { FIELD_STRING, FIELD_NUMBER, FIELD_KEY } FieldKind;

/* A string with its length, a number, or a key with its value. */
typedef struct Field {
  FieldKind kind;
  size_t at, n;
} Field;

static Field field[MOST_VALUES];
static size_t nfields;

typedef struct Reader {
  const uint8_t *s;
  size_t at, end;
  bool bad;
} Reader;

static uint64_t take_number(Reader *r, size_t n) {
  uint64_t v = 0;
  if (r->bad || r->end - r->at < n) return r->bad = true, 0;
  for (size_t i = 0; i < n; i++) v |= (uint64_t)r->s[r->at + i] << 8 * i;
  if (nfields < MOST_VALUES) field[nfields++] = (Field){FIELD_NUMBER, r->at, n};
  r->at += n;
  return v;
}

static void take_string(Reader *r) {
  const size_t at = r->at, before = nfields;
  const uint64_t n = take_number(r, 8);
  nfields = before;
  if (r->bad || n > r->end - r->at) {
    r->bad = true;
    return;
  }
  r->at += (size_t)n;
  if (nfields < MOST_VALUES) field[nfields++] = (Field){FIELD_STRING, at, r->at - at};
}

static void take_value(Reader *r, uint64_t type) {
  static const uint8_t size[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  if (type == 8) {
    take_string(r);
  } else if (type == 9) {
    const uint64_t of = take_number(r, 4), count = take_number(r, 8);
    if (of == 9) r->bad = true;
    for (uint64_t i = 0; i < count && !r->bad; i++) take_value(r, of);
  } else if (type < sizeof size) {
    take_number(r, size[type]);
  } else {
    r->bad = true;
  }
}

/* Lists the fields of the GGUF at `at`; returns where its tensors' list ends. */
static size_t list_fields(const Input *in, size_t at) {
  Reader r = {in->data, at + 8, in->size, false};
  nfields = 0;
  const uint64_t tensors = take_number(&r, 8), keys = take_number(&r, 8);
  for (uint64_t i = 0; i < keys && !r.bad; i++) {
    const size_t begin = r.at;
    take_string(&r);
    take_value(&r, take_number(&r, 4));
    if (!r.bad && nfields < MOST_VALUES) field[nfields++] = (Field){FIELD_KEY, begin, r.at - begin};
  }
  for (uint64_t i = 0; i < tensors && !r.bad; i++) {
    take_string(&r);
    const uint64_t dims = take_number(&r, 4);
    for (uint64_t k = 0; k < dims && !r.bad; k++) take_number(&r, 8);
    take_number(&r, 4); /* type */
    take_number(&r, 8); /* offset */
  }
  return r.at;
}

static void change_integer(uint8_t *p, size_t n) {
  static const uint64_t list[] = {0, 1, 2, 3, 7, 8, 31, 32, 64, 255, 256, 65536, 0x7fffffff};
  uint64_t v = 0;
  for (size_t i = 0; i < n; i++) v |= (uint64_t)p[i] << 8 * i;
  const uint64_t kind = below(6);
  v = kind == 0   ? v + 1
      : kind == 1 ? v - 1
      : kind == 2 ? v * 2
      : kind == 3 ? v / 2
      : kind == 4 ? ~(uint64_t)0 >> below(64)
                  : list[below(sizeof list / sizeof *list)];
  for (size_t i = 0; i < n; i++) p[i] = (uint8_t)(v >> 8 * i);
}

/* Another string in the place of one, or its bytes changed; the length fits. */
static bool change_string(Input *in, Field f) {
  uint8_t text[256];
  const Field other = field[below(nfields)];
  if (other.kind == FIELD_STRING && below(2))
    return splice(in, f.at, f.n, in->data + other.at, other.n);
  size_t n = f.n - 8;
  if (n > sizeof text / 2) return false;
  memcpy(text, in->data + f.at + 8, n);
  n = LLVMFuzzerMutate(text, n, sizeof text);
  if (!splice(in, f.at + 8, f.n - 8, text, n)) return false;
  put_u64(in->data + f.at, n);
  return true;
}

static bool change_keys(Input *in, size_t at, Field f) {
  uint8_t *count = in->data + at + 16;
  const uint64_t keys = get_u64(count);
  if (below(2)) {
    put_u64(count, keys - 1);
    return splice(in, f.at, f.n, "", 0);
  }
  put_u64(count, keys + 1);
  return splice(in, f.at, 0, in->data + f.at, f.n);
}

static bool mutate_gguf(Input *in, size_t at) {
  const size_t end = list_fields(in, at);
  if (!nfields) return false;
  const Field f = field[below(nfields)];
  const size_t before = in->size;
  bool done = true;
  if (f.kind == FIELD_NUMBER)
    change_integer(in->data + f.at, f.n);
  else if (f.kind == FIELD_STRING)
    done = change_string(in, f);
  else
    done = change_keys(in, at, f);
  /* tensors begin at a multiple of 32 bytes behind the list */
  const size_t now = end + in->size - before, old_data = (end - at + 31) / 32 * 32,
               data = (now - at + 31) / 32 * 32;
  const size_t old_gap = at + old_data - end, gap = at + data - now;
  static const uint8_t zeros[32];
  if (now + old_gap <= in->size && below(8)) splice(in, now, old_gap, zeros, gap);
  return done;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Changes the part at `at` that ends at `end`, or, if it is a file of bytes, the rest. */
static bool mutate_part(Input *in, size_t at, size_t end) {
  const uint8_t *s = in->data + at;
  const size_t rest = in->size - at;
  if (is_safetensors(s, rest)) return mutate_safetensors(in, at);
  if (is_gguf(s, rest)) return mutate_gguf(in, at);
  const size_t first = skip_spaces(in->data, at, end);
  if (first == end || !strchr("{[\"", in->data[first])) return false;
  return mutate_json(in, at, end);
}

/* The parts of an input; a file of bytes is the last one. */
static bool mutate_known(Input *in) {
  size_t begin[8], end[8], n = 0, at = 0;
  while (at < in->size && n < 8) {
    const uint8_t *s = in->data + at, *nul = memchr(s, 0, in->size - at);
    const bool bytes = is_safetensors(s, in->size - at) || is_gguf(s, in->size - at);
    begin[n] = at;
    end[n] = bytes || !nul ? in->size : (size_t)(nul - in->data);
    at = end[n++] + 1;
  }
  if (!n) return false;
  const size_t k = below(n);
  return mutate_part(in, begin[k], end[k]);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  Input in = {data, size, most};
  state ^= (seed + 1) * 0x9e3779b97f4a7c15u;
  if (!state) state = 1;
  if (size > 4 && below(2) && mutate_known(&in)) return in.size;
  return LLVMFuzzerMutate(data, in.size, most);
}
