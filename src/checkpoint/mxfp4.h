/* mxfp4.h - weights of experts as gpt-oss publishes them: blocks of 32 numbers of 4 bits with one
 * scale (OCP Microscaling Formats, MXFP4).
 *
 * X [experts, n, k] is stored as X_blocks (U8 [experts, n, k / 32, 16], two codes a byte, the first
 * in the low nibble) beside X_scales (U8 [experts, n, k / 32]): a value is that of its code (sign,
 * two bits of exponent, one of mantissa) times 2^(scale - 127).
 */
#ifndef GRPO_CHECKPOINT_MXFP4_H
#define GRPO_CHECKPOINT_MXFP4_H

#include "checkpoint/source.h"
#include "formats/safetensors.h"

/* Which part of a weight a tensor of this name is, if it is one. */
typedef enum Mxfp4Part { MXFP4_NONE, MXFP4_BLOCKS, MXFP4_SCALES } Mxfp4Part;
Mxfp4Part mxfp4_part(const char *name);
/* The name of the weight, or of its scales, from that of its blocks: out [cap] */
Status mxfp4_name(const char *blocks, const char *end, char *out, size_t cap);
/* Fills type, ndim, dim and nf4 of *out; EFORMAT unless the two fit together.  scales may be
 * NULL. */
Status mxfp4_describe(const StTensor *blocks, const StTensor *scales, SourceTensor *out);
/* Reads values from .. from + n - 1 of the flattened weight. */
Status mxfp4_read(const SourceTensor *t, uint64_t from, uint64_t n, float *out);

#endif
