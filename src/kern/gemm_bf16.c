/* gemm_bf16.c - packing weights in bf16 pairs, and the products of gemm_bf16.h.
 *
 * Where the CPU multiplies bf16 the products are those of gemm_bf16_native.c; elsewhere operands
 * are rounded but stay float32, and go through gemm_quant.c and gemm_dw.c.
 */
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/pool.h"
#include "kern/gemm_bf16.h"
#include "kern/gemm_bf16_native.h"
#include "kern/gemm_dw.h"
#include "kern/gemm_quant.h"
#include "kern/panels.h"

enum {
  PACK_STEPS = 64, /* inner steps transposed at a time */
  PACK_GROUPS = 3  /* groups of a chunk */
};

/* ---- packing ---- */

size_t gemm_bf16_packed_size(int n, int k) {
  return (size_t)round_up(n, GROUP) * (size_t)round_up(k, 2);
}

typedef struct Bf16Pack {
  const KernelClass *cpu;
  int n, k;
  const real *w;
  bool in_out;
  uint16_t *packed;
} Bf16Pack;

/* `depth` inner steps from k0 of a group as reals [depth, GROUP], rows *ld apart.  Columns beyond
 * the last are zeros. */
static const real *steps_of(const Bf16Pack *j, int group, int k0, int depth, real *block,
                            ptrdiff_t *ld) {
  const int at = group * GROUP, cols = min_int(GROUP, j->n - at);
  *ld = GROUP;
  if (j->in_out) {
    const real *from = j->w + (size_t)k0 * (size_t)j->n + at;
    *ld = cols == GROUP ? j->n : GROUP;
    if (cols == GROUP) return from;
    memset(block, 0, sizeof(real) * PACK_STEPS * GROUP);
    for (int p = 0; p < depth; p++, from += j->n)
      memcpy(block + p * GROUP, from, sizeof(real) * (size_t)cols);
  } else {
    if (cols < GROUP) memset(block, 0, sizeof(real) * PACK_STEPS * GROUP);
    kernels(j->cpu)->transpose(cols, depth, j->w + (size_t)at * (size_t)j->k + k0, j->k, block,
                               GROUP);
  }
  return block;
}

static void pack_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Bf16Pack *j = arg;
  const int groups = ceil_div(j->n, GROUP), last = min_int(groups, (chunk + 1) * PACK_GROUPS);
  real block[PACK_STEPS * GROUP];
  for (int g = chunk * PACK_GROUPS; g < last; g++)
    for (int k0 = 0; k0 < j->k; k0 += PACK_STEPS) {
      const int depth = min_int(PACK_STEPS, j->k - k0);
      ptrdiff_t ld;
      const real *from = steps_of(j, g, k0, depth, block, &ld);
      kernels(j->cpu)->pair_bf16(depth, from, ld,
                                 j->packed +
                                     ((size_t)g * (size_t)round_up(j->k, 2) + (size_t)k0) * GROUP);
    }
}

void gemm_bf16_pack(const Ctx *cx, int n, int k, const real *w, bool in_out, uint16_t *packed) {
  Bf16Pack j = {cx->cpu, n, k, w, in_out, packed};
  pool_run(cx->pool, ceil_div(ceil_div(n, GROUP), PACK_GROUPS), pack_chunk, &j);
}

/* ---- products ---- */

static QuantWeight borrowed_weight(int n, int k, const uint16_t *packed) {
  return (QuantWeight){.type = QUANT_BF16, .n = n, .k = k, .data = (void *)(uintptr_t)packed};
}

Status gemm_bf16_forward(const Ctx *cx, int m, int n, int k, const real *x, int ldx,
                         const uint16_t *packed, const real *bias, real *y, int ldy) {
  return gemm_bf16_forward_low(cx, m, n, k, x, ldx, packed, bias, NULL, y, ldy);
}

Status gemm_bf16_forward_low(const Ctx *cx, int m, int n, int k, const real *x, int ldx,
                             const uint16_t *packed, const real *bias, const LowRank *low, real *y,
                             int ldy) {
  const QuantWeight w = borrowed_weight(n, k, packed);
  const Ctx in_bf16 = {
      .pool = cx->pool, .arena = cx->arena, .compute = COMPUTE_BF16, .cpu = cx->cpu};
  return quant_forward_low(&in_bf16, m, &w, x, ldx, bias, low, y, ldy);
}

Status gemm_bf16_dx(const Ctx *cx, int m, int n, int k, const real *dy, int lddy,
                    const uint16_t *packed, real *dx, int lddx, bool add) {
  return gemm_bf16_dx_low(cx, m, n, k, dy, lddy, packed, NULL, dx, lddx, add);
}

Status gemm_bf16_dx_low(const Ctx *cx, int m, int n, int k, const real *dy, int lddy,
                        const uint16_t *packed, const LowRank *low, real *dx, int lddx, bool add) {
  const QuantWeight w = borrowed_weight(n, k, packed);
  const Ctx in_bf16 = {
      .pool = cx->pool, .arena = cx->arena, .compute = COMPUTE_BF16, .cpu = cx->cpu};
  return quant_dx_low(&in_bf16, m, &w, dy, lddy, low, dx, lddx, add);
}

Status gemm_bf16_dx_transposed(const Ctx *cx, int m, int n, int k, const real *dy, int lddy,
                               const uint16_t *transposed, const LowRank *low, real *dx, int lddx,
                               bool add) {
  const QuantWeight w = borrowed_weight(k, n, transposed);
  return gemm_bf16_native_dx_transposed(cx, m, &w, dy, lddy, low, dx, lddx, add);
}

Status gemm_bf16_dw(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *x,
                    int ldx, bool in_out, real *dw, bool add) {
  if (in_out) return gemm_bf16_dw(cx, m, k, n, x, ldx, dy, lddy, false, dw, add);
  if (kernels_bf16(cx->cpu) && m > 0 && n > 0 && k > 0)
    return gemm_bf16_native_dw(cx, m, n, k, dy, lddy, x, ldx, dw, add);
  return gemm_dw_rounded(cx, m, n, k, dy, lddy, x, ldx, dw, add);
}
