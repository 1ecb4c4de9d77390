#include "parquet/thrift.h"

enum { I8 = 3, I16 = 4, I32 = 5, I64 = 6, DOUBLE = 7, BINARY = 8, LIST = 9, SET = 10, MAP = 11 };
enum { DEEPEST = 32 };

static size_t left(const Thrift *t) { return (size_t)(t->end - t->p); }

static uint8_t byte(Thrift *t) {
  if (t->bad || t->p == t->end) {
    t->bad = true;
    return 0;
  }
  return *t->p++;
}

static uint64_t varint(Thrift *t) {
  uint64_t v = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const uint8_t b = byte(t);
    v |= (uint64_t)(b & 127) << shift;
    if (b < 128) return v;
  }
  t->bad = true;
  return 0;
}

static int64_t zigzag(Thrift *t) {
  const uint64_t v = varint(t);
  return (int64_t)(v >> 1 ^ (~(v & 1) + 1));
}

bool thrift_field(Thrift *t, ThriftField *f) {
  const uint8_t b = byte(t);
  if (t->bad || b == 0) return false;
  const int64_t id = b >> 4 ? f->id + (b >> 4) : zigzag(t);
  if (id < INT16_MIN || id > INT16_MAX) t->bad = true;
  f->id = (int)id;
  f->type = b & 15;
  return !t->bad;
}

int64_t thrift_integer(Thrift *t, int type) {
  if (type == I8) return (int8_t)byte(t);
  if (type == I16 || type == I32 || type == I64) return zigzag(t);
  t->bad = true;
  return 0;
}

bool thrift_bool(Thrift *t, int type) {
  if (type != THRIFT_TRUE && type != THRIFT_FALSE) t->bad = true;
  return type == THRIFT_TRUE;
}

size_t thrift_text(Thrift *t, int type, const char **s) {
  const uint64_t n = varint(t);
  *s = "";
  if (t->bad || type != BINARY || n > left(t)) {
    t->bad = true;
    return 0;
  }
  *s = (const char *)t->p;
  t->p += n;
  return (size_t)n;
}

size_t thrift_list(Thrift *t, int type, int *of) {
  const uint8_t b = byte(t);
  uint64_t n = b >> 4;
  *of = b & 15;
  if (n == 15) n = varint(t);
  if (t->bad || (type != LIST && type != SET) || n > left(t)) {
    t->bad = true;
    return 0;
  }
  return (size_t)n;
}

bool thrift_struct(Thrift *t, int type) {
  if (type != THRIFT_STRUCT) t->bad = true;
  return !t->bad;
}

static void skip(Thrift *t, int type, bool element, int depth);

static void skip_elements(Thrift *t, size_t n, const int *types, int kinds, int depth) {
  for (size_t i = 0; i < n && !t->bad; i++)
    for (int k = 0; k < kinds; k++) skip(t, types[k], true, depth);
}

static void skip_list(Thrift *t, int type, int depth) {
  int of;
  const size_t n = thrift_list(t, type, &of);
  skip_elements(t, n, &of, 1, depth);
}

static void skip_map(Thrift *t, int depth) {
  const uint64_t n = varint(t);
  if (!n || t->bad) return;
  const uint8_t b = byte(t);
  if (n > left(t)) t->bad = true;
  skip_elements(t, (size_t)n, (int[]){b >> 4, b & 15}, 2, depth);
}

static void skip(Thrift *t, int type, bool element, int depth) {
  ThriftField f = {0, 0};
  const char *s;
  if (depth > DEEPEST) t->bad = true;
  if (t->bad) return;
  switch (type) {
  case THRIFT_TRUE:
  case THRIFT_FALSE: /* a field's value is its type; an element's is a byte */
    if (element) byte(t);
    break;
  case I8:
  case I16:
  case I32:
  case I64:
    thrift_integer(t, type);
    break;
  case DOUBLE:
    if (left(t) < 8) t->bad = true;
    if (!t->bad) t->p += 8;
    break;
  case BINARY:
    thrift_text(t, type, &s);
    break;
  case LIST:
  case SET:
    skip_list(t, type, depth + 1);
    break;
  case MAP:
    skip_map(t, depth + 1);
    break;
  case THRIFT_STRUCT:
    while (thrift_field(t, &f)) skip(t, f.type, false, depth + 1);
    break;
  default:
    t->bad = true;
  }
}

void thrift_skip(Thrift *t, int type) { skip(t, type, false, 0); }
