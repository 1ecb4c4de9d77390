/* gguf_write.h - writes GGUF v3 files.
 *
 * The metadata comes first, then each tensor's values in order, which are converted on the way.
 * The file appears under its name when it is complete.
 */
#ifndef GRPO_GGUF_WRITE_H
#define GRPO_GGUF_WRITE_H

#include "gguf/gguf.h"

/* Keys and values, encoded as in the file; check buf_status(&m->bytes) at the end. */
typedef struct GgufMeta {
  Buf bytes;
  uint64_t count;
} GgufMeta;

void gguf_put_u32(GgufMeta *m, const char *key, uint32_t v);
void gguf_put_f32(GgufMeta *m, const char *key, float v);
void gguf_put_f64(GgufMeta *m, const char *key, double v);
void gguf_put_bool(GgufMeta *m, const char *key, bool v);
void gguf_put_string(GgufMeta *m, const char *key, const char *s, size_t n);
/* Begins an array; `count` elements must follow. */
void gguf_put_array(GgufMeta *m, const char *key, GgufType element, uint64_t count);
void gguf_element_string(GgufMeta *m, const char *s, size_t n);
void gguf_element_i32(GgufMeta *m, int32_t v);
void gguf_element_bool(GgufMeta *m, bool v);
void gguf_element_f32(GgufMeta *m, float v);
void gguf_meta_free(GgufMeta *m);

typedef struct GgufEntry {
  char name[GGUF_NAME_MAX + 1];
  GgmlType type;
  int ndim;
  uint64_t dim[GGUF_DIMS]; /* slowest first; the last is a multiple of the type's block */
} GgufEntry;

typedef struct GgufWriter GgufWriter;
Status gguf_writer_open(GgufWriter **out, const char *path, const GgufMeta *meta, size_t count,
                        const GgufEntry *entries);
/* Writes the next n values, which are whole blocks; after the last value of a tensor the next
 * tensor begins. */
Status gguf_writer_put(GgufWriter *w, const float *x, uint64_t n);
Status gguf_writer_commit(GgufWriter *w); /* frees w, also on failure; EARG: values are missing */
void gguf_writer_abort(GgufWriter *w);    /* NULL is fine */

#endif
