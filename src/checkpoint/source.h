/* source.h - where a checkpoint's weights come from: named tensors whose values are read as floats.
 *
 * The loader (weights.c) knows only this interface; safetensors_source.c and the formats of
 * extensions (formats/model_format.h) implement it.  Names are Hugging Face's and rows are in its
 * order: a container that has others translates them.  Values are read piece by piece, so that a
 * checkpoint larger than memory can be quantised.
 */
#ifndef GRPO_CHECKPOINT_SOURCE_H
#define GRPO_CHECKPOINT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct StTensor StTensor;

enum { SOURCE_DIMS = 4 };

typedef enum SourceType {
  SOURCE_F32,
  SOURCE_F16,
  SOURCE_BF16,
  SOURCE_NF4,    /* as bitsandbytes packs it; its parts are in `nf4` */
  SOURCE_MXFP4,  /* as gpt-oss packs it; `nf4` has its codes (packed) and scales (absmax) */
  SOURCE_BLOCKS, /* another block format; only whole rows are read */
  SOURCE_OTHER   /* not a type of weights; it cannot be read */
} SourceType;

/* A weight [n, k] in bitsandbytes' layout, with or without double quantisation. */
typedef struct SourceNf4 {
  const StTensor *packed; /* two codes a byte, the first in the high nibble */
  /* With it: codes [blocks], and float32 [blocks / 256 rounded up]. */
  const StTensor *absmax, *scale;
  float offset;
  const StTensor *plain; /* without it: float32 [blocks]; else NULL */
} SourceNf4;

typedef struct SourceTensor {
  const char *name, *file; /* file: for messages */
  const char *type_name;   /* "BF16", "Q8_0" */
  SourceType type;
  int ndim; /* of dim, only the first SOURCE_DIMS are kept */
  uint64_t dim[SOURCE_DIMS];
  bool out_in;    /* stored [out, in] even where the family's checkpoint has [in, out] (GPT-2) */
  SourceNf4 nf4;  /* SOURCE_NF4 */
  uint64_t place; /* of the tensor in its source */
} SourceTensor;

typedef struct WeightSource WeightSource;
struct WeightSource {
  SourceTensor *tensor; /* [count] */
  size_t count;
  void *impl;
  /* Reads values from .. from + n - 1 of the flattened tensor, widened exactly.  Any thread may. */
  Status (*read)(const WeightSource *s, const SourceTensor *t, uint64_t from, uint64_t n,
                 float *out);
  void (*close)(WeightSource *s); /* frees impl; NULL: there is nothing to free */
};

void source_close(WeightSource *s); /* a zeroed one is fine */

#endif
