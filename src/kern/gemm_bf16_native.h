/* gemm_bf16_native.h - the products of gemm_quant.c and gemm_bf16.c where the CPU multiplies
 * bf16, which is where kern_bf16(cx->cpu); m > 0 and the weight is [n, k].
 */
#ifndef GRPO_KERN_GEMM_BF16_NATIVE_H
#define GRPO_KERN_GEMM_BF16_NATIVE_H

#include "kern/gemm.h"
#include "kern/quant.h"

Status gemm_bf16_native_forward(const Ctx *cx, int m, const QuantWeight *w, const real *x,
                                ptrdiff_t ldx, const real *bias, const LowRank *low, real *y,
                                ptrdiff_t ldy);
Status gemm_bf16_native_dx(const Ctx *cx, int m, const QuantWeight *w, const real *dy,
                           ptrdiff_t lddy, const LowRank *low, real *dx, ptrdiff_t lddx, bool add);
/* dx by the transposed weight [k, n], QUANT_BF16 */
Status gemm_bf16_native_dx_transposed(const Ctx *cx, int m, const QuantWeight *transposed,
                                      const real *dy, ptrdiff_t lddy, const LowRank *low, real *dx,
                                      ptrdiff_t lddx, bool add);
Status gemm_bf16_native_dw(const Ctx *cx, int m, int n, int k, const real *dy, ptrdiff_t lddy,
                           const real *x, ptrdiff_t ldx, real *dw, bool add);

#endif
