/* panels.h - operands of products: packed panels of float32 weights, and rows that are read in
 * place or rounded.
 *
 * gemm_pack stores a weight [n, k] (outputs, inputs) in panels of ng groups of GROUP outputs,
 * where ng is the width of the register tile of the class that packs.  A panel of `width`
 * outputs that begins with output o holds element (i, p) at o k + p width + i - o.  Every class
 * can multiply with panels of any ng, and gets the same bits as with its own.
 */
#ifndef GRPO_KERN_PANELS_H
#define GRPO_KERN_PANELS_H

#include "base/err.h"
#include "kern/dispatch.h"
#include "kern/kern.h"
#include "kern/kernels.h"

/* How many panels n outputs have. */
static inline int panels_of(int n, int ng) { return ceil_div(ceil_div(n, GROUP), ng); }

/* The first group of panel p, and for p = panels_of() the number of groups.  A last panel of one
 * group would be slow, so behind panels of three and more groups it takes one group of the panel
 * before it. */
static inline int panels_first(int n, int ng, int p) {
  const int groups = ceil_div(n, GROUP), start = p * ng;
  if (start >= groups) return groups;
  return ng > 2 && groups > ng && start == groups - 1 ? start - 1 : start;
}

/* The number of panels that a class makes, and the first group of one. */
static inline int own_panels(const KernelClass *cpu, int n) {
  return panels_of(n, kernels(cpu)->ng);
}
static inline int own_panel_first(const KernelClass *cpu, int n, int p) {
  return panels_first(n, kernels(cpu)->ng, p);
}

/* The panel that contains a group. */
static inline int panels_with(int n, int ng, int group) {
  const int p = group / ng;
  return group < panels_first(n, ng, p + 1) ? p : p + 1;
}

/* even_piece() for the inner dimension of a product with a weight */
static inline int gemm_piece(const KernelClass *cpu, int k, int most) {
  return round_up(even_piece(k, most), kernels(cpu)->gemm_step);
}

/* One panel: dst[p][j] = src(p, j) = src[p ps + j cs] for `depth` inner steps and `width` columns,
 * of which `cols` exist; ps or cs is 1. */
void panels_pack_one(const KernelClass *cpu, int depth, int cols, int width, const real *src,
                     ptrdiff_t ps, ptrdiff_t cs, real *dst);
/* Panels of cx's class from w(p, j) = w[p ps + j cs], p < k, j < n, where ps or cs is 1.
 * round: to bf16 */
void panels_pack(const Ctx *cx, int n, int k, const real *w, ptrdiff_t ps, ptrdiff_t cs, bool round,
                 real *packed);

/* How many rows at this distance the cache can hold at once: rows whose distance is a large power
 * of two share few of the cache's sets. */
int rows_cached(ptrdiff_t ld);
/* Can rows of n columns be read in place instead of being packed? */
bool rows_readable(int n, ptrdiff_t ld);
/* Is a tile so narrow that it would read one line of each row?  Then packed panels are faster. */
bool reads_lines(const KernelClass *cpu);

/* *out[m, k] is x rounded to bf16, in the arena. */
Status rows_rounded(const Ctx *cx, int m, int k, const real *x, ptrdiff_t ldx, const real **out);
/* The distance of its rows: an odd number of cache lines, so that rows do not share few sets of a
 * cache. */
static inline int rounded_ld(int k) { return round_up(k, GROUP) | GROUP; }

/* Packs the rows of a weight into panels in place, and unpacks them again.  There is room for
 * gemm_packed_size reals.  On failure nothing has changed. */
Status panels_in_place(const Ctx *cx, int n, int k, int ng, real *w);
Status panels_to_rows(const Ctx *cx, int n, int k, int ng, real *w);

#endif
