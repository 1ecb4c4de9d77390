/* gemm_bf16_native.h - products in bf16 by Kernels16, which is there; m > 0.  As matrix_forward, matrix_dx
 * (quant.h) and gemm16_dw (kern.h), of a weight [n, k].
 */
#ifndef GRPO_KERN_GEMM_BF16_NATIVE_H
#define GRPO_KERN_GEMM_BF16_NATIVE_H

#include "kern/kern.h"
#include "kern/quant.h"

Status product16_forward(const Ctx *cx, int m, const Matrix *w, const real *x, ptrdiff_t ldx,
                         const real *bias, const LowRank *low, real *y, ptrdiff_t ldy);
Status product16_dx(const Ctx *cx, int m, const Matrix *w, const real *dy, ptrdiff_t lddy,
                    const LowRank *low, real *dx, ptrdiff_t lddx, bool add);
/* dx by the transposed weight [k, n], MAT_BF16 */
Status product16_dx_turned(const Ctx *cx, int m, const Matrix *turned, const real *dy,
                           ptrdiff_t lddy, const LowRank *low, real *dx, ptrdiff_t lddx, bool add);
Status product16_dw(const Ctx *cx, int m, int n, int k, const real *dy, ptrdiff_t lddy,
                    const real *x, ptrdiff_t ldx, real *dw, bool add);

#endif
