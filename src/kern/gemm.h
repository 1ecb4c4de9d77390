/* gemm.h - products with weights in float32: forward and dx; gemm_dw.h has dw and db.
 *
 * A weight is [n, k] (outputs, inputs), as Hugging Face's Linear stores it, or [k, n] with
 * in_out, as GPT-2's Conv1D does.  x and dx are [m, k], y and dy [m, n], with m rows of
 * activations.
 *
 * The forward product reads the weight in packed panels.  A panel is a few groups of 16 outputs,
 * stored so that the values of one inner step lie side by side: a register tile loads them in
 * order, and the CPU reads the whole panel as one stream.
 */
#ifndef GRPO_KERN_GEMM_H
#define GRPO_KERN_GEMM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "kern/kern.h"

/* Reals that the packed panels of an n x k weight take, zero-padded to whole groups.  The size
 * is the same for every class of kernels, the contents are not. */
size_t gemm_packed_size(int n, int k);
void gemm_pack(const Ctx *cx, int n, int k, const real *w, bool in_out, real *packed);

/* The product that a low-rank adapter adds, in float32: low[m, rank] up, where `up` is gemm_pack's
 * panels of the weight [columns of the product, rank].  The products named *_low add it behind the
 * bias, tile by tile while the tile is in the cache; the bits are those of gemm_forward_add
 * afterwards.  NULL: nothing is added. */
typedef struct LowRank {
  int rank;
  const real *low, *up;
} LowRank;

/* For other products: adds `low` (NULL: nothing) to y, which is the tile of rows row .. row + rows
 * - 1 and columns at .. at + cols - 1 of a product with n columns.  `at` is a multiple of GROUP. */
void low_rank_add(const KernelClass *cpu, const LowRank *low, int n, int row, int rows, int at,
                  int cols, real *y, ptrdiff_t ldy);

/* y = x w^T + bias (NULL: none).  Row-invariant for any m >= 1. */
void gemm_forward(const Ctx *cx, int m, int n, int k, const real *x, int ldx, const real *packed,
                  const real *bias, real *y, int ldy);
void gemm_forward_low(const Ctx *cx, int m, int n, int k, const real *x, int ldx,
                      const real *packed, const real *bias, const LowRank *low, real *y, int ldy);
/* y += x w^T.  Row-invariant. */
void gemm_forward_add(const Ctx *cx, int m, int n, int k, const real *x, int ldx,
                      const real *packed, real *y, int ldy);
/* y (+)= x w^T + bias + low with panels of ng groups, whatever class packed them (panels.h) */
void gemm_forward_panels(const Ctx *cx, int m, int n, int k, const real *x, int ldx,
                         const real *packed, int ng, const real *bias, const LowRank *low, real *y,
                         int ldy, bool add);

/* dx (+)= dy w from the weight as it is stored.  Row-invariant. */
Status gemm_dx(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *w,
               bool in_out, real *dx, int lddx, bool add);
Status gemm_dx_low(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *w,
                   bool in_out, const LowRank *low, real *dx, int lddx, bool add);
/* dx from packed panels of the transposed weight, gemm_pack(cx, k, n, w, !in_out, transposed):
 * the bits are those of gemm_dx. */
void gemm_dx_transposed(const Ctx *cx, int m, int n, int k, const real *dy, int lddy,
                        const real *transposed, const LowRank *low, real *dx, int lddx, bool add);

/* c[m,n] (+)= a b for small operations: a is [m, k], or [k, m] with ta; b is [k, n], or [n, k]
 * with tb. Row-invariant in m. */
void gemm_plain(const Ctx *cx, int m, int n, int k, const real *a, bool ta, const real *b, bool tb,
                real *c, bool add);

#endif
