/* source.h - where a checkpoint's weights come from: named tensors whose values are read as floats.
 *
 * The loader (weights.c) knows only this interface; safetensors_source.c and gguf_source.c implement
 * it.  Names are Hugging Face's and rows are in its order: a container that has others translates
 * them.  Values are read piece by piece and the file's pages are given back behind the reader, so
 * that a checkpoint larger than memory can be quantised.
 */
#ifndef GRPO_CHECKPOINT_SOURCE_H
#define GRPO_CHECKPOINT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { SOURCE_DIMS = 4 };

typedef enum SourceType {
  SOURCE_F32,
  SOURCE_F16,
  SOURCE_BF16,
  SOURCE_NF4,    /* as bitsandbytes packs it: nf4 says where */
  SOURCE_BLOCKS, /* another block format: read whole rows only */
  SOURCE_OTHER   /* not a weight's type: cannot be read */
} SourceType;

/* A weight [n, k] in bitsandbytes' layout; one of scale and plain is there. */
typedef struct SourceNf4 {
  const uint8_t *packed; /* two codes a byte, the first in the high nibble */
  const uint8_t *absmax; /* [blocks] codes, with double quantisation */
  const char *scale;     /* float32 [blocks / 256 rounded up], perhaps unaligned */
  float offset;
  const char *plain; /* float32 [blocks], without; perhaps unaligned */
} SourceNf4;

typedef struct SourceTensor {
  const char *name, *file; /* file: for messages */
  const char *type_name;   /* "BF16", "Q8_0" */
  SourceType type;
  int ndim; /* of dim, only the first SOURCE_DIMS are kept */
  uint64_t dim[SOURCE_DIMS];
  bool out_in;    /* [out, in] also where the family's own checkpoint has [in, out] (GPT-2) */
  SourceNf4 nf4;  /* SOURCE_NF4 */
  uint64_t place; /* for the source itself */
} SourceTensor;

typedef struct WeightSource WeightSource;
struct WeightSource {
  SourceTensor *tensor; /* [count] */
  size_t count;
  void *impl;
  /* Values from .. from + n - 1 of the flattened tensor, widened exactly.  Any thread. */
  void (*read)(const WeightSource *s, const SourceTensor *t, uint64_t from, uint64_t n, float *out);
  /* They will not be asked for again soon.  NULL: nothing to do. */
  void (*pass)(const WeightSource *s, const SourceTensor *t, uint64_t from, uint64_t n);
  void (*close)(WeightSource *s); /* frees what it holds; NULL: nothing */
};

void source_close(WeightSource *s); /* a zeroed one is fine */

/* Elements of a tensor, from its dims. */
uint64_t source_count(const SourceTensor *t);

#endif
