/* blas.c - the only user of OpenBLAS.  The products are our own (gemm.c): as
 * fast on large shapes, several times faster on small ones, and row-invariant.
 * OpenBLAS is asked only what it is, for `--version`, and how fast, for `grpo bench`.
 */
#include <cblas.h>

#include "kern/rates.h"

#ifdef GRPO_DOUBLE
#define GEMM cblas_dgemm
#else
#define GEMM cblas_sgemm
#endif

const char *kern_blas(void) { return openblas_get_corename(); }

typedef struct Product {
  int m, n, k, rows; /* rows (weight_chunk: columns) a chunk */
  const real *a, *b;
  bool ta, tb;
  real *c;
} Product;

static void product_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Product *p = arg;
  const int r0 = chunk * p->rows, rows = p->m - r0 < p->rows ? p->m - r0 : p->rows;
  GEMM(CblasRowMajor, p->ta ? CblasTrans : CblasNoTrans, p->tb ? CblasTrans : CblasNoTrans, rows,
       p->n, p->k, 1, p->a + (size_t)r0 * (p->ta ? 1 : (size_t)p->k), p->ta ? p->m : p->k, p->b,
       p->tb ? p->k : p->n, 0, p->c + (size_t)r0 * (size_t)p->n, p->n);
}

void blas_product(const Ctx *cx, int m, int n, int k, const real *a, bool ta, const real *b,
                  bool tb, real *c) {
  const int threads = pool_threads(cx->pool), before = openblas_get_num_threads();
  Product p = {m, n, k, (m + threads - 1) / threads, a, b, ta, tb, c};
  openblas_set_num_threads(1);
  pool_run(cx->pool, (m + p.rows - 1) / p.rows, product_chunk, &p);
  openblas_set_num_threads(before);
}

static void weight_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Product *p = arg;
  const int c0 = chunk * p->rows, cols = p->n - c0 < p->rows ? p->n - c0 : p->rows;
  GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, p->m, cols, p->k, 1, p->a, p->k,
       p->b + (size_t)c0 * (size_t)p->k, p->k, 0, p->c + c0, p->n);
}

void blas_weight(const Ctx *cx, int m, int n, int k, const real *x, const real *w, bool cut,
                 real *y) {
  const int threads = pool_threads(cx->pool), before = openblas_get_num_threads();
  Product p = {m, n, k, cut ? (n + threads - 1) / threads : n, x, w, false, true, y};
  openblas_set_num_threads(cut ? 1 : threads);
  if (cut)
    pool_run(cx->pool, (n + p.rows - 1) / p.rows, weight_chunk, &p);
  else
    weight_chunk(&p, 0, 0);
  openblas_set_num_threads(before);
}
