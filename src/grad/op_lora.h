/* op_lora.h - the product of a low-rank adapter, for code that records no graph. */
#ifndef GRPO_GRAD_OP_LORA_H
#define GRPO_GRAD_OP_LORA_H

#include "grad/weight.h"
#include "kern/gemm.h"

/* The adapter of a weight, without gradients and with the bits of lora_linear:
 * low[m, r] = scale * x a^T; *up makes weight_forward add low b^T. */
Status lora_down(const Ctx *cx, int m, const Tensor *a, real scale, const real *x, real *low);
Status lora_up(const Ctx *cx, const Tensor *b, const real *low, LowRank *up);

#endif
