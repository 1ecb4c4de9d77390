/* weight.h - products with a weight tensor, in whatever form it is stored: float32 with packed
 * panels (panel_cache.h), float32 alone, or a QuantWeight.  Linear layers, the output projection
 * and LoRA share them.  The weight decides the precision (Tensor.compute) of forward and backward
 * alike: one graph may hold models of either kind, and an adapter stays float32 beside a bf16 base.
 *
 * w is [outputs, inputs], or [inputs, outputs] with in_out; a QuantWeight is always [outputs,
 * inputs] inside, whatever the tensor's dim says.  Rows are contiguous.
 */
#ifndef GRPO_GRAD_WEIGHT_H
#define GRPO_GRAD_WEIGHT_H

#include "base/err.h"
#include "grad/tensor.h"
#include "kern/gemm.h"

static inline int weight_outputs(const Tensor *w, bool in_out) { return w->dim[in_out ? 1 : 0]; }
static inline int weight_inputs(const Tensor *w, bool in_out) { return w->dim[in_out ? 0 : 1]; }

Compute weight_compute(const Tensor *w); /* of its products */

/* Tensor.prepared points to this: packed panels, by weight_pack() or latent_pack(). */
typedef struct Panels {
  void *forward;    /* for y = x w^T, and in bf16 for dX */
  void *transposed; /* of the transposed weight, for dX; NULL: w's rows or `forward` serve */
} Panels;

size_t weight_panel_bytes(Compute c, int n, int k); /* of the panels of a matrix [n, k] */
void weight_pack(const Ctx *cx, Compute c, int n, int k, const real *w, bool in_out, void *packed);
/* *ready is w with panels: where w has none they are made in cx's arena, so that several products
 * share them. */
Status weight_ready(const Ctx *cx, const Tensor *w, bool in_out, Tensor *ready);
/* The panels alone, of a weight that is not quantised. */
Status weight_panels(const Ctx *cx, const Tensor *w, bool in_out, void **packed);
/* y[m, outputs] = x[m, inputs] w^T + bias + low (NULL: none; LowRank in gemm.h).  Row-invariant. */
Status weight_forward(const Ctx *cx, int m, const Tensor *w, bool in_out, const real *x,
                      const real *bias, const LowRank *low, real *y);
/* dx[m, inputs] (+)= dy[m, outputs] w + low.  Row-invariant. */
Status weight_dx(const Ctx *cx, int m, const Tensor *w, bool in_out, const real *dy,
                 const LowRank *low, real *dx, bool add);
/* dw, in the weight's own layout, (+)= dy^T x, summed over the m rows. */
Status weight_dw(const Ctx *cx, int m, const Tensor *w, bool in_out, const real *dy, const real *x,
                 real *dw, bool add);

#endif
