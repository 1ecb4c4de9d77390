/* quant.h - a frozen weight [n, k] (outputs, inputs) that is kept as bf16, f16, int8, NF4 or packed
 * float32; gemm_quant.h has products with it.
 *
 * Values are stored once, in groups of GROUP outputs: element (i, p) has the index
 *   (i / GROUP * k + p) * GROUP + i % GROUP
 * so a product walks memory in order and no second, packed copy exists.  Three types differ:
 * float32 has gemm_pack's panels (panels.h); bf16 has gemm_bf16_pack's pairs; NF4 packs 8 inner
 * steps of a group into a cell of GROUP 32-bit numbers, one for each output, with k rounded up
 * to whole cells.
 *
 * Products unpack a block at a time and run the register tile of gemm_forward, so that equal
 * values give equal bits.
 *
 *   QUANT_F32, QUANT_BF16, QUANT_F16   the value
 *   QUANT_INT8   q * scale[i], one scale per output: max |w| / 127, q rounded half away from zero
 *   QUANT_NF4    bitsandbytes' NF4 with double quantisation: blocks of 64 along the flattened
 *                [n, k]; code * (absmax_map[absmax[block]] * absmax_scale[block / 256] + offset)
 *
 * A QuantWeight owns its memory, except after quant_pack_in_place.  It is filled by rows
 * (outputs) in ascending order: a checkpoint is converted while it is read, and the
 * full-precision weight never exists.
 */
#ifndef GRPO_KERN_QUANT_H
#define GRPO_KERN_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kern/kern.h"
#include "kern/quant_type.h"

typedef struct QuantWeight {
  QuantType type;
  int n, k;
  void *data;          /* in groups; the last one is padded with zeros */
  int ng;              /* QUANT_F32: groups a panel */
  bool borrowed;       /* data is somebody else's (quant_pack_in_place) */
  float *scale;        /* QUANT_INT8: [n]; QUANT_NF4: [ceil(blocks / NF4_NEST)] absmax_scale */
  uint8_t *absmax;     /* QUANT_NF4: [blocks] codes of absmax_map */
  float offset;        /* QUANT_NF4 */
  float *plain_absmax; /* QUANT_NF4 [blocks], until quant_done; kept without double quantisation;
                          else NULL */
} QuantWeight;

size_t quant_bytes(QuantType type, int n, int k); /* that quant_new takes and keeps */
size_t quant_data_bytes(const QuantWeight *m);    /* of m->data */
Status quant_new(QuantWeight **out, QuantType type, int n, int k); /* zeros */
void quant_free(QuantWeight *m);                                   /* NULL is fine */
static inline size_t quant_nf4_blocks(int n, int k) {
  return ((size_t)n * (size_t)k + NF4_BLOCK - 1) / NF4_BLOCK;
}

/* Stores rows row .. row + rows - 1 from w [rows, k].  `row` is a multiple of 64, and so is `rows`
 * unless they are the last.  After the last, quant_done is called once; it quantises the scales of
 * NF4.  EFORMAT: NF4 has no code for a value that is not finite; in the other types it, or its row,
 * stays not finite. */
Status quant_put(const Ctx *cx, QuantWeight *m, int row, int rows, const float *w);
Status quant_done(const Ctx *cx, QuantWeight *m);
/* Makes a QUANT_F32 from the weight w [n, k] in place: its values are moved within that memory,
 * which stays its owner's and has room for whole groups of rows.  quant_unpack_in_place makes them
 * rows again and frees the QuantWeight.  On failure nothing has changed. */
Status quant_pack_in_place(const Ctx *cx, QuantWeight **out, int n, int k, float *w);
Status quant_unpack_in_place(const Ctx *cx, QuantWeight *m);
/* Unpacks rows row .. row + rows - 1 exactly: out [rows, k]. */
void quant_get(const Ctx *cx, const QuantWeight *m, int row, int rows, real *out);
/* out[t] = row ids[t]: [count, k].  ids are in range. */
void quant_gather(const Ctx *cx, const QuantWeight *m, int count, const int32_t *ids, real *out);
/* Unpacks inner steps at .. at + depth - 1 of a group of outputs: out [depth, GROUP].  NF4: `at` is
 * a multiple of 8, and out has room for depth rounded up to one.  bf16: `at` is even. */
void quant_unpack(const KernelClass *cpu, const QuantWeight *m, int group, int at, int depth,
                  real *out);
/* For products.  quant_scales fills scale[b * ld + i] with the scale of output i of a group (0
 * beyond the last output) for inner steps at + 64 b .., b < blocks; `at` is a multiple of 64; INT8:
 * all blocks are alike.  quant_values returns where a step's values are; quant_steps does so for
 * QUANT_F32, whose steps are *ld apart.  quant_stride returns the distance from one group to the
 * next in elements, for NF4 in 32-bit numbers. */
void quant_scales(const KernelClass *cpu, const QuantWeight *m, int group, int at, int blocks,
                  real *scale, ptrdiff_t ld);
void quant_fetch_scales(const QuantWeight *m, int group, int groups); /* prefetches some groups' */
const void *quant_values(const QuantWeight *m, int group, int at);
const float *quant_steps(const QuantWeight *m, int group, int at, ptrdiff_t *ld);
ptrdiff_t quant_stride(const QuantWeight *m); /* see above */

/* NF4 in bitsandbytes' layout.  packed has n * k / 2 bytes, rounded up, over the flattened [n, k]:
 * two codes per byte, the first in the high nibble, and a lone last code beside a zero's.  absmax,
 * absmax_scale and offset are as above.  Importing checks nothing: the caller has checked sizes. */
void quant_nf4_export(const QuantWeight *m, uint8_t *packed);
void quant_nf4_import(QuantWeight *m, const uint8_t *packed, const uint8_t *absmax,
                      const float *scale, float offset);
/* Imports NF4 without double quantisation into a new weight, which keeps its plain_absmax.
 * quant_done is not called, because it would quantise them. */
void quant_nf4_import_plain(QuantWeight *m, const uint8_t *packed, const float *plain_absmax);

#endif
