/* gemm_dw.h - the gradients of a weight and of a bias; names are those of gemm.h. */
#ifndef GRPO_KERN_GEMM_DW_H
#define GRPO_KERN_GEMM_DW_H

#include <stdbool.h>

#include "base/err.h"
#include "kern/kern.h"

/* dw (in the weight's own layout) (+)= dy^T x, summed over the m rows.  In every class except
 * `blas` rows are added one by one, so that a call for some rows and a second one that adds the
 * others give the bits of one call for all. */
Status gemm_dw(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *x, int ldx,
               bool in_out, real *dw, bool add);
bool gemm_dw_packs(const Ctx *cx); /* does gemm_dw usually copy x into the arena? */
/* gemm_dw of a weight [n, k] with operands rounded to bf16 */
Status gemm_dw_rounded(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *x,
                       int ldx, real *dw, bool add);
/* db[n] (+)= the sum over rows of dy */
Status gemm_db(const Ctx *cx, int m, int n, const real *dy, int lddy, real *db, bool add);

#endif
