/* gemm_quant.h - products with quantised weights. */
#ifndef GRPO_KERN_GEMM_QUANT_H
#define GRPO_KERN_GEMM_QUANT_H

#include "kern/gemm.h"
#include "kern/quant.h"

/* gemm_forward and gemm_dx with a quantised weight, row-invariant both.  With cx->compute =
 * COMPUTE_BF16 they are gemm_bf16_forward and gemm_bf16_dx: unpacked values are rounded to bf16,
 * whatever the type and the number of rows.
 *
 * What bf16 gains on a CPU that multiplies it (`bench/kernels 1 0.05 weights`): twice the speed of
 * float32 from some tens of rows on, for every type; at 8 rows 1.3 to 1.8 times; a single row of
 * int8 or NF4 takes up to 1.3 times as long. */
Status quant_forward(const Ctx *cx, int m, const QuantWeight *w, const real *x, int ldx,
                     const real *bias, real *y, int ldy);
Status quant_dx(const Ctx *cx, int m, const QuantWeight *w, const real *dy, int lddy, real *dx,
                int lddx, bool add);
Status quant_forward_low(const Ctx *cx, int m, const QuantWeight *w, const real *x, int ldx,
                         const real *bias, const LowRank *low, real *y, int ldy);
Status quant_dx_low(const Ctx *cx, int m, const QuantWeight *w, const real *dy, int lddy,
                    const LowRank *low, real *dx, int lddx, bool add);

#endif
