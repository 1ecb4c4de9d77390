/* panels.h - float32 weights [n, k] (outputs, inputs) in panels, as gemm_pack leaves them: `ng`
 * groups of GROUP outputs together, so many as the register tile of the path that packed them
 * has.  Element (i, p) of a panel that begins with output o and is `width` outputs wide: o k + p
 * width + i - o. Every path can multiply with panels of any ng, and gives the same bits as with
 * its own.
 */
#ifndef GRPO_KERN_PANELS_H
#define GRPO_KERN_PANELS_H

#include "kern/kernels.h"

/* never a lone last group behind panels of 3 and more */
static inline int panels_of(int n, int ng) { return ceil_div(ceil_div(n, GROUP), ng); }

/* the first group of panel p; of the one behind the last: the number of groups */
static inline int panels_first(int n, int ng, int p) {
  const int groups = ceil_div(n, GROUP), start = p * ng;
  if (start >= groups) return groups;
  return ng > 2 && groups > ng && start == groups - 1 ? start - 1 : start;
}

/* of this path's panels: how many they are, and the first group of one */
static inline int own_panels(int n) { return panels_of(n, kernels()->ng); }
static inline int own_panel_first(int n, int p) { return panels_first(n, kernels()->ng, p); }

/* the panel that a group is in */
static inline int panels_with(int n, int ng, int group) {
  const int p = group / ng;
  return group < panels_first(n, ng, p + 1) ? p : p + 1;
}

/* As gemm_forward, and as gemm_dx without the weight in rows: panels are transposed in scratch
 * memory. */
void panels_forward(const Ctx *cx, int m, int n, int k, const real *x, int ldx, const real *packed,
                    int ng, const real *bias, const LowRank *low, real *y, int ldy);
Status panels_dx(const Ctx *cx, int m, int n, int k, const real *dy, int lddy, const real *packed,
                 int ng, const LowRank *low, real *dx, int lddx, bool add);

/* Panels of this path, of w(p, j) = w[p ps + j cs], p < k, j < n: ps or cs is 1.  round: to bf16 */
void panels_pack(const Ctx *cx, int n, int k, const real *w, ptrdiff_t ps, ptrdiff_t cs, bool round,
                 real *packed);

/* Rows at this distance that can be in the cache at once: only so many fall into one set. */
int rows_cached(ptrdiff_t ld);
/* Can rows of n columns be read where they are, in place of panels? */
bool rows_readable(int n, ptrdiff_t ld);
/* Is a tile so narrow that of each row it would read one line?  Panels are faster, once they are
 * made. */
bool reads_lines(void);

/* As gemm_dw of a weight in rows, of operands rounded to bf16. */
Status panels_dw_rounded(const Ctx *cx, int m, int n, int k, const real *dy, int lddy,
                         const real *x, int ldx, real *dw, bool add);

/* gemm_bf16.c: *out[m, k] is x rounded to bf16, in the arena. */
Status bf16_rounded(const Ctx *cx, int m, int k, const real *x, ptrdiff_t ldx, const real **out);
/* The distance of its rows: an odd number of cache lines, so that they do not share few sets of
 * a cache. */
static inline int rounded_ld(int k) { return round_up(k, GROUP) | GROUP; }

/* Add what `low` (NULL: nothing) gives rows row .. row + rows - 1 in columns at .. at + cols - 1
 * of a product's n to y, which is that tile.  at: a multiple of GROUP. */
void low_rank_add(const LowRank *low, int n, int row, int rows, int at, int cols, real *y,
                  ptrdiff_t ldy);

/* A weight's rows become its panels where they are, and again rows; there is room for
 * gemm_packed_size reals.  On failure nothing has changed. */
Status panels_in_place(const Ctx *cx, int n, int k, int ng, real *w);
Status panels_to_rows(const Ctx *cx, int n, int k, int ng, real *w);

#endif
