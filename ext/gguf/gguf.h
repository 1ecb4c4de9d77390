/* gguf.h - reads the GGUF v3 container: keys with values, and tensors.
 *
 * The file is untrusted input: every rule of the format is checked before a value is used, and a
 * refusal names the file and the key or tensor.  Time is O(n log n) in the number of entries.
 * Memory is taken only for entries whose bytes are in the file, at most 65,536 keys and 2^20
 * tensors; the header is kept.  The bytes of tensors are read when they are asked for.  Keys are
 * printable ASCII; tensor names are UTF-8 without control characters.  The meaning of keys and
 * tensors is left to src/text, src/model and src/checkpoint.
 */
#ifndef GRPO_GGUF_H
#define GRPO_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "gguf/ggml.h"
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
  GgufType type; /* an array's is that of its elements */
  bool array;
  uint64_t count;   /* elements; 1 if it is not an array */
  const char *data; /* the first element, unaligned */
  size_t bytes;     /* of all elements */
} GgufValue;

typedef struct GgufTensor {
  const char *name;
  GgmlType type;
  int ndim;
  uint64_t dim[GGUF_DIMS]; /* slowest first, unlike the file: a linear weight is [out, in] */
  uint64_t n;              /* values */
  uint64_t begin, bytes;   /* in the data section */
  const FileInput *file;
  uint64_t at; /* byte of the file where its data begins */
} GgufTensor;

typedef struct Gguf {
  char *path;
  FileInput *file;
  char *header;     /* the file's bytes before the tensors' data, which values point into */
  Arena names;      /* memory of keys and names */
  GgufValue *value; /* [nvalues], sorted by key */
  size_t nvalues;
  GgufTensor *tensor; /* [ntensors], sorted by name */
  size_t ntensors;
} Gguf;

/* True if the file begins with "GGUF", or if there is no file and the path ends in ".gguf". */
bool gguf_is(const char *path);
Status gguf_open(Gguf *out, const char *path);
void gguf_close(Gguf *g);                                       /* a zeroed one is fine */
const GgufTensor *gguf_tensor(const Gguf *g, const char *name); /* NULL: none */
/* Reads values from .. from + n - 1, which may begin inside a block.  Any thread may call it.
 * EFORMAT: the file was cut since it was opened. */
Status gguf_read(const GgufTensor *t, uint64_t from, uint64_t n, float *out);

/* Values by key.  If the key is absent, *out stays as it is and *found (unless NULL) is false.  A
 * value of the wrong type, outside the range or not finite is EFORMAT, naming file and key. */
const GgufValue *gguf_find(const Gguf *g, const char *key); /* NULL: none */
Status gguf_get_int(const Gguf *g, const char *key, int64_t lo, int64_t hi, int64_t *out,
                    bool *found);
Status gguf_get_number(const Gguf *g, const char *key, double *out, bool *found);
Status gguf_get_bool(const Gguf *g, const char *key, bool *out, bool *found);
/* Not NUL-terminated; valid UTF-8 without NUL. */
Status gguf_get_string(const Gguf *g, const char *key, const char **out, size_t *n, bool *found);
/* An array of elements of this type; NULL if it is absent. */
Status gguf_get_array(const Gguf *g, const char *key, GgufType element, const GgufValue **out);
/* Reads an array's strings one after the other, from *at = value->data. */
void gguf_next_string(const char **at, const char **s, size_t *n);
int64_t gguf_int_at(const GgufValue *v, uint64_t i);   /* an integer type or bool */
double gguf_number_at(const GgufValue *v, uint64_t i); /* any type but strings */

#endif
