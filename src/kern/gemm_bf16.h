/* gemm_bf16.h - the products of gemm.h in bf16.
 *
 * Both operands are rounded to bf16 and summed in float; NaN stays NaN, and a CPU that
 * multiplies bf16 by itself takes subnormals as zero.  The products keep the promises of kern.h,
 * and give the same bits as quant_forward and quant_dx (quant.h) with the same values.
 * cx->compute is not looked at.  In the double twin only the weights are rounded.
 *
 * A weight is packed in bf16 pairs: one 32-bit number holds two consecutive inner steps of an
 * output, the first in its low half, because that is what the instructions of CPUs multiply.
 * Value (i, p) of the weight [n, k] has the index
 *   ((i / 16 * ceil(k / 2) + p / 2) * 16 + i % 16) * 2 + p % 2
 * in every class of kernels; the padding is zero.
 */
#ifndef GRPO_KERN_GEMM_BF16_H
#define GRPO_KERN_GEMM_BF16_H

#include <stdint.h>

#include "kern/gemm.h"

size_t gemm_bf16_packed_size(int n, int k); /* values of a packed weight */
void gemm_bf16_pack(const Ctx *cx, int n, int k, const real *w, bool in_out, uint16_t *packed);
/* y[m,n] = x[m,k] w^T + bias (NULL: none) */
Status gemm_bf16_forward(const Ctx *cx, int m, int n, int k, const real *x, int ldx,
                         const uint16_t *packed, const real *bias, real *y, int ldy);
/* dx[m,k] (+)= dy[m,n] w */
Status gemm_bf16_dx(const Ctx *cx, int m, int n, int k, const real *dy, int lddy,
                    const uint16_t *packed, real *dx, int lddx, bool add);
Status gemm_bf16_forward_low(const Ctx *cx, int m, int n, int k, const real *x, int ldx,
                             const uint16_t *packed, const real *bias, const LowRank *low, real *y,
                             int ldy);
Status gemm_bf16_dx_low(const Ctx *cx, int m, int n, int k, const real *dy, int lddy,
                        const uint16_t *packed, const LowRank *low, real *dx, int lddx, bool add);
/* dx from the transposed weight, gemm_bf16_pack(cx, k, n, w, !in_out, transposed): the bits are
 * those of gemm_bf16_dx.  Only where kern_bf16(cx->cpu). */
Status gemm_bf16_dx_transposed(const Ctx *cx, int m, int n, int k, const real *dy, int lddy,
                               const uint16_t *transposed, const LowRank *low, real *dx, int lddx,
                               bool add);
/* dw (in the weight's own layout) (+)= dy^T x, summed over the m rows */
Status gemm_bf16_dw(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *x,
                    int ldx, bool in_out, real *dw, bool add);

#endif
