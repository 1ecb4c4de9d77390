#include "gguf/gguf_write.h"

#include <string.h>

#include "base/mem.h"

/* ---- metadata ------------------------------------------------------------------------ */

static void put_little(Buf *b, uint64_t v, int n) {
  for (int i = 0; i < n; i++) buf_putc(b, (char)(v >> 8 * i & 255));
}

static void put_string(Buf *b, const char *s, size_t n) {
  put_little(b, n, 8);
  buf_put(b, s, n);
}

static void put_key(GgufMeta *m, const char *key, GgufType type) {
  put_string(&m->bytes, key, strlen(key));
  put_little(&m->bytes, type, 4);
  m->count++;
}

void gguf_put_u32(GgufMeta *m, const char *key, uint32_t v) {
  put_key(m, key, GGUF_U32);
  put_little(&m->bytes, v, 4);
}

void gguf_put_f32(GgufMeta *m, const char *key, float v) {
  put_key(m, key, GGUF_F32);
  gguf_element_f32(m, v);
}

void gguf_put_f64(GgufMeta *m, const char *key, double v) {
  uint64_t u;
  memcpy(&u, &v, sizeof u);
  put_key(m, key, GGUF_F64);
  put_little(&m->bytes, u, 8);
}

void gguf_put_bool(GgufMeta *m, const char *key, bool v) {
  put_key(m, key, GGUF_BOOL);
  put_little(&m->bytes, v, 1);
}

void gguf_put_string(GgufMeta *m, const char *key, const char *s, size_t n) {
  put_key(m, key, GGUF_STRING);
  put_string(&m->bytes, s, n);
}

void gguf_put_array(GgufMeta *m, const char *key, GgufType element, uint64_t count) {
  put_key(m, key, GGUF_ARRAY);
  put_little(&m->bytes, element, 4);
  put_little(&m->bytes, count, 8);
}

void gguf_element_string(GgufMeta *m, const char *s, size_t n) { put_string(&m->bytes, s, n); }
void gguf_element_i32(GgufMeta *m, int32_t v) { put_little(&m->bytes, (uint32_t)v, 4); }
void gguf_element_bool(GgufMeta *m, bool v) { put_little(&m->bytes, v, 1); }
void gguf_element_f32(GgufMeta *m, float v) {
  uint32_t u;
  memcpy(&u, &v, sizeof u);
  put_little(&m->bytes, u, 4);
}

void gguf_meta_free(GgufMeta *m) {
  buf_free(&m->bytes);
  *m = (GgufMeta){0};
}

/* ---- tensors ---------------------------------------------------------------------------- */

struct GgufWriter {
  FileWriter *file;
  GgufEntry *entry; /* [count] */
  size_t count, cur;
  uint64_t left; /* values of the current tensor that are still missing */
};

static uint64_t values_of(const GgufEntry *e) {
  uint64_t n = 1;
  for (int d = 0; d < e->ndim; d++) n *= e->dim[d];
  return n;
}

static uint64_t bytes_of(const GgufEntry *e) {
  return values_of(e) / (uint64_t)ggml_block_values(e->type) * ggml_block_bytes(e->type);
}

static uint64_t padded(uint64_t n) {
  return (n + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
}

static Status put_header(FileWriter *f, const GgufMeta *meta, size_t count, const GgufEntry *e) {
  Buf b = {0};
  uint64_t at = 0;
  buf_puts(&b, "GGUF");
  put_little(&b, 3, 4);
  put_little(&b, count, 8);
  put_little(&b, meta->count, 8);
  buf_put(&b, meta->bytes.data, meta->bytes.len);
  for (size_t i = 0; i < count; i++) {
    put_string(&b, e[i].name, strlen(e[i].name));
    put_little(&b, (uint64_t)e[i].ndim, 4);
    for (int d = e[i].ndim; d-- > 0;) put_little(&b, e[i].dim[d], 8);
    put_little(&b, ggml_number(e[i].type), 4);
    put_little(&b, at, 8);
    at += padded(bytes_of(&e[i]));
  }
  while (b.len % GGUF_ALIGNMENT && !b.oom) buf_putc(&b, 0);
  Status s = buf_status(&b);
  if (s == GRPO_OK) s = file_writer_put(f, b.data, b.len);
  buf_free(&b);
  return s;
}

static Status check_entries(const char *path, size_t count, const GgufEntry *e) {
  for (size_t i = 0; i < count; i++) {
    const bool shape = e[i].ndim >= 1 && e[i].ndim <= GGUF_DIMS && values_of(&e[i]) > 0;
    if (!shape || !ggml_is_written(e[i].type) ||
        e[i].dim[e[i].ndim - 1] % (uint64_t)ggml_block_values(e[i].type))
      return fail(GRPO_EARG, "%s: tensor '%s' cannot be written as %s", path, e[i].name,
                  ggml_name(e[i].type));
  }
  return GRPO_OK;
}

Status gguf_writer_open(GgufWriter **out, const char *path, const GgufMeta *meta, size_t count,
                        const GgufEntry *entries) {
  try(buf_status(&meta->bytes));
  try(check_entries(path, count, entries));
  GgufWriter *w = mem_zalloc(sizeof *w);
  if (w) w->entry = mem_alloc((count ? count : 1) * sizeof *w->entry);
  if (!w || !w->entry) {
    mem_free(w);
    return fail(GRPO_ENOMEM, "%s", path);
  }
  if (count) memcpy(w->entry, entries, count * sizeof *entries);
  w->count = count;
  if (count) w->left = values_of(entries);
  Status s = file_writer_open(&w->file, path);
  if (s == GRPO_OK) s = put_header(w->file, meta, count, entries);
  if (s != GRPO_OK) {
    gguf_writer_abort(w);
    return s;
  }
  *out = w;
  return GRPO_OK;
}

static Status put_values(GgufWriter *w, const float *x, uint64_t n) {
  enum { PIECE = 2048 };
  uint8_t bytes[PIECE * sizeof(float)];
  const GgmlType type = w->entry[w->cur].type;
  const uint64_t values = (uint64_t)ggml_block_values(type);
  if (n % values)
    return fail(GRPO_EINTERNAL, "gguf: %llu values are not whole blocks", (unsigned long long)n);
  while (n) {
    const size_t k = n < PIECE ? (size_t)n : PIECE;
    Status s = ggml_encode(type, x, k, bytes);
    if (s != GRPO_OK) return err_context(s, "tensor '%s'", w->entry[w->cur].name);
    try(file_writer_put(w->file, bytes, k / values * ggml_block_bytes(type)));
    x += k;
    n -= k;
  }
  return GRPO_OK;
}

/* Moves on from a complete tensor and writes its padding. */
static Status next_tensor(GgufWriter *w) {
  static const char zeros[GGUF_ALIGNMENT];
  const uint64_t bytes = bytes_of(&w->entry[w->cur]);
  try(file_writer_put(w->file, zeros, (size_t)(padded(bytes) - bytes)));
  if (++w->cur < w->count) w->left = values_of(&w->entry[w->cur]);
  return GRPO_OK;
}

Status gguf_writer_put(GgufWriter *w, const float *x, uint64_t n) {
  while (n) {
    if (w->cur == w->count) return fail(GRPO_EARG, "gguf: more values than announced");
    const uint64_t k = n < w->left ? n : w->left;
    try(put_values(w, x, k));
    x += k;
    n -= k;
    w->left -= k;
    if (!w->left) try(next_tensor(w));
  }
  return GRPO_OK;
}

Status gguf_writer_commit(GgufWriter *w) {
  if (w->cur != w->count) {
    gguf_writer_abort(w);
    return fail(GRPO_EARG, "gguf: fewer values than announced");
  }
  FileWriter *f = w->file;
  w->file = NULL;
  gguf_writer_abort(w);
  return file_writer_commit(f);
}

void gguf_writer_abort(GgufWriter *w) {
  if (!w) return;
  file_writer_abort(w->file);
  mem_free(w->entry);
  mem_free(w);
}
