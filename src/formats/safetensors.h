/* safetensors.h - reads and writes the safetensors format.
 *
 * A file is a length, a JSON header and the tensors' bytes.  The reader treats it as untrusted
 * input: every rule of the format is checked before a byte of data is used, and a refusal names the
 * file and the tensor.  Time is O(n log n) in the number of tensors.  Data is read when it is asked
 * for; EFORMAT: the file was cut since it was opened.
 *
 * The writer takes names, types and shapes first, then each tensor's values in the same order,
 * which are converted on the way.  The file appears under its name when it is complete.
 */
#ifndef GRPO_FORMATS_SAFETENSORS_H
#define GRPO_FORMATS_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "formats/json.h"
#include "os/file.h"

typedef enum StType {
#define TYPE(name, bits) ST_##name,
#include "formats/safetensors.def"
#undef TYPE
  ST_COUNT
} StType;

enum { ST_DIMS = 4 };

typedef struct StTensor StTensor;
struct StTensor {
  const char *name;
  StType type;
  int ndim; /* may exceed ST_DIMS: dim holds the first ST_DIMS dimensions */
  uint64_t dim[ST_DIMS];
  uint64_t n, begin, end; /* elements; bytes begin .. end - 1 of the data */
  const FileInput *file;
  uint64_t at; /* byte of the file where its data begins */
};

typedef struct Safetensors {
  char *path;
  FileInput *file;
  Json *header;     /* owns the names */
  StTensor *tensor; /* [count], sorted by name */
  size_t count;
} Safetensors;

Status safetensors_open(Safetensors *out, const char *path);
void safetensors_close(Safetensors *s);                                   /* a zeroed one is fine */
const StTensor *safetensors_find(const Safetensors *s, const char *name); /* NULL: none */
const char *safetensors_metadata(const Safetensors *s, const char *key);  /* NULL: none */
/* Finds the tensor `name`, which must be of this type and of shape dim[0..ndim - 1]; EFORMAT
 * otherwise. */
Status safetensors_shaped(const Safetensors *s, const char *name, StType type, int ndim,
                          const int *dim, const StTensor **out);
/* The metadata "step" of a file of training state, a whole number. */
Status safetensors_steps(const Safetensors *s, uint64_t *out);
const char *st_type_name(StType t); /* "BF16" */
bool st_type_is_float(StType t);    /* F32, F16 or BF16, the types of st_read() */
/* Reads values from .. from + n - 1, widened exactly.  Any thread may. */
Status st_read(const StTensor *t, uint64_t from, uint64_t n, float *out);
/* Reads n bytes from byte `from` of its data on, as they are. */
Status st_read_bytes(const StTensor *t, uint64_t from, uint64_t n, void *out);

typedef struct StWriter StWriter;
typedef struct StEntry {
  const char *name;
  StType type; /* F32, F16, BF16, or U8 with st_writer_put_bytes() */
  int ndim;
  uint64_t dim[ST_DIMS];
} StEntry;

/* metadata (may be NULL): key, value, key, value ..., NULL; "format": "pt" is added. */
Status st_writer_open(StWriter **out, const char *path, size_t count, const StEntry *entries,
                      const char *const *metadata);
/* Writes the next n values; after the last value of a tensor the next tensor begins. */
Status st_writer_put(StWriter *w, const float *x, uint64_t n);
/* Writes the next n bytes of a U8 tensor. */
Status st_writer_put_bytes(StWriter *w, const void *bytes, uint64_t n);
Status st_writer_commit(StWriter *w); /* frees w, also on failure; EARG: values are missing */
void st_writer_abort(StWriter *w);    /* NULL is fine */

#endif
