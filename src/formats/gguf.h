/* gguf.h - reading and writing of the GGUF v3 container: keys with values, and tensors.
 *
 * The reader maps the file and believes nothing: every rule of the format is
 * checked before a value is used, and a refusal names the file and the key or
 * the tensor.  Time is O(n log n) in the number of entries; memory is taken
 * only for entries whose bytes are there, at most 65,536 keys and 2^20 tensors.  Keys are printable
 * ASCII; tensor names are UTF-8 without control characters.  What keys and tensors mean is for
 * src/model and src/text.
 *
 * The writer takes the metadata first, then each tensor's values in order,
 * converted on the way; the file appears when complete.
 */
#ifndef GRPO_FORMATS_GGUF_H
#define GRPO_FORMATS_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "formats/ggml.h"
#include "os/file.h"

typedef enum GgufType {
  GGUF_U8,
  GGUF_I8,
  GGUF_U16,
  GGUF_I16,
  GGUF_U32,
  GGUF_I32,
  GGUF_F32,
  GGUF_BOOL,
  GGUF_STRING,
  GGUF_ARRAY,
  GGUF_U64,
  GGUF_I64,
  GGUF_F64,
  GGUF_NTYPES
} GgufType;

enum { GGUF_DIMS = 4, GGUF_NAME_MAX = 63, GGUF_ALIGNMENT = 32 };

typedef struct GgufValue {
  const char *key;
  GgufType type; /* of an element, when it is an array */
  bool array;
  uint64_t count;   /* of elements; 1 without array */
  const char *data; /* the first one, as in the file: unaligned */
  size_t bytes;     /* of all */
} GgufValue;

typedef struct GgufTensor {
  const char *name;
  GgmlType type;
  int ndim;
  uint64_t dim[GGUF_DIMS]; /* slowest first, as everywhere else here: a matrix is [out, in] */
  uint64_t n;              /* values */
  uint64_t begin, bytes;   /* place in the data section */
  const char *data;
} GgufTensor;

typedef struct Gguf {
  char *path;
  FileMap map;
  Arena names;      /* memory of keys and names */
  GgufValue *value; /* [nvalues], sorted by key */
  size_t nvalues;
  GgufTensor *tensor; /* [ntensors], sorted by name */
  size_t ntensors;
} Gguf;

/* A file that begins with "GGUF", or, when there is none, a name that ends in ".gguf". */
bool gguf_is(const char *path);
Status gguf_open(Gguf *out, const char *path);
void gguf_close(Gguf *g);                                       /* a zeroed one is fine */
const GgufTensor *gguf_tensor(const Gguf *g, const char *name); /* NULL: none */
/* Values from .. from + n - 1, also from the middle of a block.  Any thread. */
void gguf_read(const GgufTensor *t, uint64_t from, uint64_t n, float *out);

/* Values by key.  Absent: *out stays as it is, *found (or NULL) says so.  Of the wrong type,
 * outside the range, not finite: EFORMAT, naming file and key. */
const GgufValue *gguf_find(const Gguf *g, const char *key); /* NULL: none */
Status gguf_get_int(const Gguf *g, const char *key, int64_t lo, int64_t hi, int64_t *out,
                    bool *found);
Status gguf_get_number(const Gguf *g, const char *key, double *out, bool *found);
Status gguf_get_bool(const Gguf *g, const char *key, bool *out, bool *found);
/* Not NUL-terminated; valid UTF-8 without NUL. */
Status gguf_get_string(const Gguf *g, const char *key, const char **out, size_t *n, bool *found);
/* An array of these elements, or NULL when absent. */
Status gguf_get_array(const Gguf *g, const char *key, GgufType element, const GgufValue **out);
/* Strings of an array one after the other: start with *at = value->data. */
void gguf_next_string(const char **at, const char **s, size_t *n);
int64_t gguf_int_at(const GgufValue *v, uint64_t i);   /* an integer type or bool */
double gguf_number_at(const GgufValue *v, uint64_t i); /* any type but strings */

/* ---- writing ------------------------------------------------------------------------ */

/* Keys and values as they will be in the file; check buf_status(&m->bytes) at the end. */
typedef struct GgufMeta {
  Buf bytes;
  uint64_t count;
} GgufMeta;

void gguf_put_u32(GgufMeta *m, const char *key, uint32_t v);
void gguf_put_f32(GgufMeta *m, const char *key, float v);
void gguf_put_f64(GgufMeta *m, const char *key, double v);
void gguf_put_bool(GgufMeta *m, const char *key, bool v);
void gguf_put_string(GgufMeta *m, const char *key, const char *s, size_t n);
/* An array; its elements must follow, `count` of them. */
void gguf_put_array(GgufMeta *m, const char *key, GgufType element, uint64_t count);
void gguf_element_string(GgufMeta *m, const char *s, size_t n);
void gguf_element_i32(GgufMeta *m, int32_t v);
void gguf_element_f32(GgufMeta *m, float v);
void gguf_meta_free(GgufMeta *m);

typedef struct GgufEntry {
  char name[GGUF_NAME_MAX + 1];
  GgmlType type;
  int ndim;
  uint64_t dim[GGUF_DIMS]; /* slowest first; the last a multiple of the type's block */
} GgufEntry;

typedef struct GgufWriter GgufWriter;
Status gguf_writer_open(GgufWriter **out, const char *path, const GgufMeta *meta, size_t count,
                        const GgufEntry *entries);
/* The next n values of the current tensor, whole blocks; goes on to the next one by itself. */
Status gguf_writer_put(GgufWriter *w, const float *x, uint64_t n);
Status
gguf_writer_commit(GgufWriter *w);     /* frees w, also on failure; EARG when values are missing */
void gguf_writer_abort(GgufWriter *w); /* NULL is fine */

#endif
