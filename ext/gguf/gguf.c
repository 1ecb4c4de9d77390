#include "gguf/gguf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/by_name.h"
#include "base/mem.h"
#include "base/utf8.h"

enum { KEY_MAX = 65535, ALIGNMENT_MAX = 1 << 20, MAX_KEYS = 1 << 16, MAX_TENSORS = 1 << 20 };
enum { HEADER_FIRST = 1 << 20, HEADER_MAX = 1 << 30 }; /* bytes that are read at first, at most */

static const size_t width[GGUF_NTYPES] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};
static const char *const type_name[GGUF_NTYPES] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

/* ---- reading bytes in order ---------------------------------------------------------- */

/* The first `loaded` bytes are in memory.  Where more are needed, the call fails, `wanted` says how
 * many, and the header is read again from its beginning. */
typedef struct Cursor {
  const char *path, *start;
  size_t at, loaded, wanted, end; /* end: of the file */
  Arena *names;
} Cursor;

static size_t left(const Cursor *c) { return c->end - c->at; }

static Status cut_off(const Cursor *c, const char *what) {
  return fail(GRPO_EFORMAT, "%s: cut off in %s (byte %zu)", c->path, what, c->at);
}

static uint64_t little(const char *p, size_t n) {
  uint64_t v = 0;
  while (n-- > 0) v = v << 8 | (unsigned char)p[n];
  return v;
}

/* *out becomes the next n bytes, which the file has. */
static Status pass(Cursor *c, size_t n, const char **out) {
  if (n > c->loaded - c->at) {
    c->wanted = c->at + n;
    return fail(GRPO_ELIMIT, "%s: more of the header is needed", c->path);
  }
  *out = c->start + c->at;
  c->at += n;
  return GRPO_OK;
}

static Status take(Cursor *c, size_t n, const char *what, uint64_t *out) {
  const char *p;
  if (left(c) < n) return cut_off(c, what);
  try(pass(c, n, &p));
  *out = little(p, n);
  return GRPO_OK;
}

static Status take_string(Cursor *c, const char *what, const char **s, size_t *n) {
  uint64_t len;
  try(take(c, 8, what, &len));
  if (len > left(c))
    return fail(GRPO_EFORMAT, "%s: a string of %llu bytes in %s goes past the end of the file",
                c->path, (unsigned long long)len, what);
  *n = (size_t)len;
  return pass(c, *n, s);
}

static Status copy_name(Cursor *c, const char *s, size_t n, const char **out) {
  char *p = arena_alloc(c->names, n + 1);
  if (!p) return fail(GRPO_ENOMEM, "%s: names", c->path);
  memcpy(p, s, n);
  p[n] = 0;
  *out = p;
  return GRPO_OK;
}

/* ---- keys and values ------------------------------------------------------------------- */

static Status take_key(Cursor *c, uint64_t i, const char **key) {
  const char *s;
  size_t n;
  try(take_string(c, "a key", &s, &n));
  if (n == 0 || n > KEY_MAX)
    return fail(GRPO_EFORMAT, "%s: key %llu has %zu bytes", c->path, (unsigned long long)i + 1, n);
  for (size_t k = 0; k < n; k++)
    if (s[k] <= ' ' || s[k] > '~')
      return fail(GRPO_EFORMAT, "%s: key %llu is not printable ASCII", c->path,
                  (unsigned long long)i + 1);
  return copy_name(c, s, n, key);
}

static Status skip_strings(Cursor *c, const char *key, uint64_t count) {
  const char *s;
  size_t n;
  for (uint64_t i = 0; i < count; i++) try(take_string(c, key, &s, &n));
  return GRPO_OK;
}

static Status check_bools(const Cursor *c, const GgufValue *v) {
  for (uint64_t i = 0; i < v->count; i++)
    if (v->data[i] != 0 && v->data[i] != 1)
      return fail(GRPO_EFORMAT, "%s: key '%.200s': a bool is %d", c->path, v->key,
                  (unsigned char)v->data[i]);
  return GRPO_OK;
}

static Status take_value(Cursor *c, uint64_t i, GgufValue *v) {
  uint64_t type;
  *v = (GgufValue){.count = 1};
  try(take_key(c, i, &v->key));
  try(take(c, 4, v->key, &type));
  if (type == GGUF_ARRAY) {
    v->array = true;
    try(take(c, 4, v->key, &type));
    try(take(c, 8, v->key, &v->count));
    if (type == GGUF_ARRAY)
      return fail(GRPO_EFORMAT, "%s: key '%.200s': arrays of arrays are not supported", c->path,
                  v->key);
  }
  if (type >= GGUF_NTYPES)
    return fail(GRPO_EFORMAT, "%s: key '%.200s' has type %llu, which is unknown", c->path, v->key,
                (unsigned long long)type);
  v->type = (GgufType)type;
  const size_t least = type == GGUF_STRING ? 8 : width[type];
  if (v->count > left(c) / least)
    return fail(GRPO_EFORMAT,
                "%s: key '%.200s': %llu values of type %s go past the end of the file", c->path,
                v->key, (unsigned long long)v->count, type_name[type]);
  const size_t begin = c->at;
  if (type == GGUF_STRING)
    try(skip_strings(c, v->key, v->count));
  else
    try(pass(c, v->count * width[type], &v->data));
  v->data = c->start + begin;
  v->bytes = c->at - begin;
  return type == GGUF_BOOL ? check_bools(c, v) : GRPO_OK;
}

static Status read_values(Gguf *g, Cursor *c, uint64_t count) {
  enum { LEAST = 8 + 1 + 4 + 1 };
  if (count > MAX_KEYS || count > left(c) / LEAST)
    return fail(GRPO_EFORMAT, "%s: %llu keys are too many for the file", g->path,
                (unsigned long long)count);
  g->value = mem_alloc((size_t)(count ? count : 1) * sizeof *g->value);
  if (!g->value) return fail(GRPO_ENOMEM, "%s: table of keys", g->path);
  for (uint64_t i = 0; i < count; i++) try(take_value(c, i, &g->value[i]));
  g->nvalues = (size_t)count;
  if (count) qsort(g->value, g->nvalues, sizeof *g->value, by_name);
  for (size_t i = 1; i < g->nvalues; i++)
    if (strcmp(g->value[i - 1].key, g->value[i].key) == 0)
      return fail(GRPO_EFORMAT, "%s: key '%.200s' occurs twice", g->path, g->value[i].key);
  return GRPO_OK;
}

/* ---- tensors ------------------------------------------------------------------------------ */

static Status take_name(Cursor *c, uint64_t i, const char **name) {
  const char *s;
  size_t n;
  try(take_string(c, "a tensor's name", &s, &n));
  if (n == 0 || n > GGUF_NAME_MAX)
    return fail(GRPO_EFORMAT, "%s: the name of tensor %llu has %zu bytes", c->path,
                (unsigned long long)i + 1, n);
  bool plain = utf8_is_valid(s, n);
  for (size_t k = 0; k < n; k++) plain = plain && (unsigned char)s[k] >= ' ' && s[k] != 127;
  if (!plain)
    return fail(GRPO_EFORMAT, "%s: the name of tensor %llu is not text", c->path,
                (unsigned long long)i + 1);
  return copy_name(c, s, n, name);
}

static Status take_shape(Cursor *c, GgufTensor *t) {
  uint64_t ndim;
  try(take(c, 4, t->name, &ndim));
  if (ndim == 0 || ndim > GGUF_DIMS)
    return fail(GRPO_EFORMAT, "%s: tensor '%s' has %llu dimensions, want 1 to %d", c->path, t->name,
                (unsigned long long)ndim, GGUF_DIMS);
  t->ndim = (int)ndim;
  t->n = 1;
  for (int d = t->ndim; d-- > 0;) { /* the file lists the fastest dimension first */
    try(take(c, 8, t->name, &t->dim[d]));
    if (t->dim[d] == 0)
      return fail(GRPO_EFORMAT, "%s: tensor '%s': a dimension is 0", c->path, t->name);
    if (__builtin_mul_overflow(t->n, t->dim[d], &t->n) || t->n > INT64_MAX)
      return fail(GRPO_EFORMAT, "%s: tensor '%s': the shape overflows", c->path, t->name);
  }
  return GRPO_OK;
}

static Status take_type(Cursor *c, GgufTensor *t) {
  uint64_t number;
  try(take(c, 4, t->name, &number));
  if (!ggml_find((uint32_t)number, &t->type))
    return fail(GRPO_EFORMAT, "%s: tensor '%s' has type %llu, which is not supported", c->path,
                t->name, (unsigned long long)number);
  const uint64_t values = (uint64_t)ggml_block_values(t->type), row = t->dim[t->ndim - 1];
  if (row % values)
    return fail(GRPO_EFORMAT, "%s: tensor '%s': rows of %llu values are not whole blocks of %s",
                c->path, t->name, (unsigned long long)row, ggml_name(t->type));
  if (__builtin_mul_overflow(t->n / values, ggml_block_bytes(t->type), &t->bytes))
    return fail(GRPO_EFORMAT, "%s: tensor '%s': the shape overflows", c->path, t->name);
  return GRPO_OK;
}

/* Each offset must be the sum of the padded sizes before it, so that there are no holes or
 * overlaps. */
static Status take_tensor(Cursor *c, uint64_t i, uint64_t alignment, uint64_t *next,
                          GgufTensor *t) {
  *t = (GgufTensor){0};
  try(take_name(c, i, &t->name));
  try(take_shape(c, t));
  try(take_type(c, t));
  try(take(c, 8, t->name, &t->begin));
  if (t->begin != *next)
    return fail(GRPO_EFORMAT, "%s: tensor '%s' begins at byte %llu, but %llu is next", c->path,
                t->name, (unsigned long long)t->begin, (unsigned long long)*next);
  uint64_t end;
  if (__builtin_add_overflow(t->begin, t->bytes, &end) ||
      __builtin_add_overflow(end, alignment - 1, &end))
    return fail(GRPO_EFORMAT, "%s: tensor '%s': its place overflows", c->path, t->name);
  *next = end / alignment * alignment;
  return GRPO_OK;
}

/* The last tensor may lack its padding; nothing else may follow it. */
static Status place_data(Gguf *g, const Cursor *c, uint64_t alignment, uint64_t end) {
  const uint64_t header = c->at, size = c->end;
  const uint64_t start = (header + alignment - 1) / alignment * alignment;
  if (!g->ntensors) return GRPO_OK;
  for (size_t i = 0; i < g->ntensors; i++) {
    GgufTensor *t = &g->tensor[i];
    if (start > size || t->begin > size - start || t->bytes > size - start - t->begin)
      return fail(GRPO_EFORMAT, "%s: tensor '%s' ends past the end of the file", g->path, t->name);
    t->file = g->file;
    t->at = start + t->begin;
  }
  if (size - start > end)
    return fail(GRPO_EFORMAT, "%s: %llu bytes after the last tensor", g->path,
                (unsigned long long)(size - start - end));
  return GRPO_OK;
}

static Status read_tensors(Gguf *g, Cursor *c, uint64_t count) {
  enum { LEAST = 8 + 1 + 4 + 8 + 4 + 8 };
  int64_t alignment = GGUF_ALIGNMENT;
  uint64_t next = 0;
  try(gguf_get_int(g, "general.alignment", 1, ALIGNMENT_MAX, &alignment, NULL));
  if (alignment & (alignment - 1))
    return fail(GRPO_EFORMAT, "%s: key 'general.alignment' = %lld is not a power of two", g->path,
                (long long)alignment);
  if (count > MAX_TENSORS || count > left(c) / LEAST)
    return fail(GRPO_EFORMAT, "%s: %llu tensors are too many for the file", g->path,
                (unsigned long long)count);
  g->tensor = mem_alloc((size_t)(count ? count : 1) * sizeof *g->tensor);
  if (!g->tensor) return fail(GRPO_ENOMEM, "%s: table of tensors", g->path);
  for (uint64_t i = 0; i < count; i++)
    try(take_tensor(c, i, (uint64_t)alignment, &next, &g->tensor[i]));
  g->ntensors = (size_t)count;
  try(place_data(g, c, (uint64_t)alignment, next));
  if (count) qsort(g->tensor, g->ntensors, sizeof *g->tensor, by_name);
  for (size_t i = 1; i < g->ntensors; i++)
    if (strcmp(g->tensor[i - 1].name, g->tensor[i].name) == 0)
      return fail(GRPO_EFORMAT, "%s: tensor '%s' occurs twice", g->path, g->tensor[i].name);
  return GRPO_OK;
}

/* ---- the file as a whole --------------------------------------------------------------------- */

static Status read_header(Gguf *g, Cursor *c) {
  uint64_t magic, version, ntensors, nvalues;
  if (c->end < 4 || memcmp(c->start, "GGUF", 4) != 0)
    return fail(GRPO_EFORMAT, "%s: not a GGUF file (it does not begin with 'GGUF')", g->path);
  try(take(c, 4, "the header", &magic));
  try(take(c, 4, "the header", &version));
  if ((version & 0xffff) == 0 && version)
    return fail(GRPO_EFORMAT, "%s: a big-endian GGUF file; only little-endian ones are supported",
                g->path);
  if (version != 3)
    return fail(GRPO_EFORMAT, "%s: GGUF version %llu; only version 3 is supported", g->path,
                (unsigned long long)version);
  try(take(c, 8, "the header", &ntensors));
  try(take(c, 8, "the header", &nvalues));
  try(read_values(g, c, nvalues));
  return read_tensors(g, c, ntensors);
}

static void forget_header(Gguf *g) {
  mem_free(g->value);
  mem_free(g->tensor);
  mem_free(g->header);
  arena_free(&g->names);
  g->value = NULL;
  g->tensor = NULL;
  g->header = NULL;
  g->nvalues = g->ntensors = 0;
}

/* Reads the header from the file's first n bytes; *wanted: how many bytes it needs, or 0. */
static Status try_header(Gguf *g, size_t n, size_t *wanted) {
  forget_header(g);
  g->header = mem_alloc(n + 1);
  if (!g->header) return fail(GRPO_ENOMEM, "%s: its header", g->path);
  try(file_input_read(g->file, 0, n, g->header));
  Cursor c = {.path = g->path,
              .start = g->header,
              .loaded = n,
              .end = (size_t)file_input_size(g->file),
              .names = &g->names};
  const Status s = read_header(g, &c);
  *wanted = c.wanted;
  return s;
}

/* A file that is one of several has only a part of the tensors. */
static Status check_whole(const Gguf *g) {
  int64_t parts = 1;
  try(gguf_get_int(g, "split.count", 0, UINT16_MAX, &parts, NULL));
  if (parts <= 1) return GRPO_OK;
  return fail(GRPO_EFORMAT,
              "%s: the model is split over %lld files, which are not read; join them: "
              "llama-gguf-split --merge FIRST-FILE model.gguf",
              g->path, (long long)parts);
}

static Status open_file(Gguf *g) {
  try(file_input_open(&g->file, g->path));
  const uint64_t size = file_input_size(g->file);
  size_t n = 0, wanted = HEADER_FIRST;
  Status s = GRPO_OK;
  while (wanted > n) {
    if (wanted > HEADER_MAX)
      return fail(GRPO_EFORMAT, "%s: keys and values of more than %d MiB", g->path,
                  HEADER_MAX >> 20);
    n = wanted > 2 * n ? wanted : 2 * n;
    if (n > size) n = (size_t)size;
    wanted = 0;
    s = try_header(g, n, &wanted);
  }
  return s == GRPO_OK ? check_whole(g) : s;
}

bool gguf_is(const char *path) {
  const size_t n = strlen(path);
  const bool named = n >= 5 && strcmp(path + n - 5, ".gguf") == 0;
  char magic[4];
  FileInput *f;
  if (file_is_dir(path)) return false;
  if (!file_exists(path) || file_input_open(&f, path) != GRPO_OK) return named;
  const bool yes = file_input_size(f) >= sizeof magic &&
                   file_input_read(f, 0, sizeof magic, magic) == GRPO_OK &&
                   memcmp(magic, "GGUF", sizeof magic) == 0;
  file_input_close(f);
  return yes || named;
}

Status gguf_open(Gguf *out, const char *path) {
  Gguf g = {.path = mem_strdup(path)};
  *out = (Gguf){0};
  if (!g.path) return fail(GRPO_ENOMEM, "%s", path);
  const Status s = open_file(&g);
  if (s != GRPO_OK) {
    gguf_close(&g);
    return s;
  }
  *out = g;
  return GRPO_OK;
}

void gguf_close(Gguf *g) {
  forget_header(g);
  file_input_close(g->file);
  mem_free(g->path);
  *g = (Gguf){0};
}

const GgufTensor *gguf_tensor(const Gguf *g, const char *name) {
  const GgufTensor key = {.name = name};
  return g->ntensors ? bsearch(&key, g->tensor, g->ntensors, sizeof key, by_name) : NULL;
}

/* Reads and decodes whole blocks: `count` from block `first` on, at most as many as PIECE holds. */
enum { PIECE = 1 << 14 };
static Status read_blocks(const GgufTensor *t, uint64_t first, uint64_t count, float *out) {
  char blocks[PIECE];
  const size_t bytes = ggml_block_bytes(t->type);
  try(file_input_read(t->file, t->at + first * bytes, (size_t)count * bytes, blocks));
  ggml_decode(t->type, blocks, (size_t)count * (size_t)ggml_block_values(t->type), out);
  return GRPO_OK;
}

Status gguf_read(const GgufTensor *t, uint64_t from, uint64_t n, float *out) {
  const uint64_t values = (uint64_t)ggml_block_values(t->type);
  const uint64_t most = PIECE / ggml_block_bytes(t->type);
  float block[GGML_MAX_BLOCK];
  while (n) {
    const uint64_t skip = from % values, whole = n / values;
    uint64_t k = (whole < most ? whole : most) * values;
    if (skip || !k) {
      k = values - skip < n ? values - skip : n;
      try(read_blocks(t, from / values, 1, block));
      memcpy(out, block + skip, (size_t)k * sizeof *out);
    } else {
      try(read_blocks(t, from / values, k / values, out));
    }
    from += k;
    out += k;
    n -= k;
  }
  return GRPO_OK;
}

/* ---- looking up values ------------------------------------------------------------------- */

const GgufValue *gguf_find(const Gguf *g, const char *key) {
  const GgufValue want = {.key = key};
  return g->nvalues ? bsearch(&want, g->value, g->nvalues, sizeof want, by_name) : NULL;
}

static bool is_integer(GgufType t) { return t <= GGUF_I32 || t == GGUF_U64 || t == GGUF_I64; }

int64_t gguf_int_at(const GgufValue *v, uint64_t i) {
  const uint64_t u = little(v->data + i * width[v->type], width[v->type]);
  switch (v->type) {
  case GGUF_I8:
    return (int8_t)u;
  case GGUF_I16:
    return (int16_t)u;
  case GGUF_I32:
    return (int32_t)u;
  case GGUF_U64:
    return u > INT64_MAX ? INT64_MAX : (int64_t)u;
  default:
    return (int64_t)u;
  }
}

double gguf_number_at(const GgufValue *v, uint64_t i) {
  float f;
  double d;
  if (v->type == GGUF_F32) {
    memcpy(&f, v->data + i * sizeof f, sizeof f);
    return f;
  }
  if (v->type == GGUF_F64) {
    memcpy(&d, v->data + i * sizeof d, sizeof d);
    return d;
  }
  return (double)gguf_int_at(v, i);
}

/* The single value with this key; NULL: none. */
static Status find_single(const Gguf *g, const char *key, const char *want, bool right,
                          const GgufValue *v) {
  if (v && (v->array || !right))
    return fail(GRPO_EFORMAT, "%s: key '%.200s' is %s%s, want %s", g->path, key,
                v->array ? "an array of " : "", type_name[v->type], want);
  return GRPO_OK;
}

static bool tell(const GgufValue *v, bool *found) {
  if (found) *found = v != NULL;
  return v != NULL;
}

Status gguf_get_int(const Gguf *g, const char *key, int64_t lo, int64_t hi, int64_t *out,
                    bool *found) {
  const GgufValue *v = gguf_find(g, key);
  try(find_single(g, key, "an integer", v && is_integer(v->type), v));
  if (!tell(v, found)) return GRPO_OK;
  const int64_t n = gguf_int_at(v, 0);
  if (n < lo || n > hi)
    return fail(GRPO_EFORMAT, "%s: key '%s' = %lld is outside %lld .. %lld", g->path, key,
                (long long)n, (long long)lo, (long long)hi);
  *out = n;
  return GRPO_OK;
}

Status gguf_get_number(const Gguf *g, const char *key, double *out, bool *found) {
  const GgufValue *v = gguf_find(g, key);
  try(find_single(g, key, "a number",
                  v && (is_integer(v->type) || v->type == GGUF_F32 || v->type == GGUF_F64), v));
  if (!tell(v, found)) return GRPO_OK;
  const double x = gguf_number_at(v, 0);
  if (!isfinite(x)) return fail(GRPO_EFORMAT, "%s: key '%s' is not finite", g->path, key);
  *out = x;
  return GRPO_OK;
}

Status gguf_get_bool(const Gguf *g, const char *key, bool *out, bool *found) {
  const GgufValue *v = gguf_find(g, key);
  try(find_single(g, key, "a bool", v && v->type == GGUF_BOOL, v));
  if (tell(v, found)) *out = v->data[0] != 0;
  return GRPO_OK;
}

Status gguf_get_string(const Gguf *g, const char *key, const char **out, size_t *n, bool *found) {
  const GgufValue *v = gguf_find(g, key);
  try(find_single(g, key, "a string", v && v->type == GGUF_STRING, v));
  if (!tell(v, found)) return GRPO_OK;
  const char *at = v->data;
  gguf_next_string(&at, out, n);
  if (!utf8_is_valid(*out, *n) || memchr(*out, 0, *n))
    return fail(GRPO_EFORMAT, "%s: key '%s' is not text in UTF-8", g->path, key);
  return GRPO_OK;
}

Status gguf_get_array(const Gguf *g, const char *key, GgufType element, const GgufValue **out) {
  *out = gguf_find(g, key);
  if (!*out || ((*out)->array && (*out)->type == element)) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: key '%.200s' is %s%s, want an array of %s", g->path, key,
              (*out)->array ? "an array of " : "", type_name[(*out)->type], type_name[element]);
}

void gguf_next_string(const char **at, const char **s, size_t *n) {
  *n = (size_t)little(*at, 8);
  *s = *at + 8;
  *at = *s + *n;
}
