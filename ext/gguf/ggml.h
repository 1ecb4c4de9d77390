/* ggml.h - converts the tensor types of GGUF files to and from float.
 *
 * A block is a fixed number of neighbouring values of a row and takes a fixed number of bytes; the
 * blocks of F32, F16 and BF16 have one value.  Blocks may be unaligned.
 */
#ifndef GRPO_GGUF_GGML_H
#define GRPO_GGUF_GGML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef enum GgmlType {
#define TYPE(name, number, values, bytes) GGML_##name,
#include "gguf/ggml.def"
#undef TYPE
  GGML_COUNT
} GgmlType;

enum { GGML_MAX_BLOCK = 256 /* values */ };

const char *ggml_name(GgmlType t);              /* "Q8_0" */
uint32_t ggml_number(GgmlType t);               /* in files */
bool ggml_find(uint32_t number, GgmlType *out); /* false: no such type */
int ggml_block_values(GgmlType t);
size_t ggml_block_bytes(GgmlType t);
bool ggml_is_read(GgmlType t);    /* the next, and Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K */
bool ggml_is_written(GgmlType t); /* F32 F16 BF16 Q8_0 Q4_0 MXFP4 */

/* Converts n values, which are whole blocks, to the same bits as ggml's own float code. */
void ggml_decode(GgmlType t, const void *blocks, size_t n, float *out);
/* Converts from float; F16 and BF16 round to nearest.  EARG: a block format cannot hold a value,
 * because it is not finite or its scale overflows half precision. */
Status ggml_encode(GgmlType t, const float *x, size_t n, void *out);

#endif
