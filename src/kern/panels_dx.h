/* panels_dx.h - gemm_dx from packed panels of ng groups, which are transposed in scratch memory. */
#ifndef GRPO_KERN_PANELS_DX_H
#define GRPO_KERN_PANELS_DX_H

#include "kern/gemm.h"

Status panels_dx(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *packed,
                 int ng, const LowRank *low, real *dx, int lddx, bool add);

#endif
