/* rates.h - what this machine's cores and memory do: the rates that floors are computed from.
 *
 * Each measures for about `seconds` and keeps the best repetition.  Memory comes from mem.h and is
 * given back.
 */
#ifndef GRPO_KERN_RATES_H
#define GRPO_KERN_RATES_H

#include "kern/kern.h"

/* Work a second: by the clock, and by the time that our threads had a core, as if all had one all
 * the time.  The second does not fall when neighbours keep the cores busy; it says nothing where
 * the work is too small for all threads. */
typedef struct Rate {
  double clock, cores;
} Rate;

/* A weight of n outputs and k inputs, m rows: y = x w^T, dx = dy w, dw = dy^T x; the same three
 * through OpenBLAS, one thread of it on each of our threads' share of the rows. */
typedef enum RateProduct {
  RATE_FORWARD,
  RATE_DX,
  RATE_DW,
  RATE_BLAS_FORWARD,
  RATE_BLAS_DX,
  RATE_BLAS_DW,
  NRATES
} RateProduct;

Status rate_product(const Ctx *cx, RateProduct what, int m, int n, int k, double seconds,
                    Rate *flops);
/* Reading a block that no cache holds, all threads. */
Status rate_read(const Ctx *cx, double seconds, Rate *bytes);

/* blas.c: c (+)= a b on row-major operands: m x n outputs, k inner steps; ta: a is [k, m] in
 * memory, tb: b is [n, k]. */
void blas_product(const Ctx *cx, int m, int n, int k, const real *a, bool ta, const real *b,
                  bool tb, real *c);

#endif
