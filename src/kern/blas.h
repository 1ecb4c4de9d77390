/* blas.h - OpenBLAS: what it is, and its sgemm.
 *
 * The library is loaded when one of these is first called, and not at every start, because
 * loading it takes longer than all else of a start.  Without it only the kernel class `blas`
 * (blas_kernels.h) and the comparison in bench/ are missing.
 */
#ifndef GRPO_KERN_BLAS_H
#define GRPO_KERN_BLAS_H

#include <stdbool.h>
#include <stddef.h>

#include "kern/real.h"

/* c[m,n] = a b + beta c, all row-major, the leading dimensions in elements.  ta: a is [k, m] in
 * memory; tb: b is [n, k]. */
typedef struct BlasGemm {
  int m, n, k;
  const real *a;
  int lda;
  bool ta;
  const real *b;
  int ldb;
  bool tb;
  real beta;
  real *c;
  int ldc;
} BlasGemm;

bool blas_load(void);                      /* is the library there? */
const char *blas_absence(void);            /* why it is not */
void blas_gemm(const BlasGemm *g);         /* only after blas_load() has returned true */
int blas_threads(void);                    /* the library's own threads */
void blas_set_threads(int n);              /* for the whole process */
bool blas_is_reentrant(void);              /* may several threads call blas_gemm at once? */
const char *blas_core_name(void);          /* its name for its kernels: "SkylakeX"; "not found" */
void blas_version(char *out, size_t size); /* "0.3.21"; "not used" before blas_load() */

#endif
