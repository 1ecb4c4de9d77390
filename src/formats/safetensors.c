#include "formats/safetensors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/by_name.h"
#include "base/half.h"
#include "base/mem.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "files hold numbers as little-endian machines do, and grpo runs on those alone");
enum { HEADER_MAX = 100000000, PREFIX = 8 };

static const struct {
  const char *name;
  unsigned bits;
} types[] = {
#define TYPE(name, bits) {#name, bits},
#include "formats/safetensors.def"
#undef TYPE
};

const char *st_type_name(StType t) { return types[t].name; }
bool st_type_is_float(StType t) { return t == ST_F32 || t == ST_F16 || t == ST_BF16; }

/* ---- one entry of the header ---------------------------------------------------- */

static bool read_size(const Json *j, uint64_t *out) {
  int64_t v;
  if (!j || !json_integer(j, &v) || v < 0) return false;
  *out = (uint64_t)v;
  return true;
}

static Status read_type(const Json *j, const char *path, StTensor *t) {
  const char *name = j ? json_string(j) : NULL;
  for (int i = 0; name && i < ST_COUNT; i++)
    if (strcmp(name, types[i].name) == 0) {
      t->type = (StType)i;
      return GRPO_OK;
    }
  return fail(GRPO_EFORMAT, "%s: tensor '%.200s' has dtype '%.40s', which is unknown", path,
              t->name, name ? name : "(none)");
}

static Status read_shape(const Json *j, const char *path, StTensor *t) {
  if (!j || json_type(j) != JSON_ARRAY)
    return fail(GRPO_EFORMAT, "%s: tensor '%.200s' has no shape", path, t->name);
  t->n = 1;
  for (const Json *d = json_child(j); d; d = json_next(d), t->ndim++) {
    uint64_t v;
    if (!read_size(d, &v))
      return fail(GRPO_EFORMAT, "%s: tensor '%.200s': a dimension is not a size", path, t->name);
    if (t->ndim < ST_DIMS) t->dim[t->ndim] = v;
    if (__builtin_mul_overflow(t->n, v, &t->n))
      return fail(GRPO_EFORMAT, "%s: tensor '%.200s': the shape overflows", path, t->name);
  }
  return GRPO_OK;
}

static Status read_offsets(const Json *j, const char *path, StTensor *t) {
  uint64_t bits;
  if (!j || json_type(j) != JSON_ARRAY || json_count(j) != 2 ||
      !read_size(json_child(j), &t->begin) || !read_size(json_next(json_child(j)), &t->end))
    return fail(GRPO_EFORMAT, "%s: tensor '%.200s' has no data_offsets [begin, end]", path,
                t->name);
  if (__builtin_mul_overflow(t->n, types[t->type].bits, &bits) || bits % 8)
    return fail(GRPO_EFORMAT, "%s: tensor '%.200s': its size is not a number of bytes", path,
                t->name);
  if (t->begin > t->end || t->end - t->begin != bits / 8)
    return fail(GRPO_EFORMAT,
                "%s: tensor '%.200s': data_offsets %llu .. %llu do not hold its %llu bytes", path,
                t->name, (unsigned long long)t->begin, (unsigned long long)t->end,
                (unsigned long long)(bits / 8));
  return GRPO_OK;
}

static Status read_entry(const Json *j, const char *path, StTensor *t) {
  *t = (StTensor){.name = json_key(j)};
  if (json_type(j) != JSON_OBJECT)
    return fail(GRPO_EFORMAT, "%s: the entry of tensor '%.200s' is not an object", path, t->name);
  const Json *type = NULL, *shape = NULL, *offsets = NULL;
  for (const Json *f = json_child(j); f; f = json_next(f)) {
    const char *k = json_key(f);
    const Json **slot = strcmp(k, "dtype") == 0          ? &type
                        : strcmp(k, "shape") == 0        ? &shape
                        : strcmp(k, "data_offsets") == 0 ? &offsets
                                                         : NULL;
    if (slot && *slot)
      return fail(GRPO_EFORMAT, "%s: tensor '%.200s' has two %s", path, t->name, k);
    if (slot) *slot = f;
  }
  try(read_type(type, path, t));
  try(read_shape(shape, path, t));
  return read_offsets(offsets, path, t);
}

/* ---- the header as a whole -------------------------------------------------------- */

static int by_place(const void *x, const void *y) {
  const StTensor *a = x, *b = y;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  if (a->end != b->end) return a->end < b->end ? -1 : 1;
  return strcmp(a->name, b->name);
}

/* Tensors must follow one another without holes or overlaps, and nothing may follow the last
 * one. */
static Status check_places(Safetensors *s, uint64_t data_size) {
  uint64_t at = 0;
  qsort(s->tensor, s->count, sizeof *s->tensor, by_place);
  for (size_t i = 0; i < s->count; i++) {
    const StTensor *t = &s->tensor[i];
    if (t->begin != at)
      return fail(GRPO_EFORMAT, "%s: tensor '%.200s' begins at byte %llu, but %llu is next",
                  s->path, t->name, (unsigned long long)t->begin, (unsigned long long)at);
    at = t->end;
    if (at > data_size)
      return fail(GRPO_EFORMAT, "%s: tensor '%.200s' ends past the end of the file", s->path,
                  t->name);
  }
  if (at != data_size)
    return fail(GRPO_EFORMAT, "%s: %llu bytes after the last tensor", s->path,
                (unsigned long long)(data_size - at));
  return GRPO_OK;
}

static Status check_names(Safetensors *s) {
  qsort(s->tensor, s->count, sizeof *s->tensor, by_name);
  for (size_t i = 1; i < s->count; i++)
    if (strcmp(s->tensor[i - 1].name, s->tensor[i].name) == 0)
      return fail(GRPO_EFORMAT, "%s: tensor '%.200s' occurs twice", s->path, s->tensor[i].name);
  return GRPO_OK;
}

static Status check_metadata(const Safetensors *s, const Json *m) {
  if (json_type(m) != JSON_OBJECT)
    return fail(GRPO_EFORMAT, "%s: __metadata__ is not an object", s->path);
  for (const Json *v = json_child(m); v; v = json_next(v))
    if (json_type(v) != JSON_STRING)
      return fail(GRPO_EFORMAT, "%s: __metadata__ '%.200s' is not a string", s->path, json_key(v));
  return GRPO_OK;
}

/* data: the byte of the file where the tensors' data begins. */
static Status read_header(Safetensors *s, uint64_t data, uint64_t data_size) {
  bool metadata = false;
  s->tensor = mem_alloc(json_count(s->header) * sizeof *s->tensor);
  if (!s->tensor) return fail(GRPO_ENOMEM, "%s: table of tensors", s->path);
  for (const Json *j = json_child(s->header); j; j = json_next(j)) {
    if (strcmp(json_key(j), "__metadata__") == 0) {
      if (metadata) return fail(GRPO_EFORMAT, "%s: __metadata__ occurs twice", s->path);
      metadata = true;
      try(check_metadata(s, j));
      continue;
    }
    try(read_entry(j, s->path, &s->tensor[s->count]));
    s->count++;
  }
  try(check_places(s, data_size));
  for (size_t i = 0; i < s->count; i++) {
    s->tensor[i].file = s->file;
    s->tensor[i].at = data + s->tensor[i].begin;
  }
  return check_names(s);
}

static uint64_t read_u64(const char *p) {
  uint64_t v = 0;
  for (int i = 7; i >= 0; i--) v = v << 8 | (unsigned char)p[i];
  return v;
}

static Status parse_header(Safetensors *s, const char *text, uint64_t n) {
  if (n == 0 || *text != '{')
    return fail(GRPO_EFORMAT, "%s: the header does not begin with '{'", s->path);
  try(json_parse(text, (size_t)n, s->path, &s->header));
  if (json_type(s->header) != JSON_OBJECT)
    return fail(GRPO_EFORMAT, "%s: the header is not a JSON object", s->path);
  return read_header(s, PREFIX + n, file_input_size(s->file) - PREFIX - n);
}

static Status open_file(Safetensors *s) {
  char prefix[PREFIX];
  try(file_input_open(&s->file, s->path));
  const uint64_t size = file_input_size(s->file);
  if (size < PREFIX)
    return fail(GRPO_EFORMAT, "%s: not a safetensors file (shorter than 8 bytes)", s->path);
  try(file_input_read(s->file, 0, PREFIX, prefix));
  const uint64_t n = read_u64(prefix);
  if (n > HEADER_MAX)
    return fail(GRPO_EFORMAT, "%s: not a safetensors file (header of %llu bytes)", s->path,
                (unsigned long long)n);
  if (n > size - PREFIX)
    return fail(GRPO_EFORMAT, "%s: the header of %llu bytes is cut off", s->path,
                (unsigned long long)n);
  char *text = mem_alloc((size_t)n + 1);
  if (!text) return fail(GRPO_ENOMEM, "%s: its header", s->path);
  Status st = file_input_read(s->file, PREFIX, (size_t)n, text);
  if (st == GRPO_OK) st = parse_header(s, text, n);
  mem_free(text);
  return st;
}

Status safetensors_open(Safetensors *out, const char *path) {
  Safetensors s = {.path = mem_strdup(path)};
  *out = (Safetensors){0};
  if (!s.path) return fail(GRPO_ENOMEM, "%s", path);
  const Status st = open_file(&s);
  if (st != GRPO_OK) {
    safetensors_close(&s);
    return st;
  }
  *out = s;
  return GRPO_OK;
}

void safetensors_close(Safetensors *s) {
  json_free(s->header);
  mem_free(s->tensor);
  file_input_close(s->file);
  mem_free(s->path);
  *s = (Safetensors){0};
}

const StTensor *safetensors_find(const Safetensors *s, const char *name) {
  StTensor key = {.name = name};
  return s->count ? bsearch(&key, s->tensor, s->count, sizeof key, by_name) : NULL;
}

const char *safetensors_metadata(const Safetensors *s, const char *key) {
  for (const Json *j = json_child(s->header); j; j = json_next(j))
    if (strcmp(json_key(j), "__metadata__") == 0) {
      const Json *v = json_get(j, key);
      return v ? json_string(v) : NULL;
    }
  return NULL;
}

Status safetensors_shaped(const Safetensors *s, const char *name, StType type, int ndim,
                          const int *dim, const StTensor **out) {
  const StTensor *t = *out = safetensors_find(s, name);
  if (!t) return fail(GRPO_EFORMAT, "%s: tensor '%s' is missing", s->path, name);
  bool same = t->type == type && t->ndim == ndim;
  for (int d = 0; same && d < t->ndim; d++) same = t->dim[d] == (uint64_t)dim[d];
  if (same) return GRPO_OK;
  return fail(GRPO_EFORMAT, "%s: tensor '%s' does not have the shape of its parameter", s->path,
              name);
}

Status safetensors_steps(const Safetensors *s, uint64_t *out) {
  const char *text = safetensors_metadata(s, "step");
  char *end = NULL;
  errno = 0;
  const unsigned long long v = text ? strtoull(text, &end, 10) : 0;
  if (!text || end == text || *end || errno || *text == '-')
    return fail(GRPO_EFORMAT, "%s: no step count; is it a file of training state?", s->path);
  *out = v;
  return GRPO_OK;
}

Status st_read_bytes(const StTensor *t, uint64_t from, uint64_t n, void *out) {
  return file_input_read(t->file, t->at + from, (size_t)n, out);
}

Status st_read(const StTensor *t, uint64_t from, uint64_t n, float *out) {
  enum { PIECE = 1 << 14 };
  uint16_t half[PIECE];
  if (t->type == ST_F32) return st_read_bytes(t, from * sizeof *out, n * sizeof *out, out);
  while (n) {
    const uint64_t k = n < PIECE ? n : PIECE;
    try(st_read_bytes(t, from * sizeof *half, k * sizeof *half, half));
    if (t->type == ST_F16)
      for (uint64_t i = 0; i < k; i++) out[i] = f16_to_f32(half[i]);
    else
      for (uint64_t i = 0; i < k; i++) out[i] = bf16_to_f32(half[i]);
    from += k;
    out += k;
    n -= k;
  }
  return GRPO_OK;
}

/* ---- writing ------------------------------------------------------------------------ */

struct StWriter {
  FileWriter *file;
  size_t count, cur; /* entries; the one being written */
  uint64_t left;     /* its values that are still missing */
  StType *type;      /* [count] */
  uint64_t *n;       /* [count] values */
};

static void put_header(Buf *b, size_t count, const StEntry *e, const uint64_t *n,
                       const char *const *metadata) {
  uint64_t at = 0;
  buf_puts(b, "{\"__metadata__\":{\"format\":\"pt\"");
  for (; metadata && *metadata; metadata += 2) {
    buf_putc(b, ',');
    json_put_string(b, metadata[0], strlen(metadata[0]));
    buf_putc(b, ':');
    json_put_string(b, metadata[1], strlen(metadata[1]));
  }
  buf_putc(b, '}');
  for (size_t i = 0; i < count; i++) {
    uint64_t end = at + n[i] * (types[e[i].type].bits / 8);
    buf_putc(b, ',');
    json_put_string(b, e[i].name, strlen(e[i].name));
    buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", st_type_name(e[i].type));
    for (int d = 0; d < e[i].ndim; d++)
      buf_printf(b, "%s%llu", d ? "," : "", (unsigned long long)e[i].dim[d]);
    buf_printf(b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
               (unsigned long long)end);
    at = end;
  }
  buf_putc(b, '}');
  while (b->len % 8 && !b->oom) buf_putc(b, ' ');
}

static Status write_header(StWriter *w, const char *path, const StEntry *e,
                           const char *const *metadata) {
  Buf b = {0};
  char prefix[PREFIX];
  put_header(&b, w->count, e, w->n, metadata);
  Status s = buf_status(&b);
  for (int i = 0; i < PREFIX; i++) prefix[i] = (char)((uint64_t)b.len >> 8 * i & 255);
  if (s == GRPO_OK) s = file_writer_open(&w->file, path);
  if (s == GRPO_OK) s = file_writer_put(w->file, prefix, sizeof prefix);
  if (s == GRPO_OK) s = file_writer_put(w->file, b.data, b.len);
  buf_free(&b);
  return s;
}

/* Moves on from tensors that are complete, empty ones included. */
static void skip_complete(StWriter *w) {
  while (w->cur < w->count && w->left == 0)
    if (++w->cur < w->count) w->left = w->n[w->cur];
}

Status st_writer_open(StWriter **out, const char *path, size_t count, const StEntry *entries,
                      const char *const *metadata) {
  StWriter *w = mem_zalloc(sizeof *w);
  if (!w) return fail(GRPO_ENOMEM, "%s", path);
  w->count = count;
  w->type = mem_alloc(count * sizeof *w->type);
  w->n = mem_alloc(count * sizeof *w->n);
  if (!w->type || !w->n) {
    st_writer_abort(w);
    return fail(GRPO_ENOMEM, "%s", path);
  }
  for (size_t i = 0; i < count; i++) {
    w->type[i] = entries[i].type;
    w->n[i] = 1;
    for (int d = 0; d < entries[i].ndim; d++) w->n[i] *= entries[i].dim[d];
  }
  Status s = write_header(w, path, entries, metadata);
  if (s != GRPO_OK) {
    st_writer_abort(w);
    return s;
  }
  if (count) w->left = w->n[0];
  skip_complete(w);
  *out = w;
  return GRPO_OK;
}

static Status put_half(FileWriter *f, StType type, const float *x, uint64_t n) {
  uint16_t h[2048];
  for (uint64_t at = 0; at < n;) {
    size_t k = n - at < 2048 ? (size_t)(n - at) : 2048;
    for (size_t i = 0; i < k; i++)
      h[i] = type == ST_F16 ? f32_to_f16(x[at + i]) : f32_to_bf16(x[at + i]);
    try(file_writer_put(f, h, k * sizeof *h));
    at += k;
  }
  return GRPO_OK;
}

Status st_writer_put(StWriter *w, const float *x, uint64_t n) {
  while (n) {
    if (w->cur == w->count) return fail(GRPO_EARG, "safetensors: more values than announced");
    uint64_t k = n < w->left ? n : w->left;
    StType type = w->type[w->cur];
    if (!st_type_is_float(type)) return fail(GRPO_EARG, "safetensors: values for a U8 tensor");
    if (type == ST_F32)
      try(file_writer_put(w->file, x, (size_t)k * sizeof *x));
    else
      try(put_half(w->file, type, x, k));
    x += k;
    n -= k;
    w->left -= k;
    skip_complete(w);
  }
  return GRPO_OK;
}

Status st_writer_put_bytes(StWriter *w, const void *bytes, uint64_t n) {
  if (!n) return GRPO_OK;
  if (w->cur == w->count || w->type[w->cur] != ST_U8 || n > w->left)
    return fail(GRPO_EARG, "safetensors: more bytes than announced");
  try(file_writer_put(w->file, bytes, (size_t)n));
  w->left -= n;
  skip_complete(w);
  return GRPO_OK;
}

Status st_writer_commit(StWriter *w) {
  if (w->cur != w->count) {
    st_writer_abort(w);
    return fail(GRPO_EARG, "safetensors: fewer values than announced");
  }
  FileWriter *f = w->file;
  w->file = NULL;
  st_writer_abort(w);
  return file_writer_commit(f);
}

void st_writer_abort(StWriter *w) {
  if (!w) return;
  file_writer_abort(w->file);
  mem_free(w->type);
  mem_free(w->n);
  mem_free(w);
}
