/* blas.c - the only user of OpenBLAS.  The products are our own (gemm.c): as
 * fast on large shapes, several times faster on small ones, and row-invariant.
 * OpenBLAS is asked only what it is, for `--version`, and how fast, for `grpo bench`: so it is
 * loaded when it is asked, as loading it takes longer than all else of a start.
 */
#include <cblas.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kern/rates.h"

#ifdef GRPO_DOUBLE
#define GEMM "cblas_dgemm"
#else
#define GEMM "cblas_sgemm"
#endif

typedef void Gemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE ta, enum CBLAS_TRANSPOSE tb,
                  blasint m, blasint n, blasint k, real alpha, const real *a, blasint lda,
                  const real *b, blasint ldb, real beta, real *c, blasint ldc);

/* Without the library: a plain product, and one thread. */
static void plain_gemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE ta, enum CBLAS_TRANSPOSE tb,
                       blasint m, blasint n, blasint k, real alpha, const real *a, blasint lda,
                       const real *b, blasint ldb, real beta, real *c, blasint ldc) {
  (void)order, (void)alpha, (void)beta;
  for (blasint i = 0; i < m; i++)
    for (blasint j = 0; j < n; j++) {
      real sum = 0;
      for (blasint p = 0; p < k; p++)
        sum += a[ta == CblasTrans ? p * lda + i : i * lda + p] *
               b[tb == CblasTrans ? j * ldb + p : p * ldb + j];
      c[i * ldc + j] = sum;
    }
}
static const char *no_name(void) { return "not found"; }
static int one_thread(void) { return 1; }
static void set_nothing(int n) { (void)n; }

static struct {
  Gemm *gemm;
  const char *(*name)(void);
  int (*threads)(void);
  void (*set_threads)(int n);
} blas = {plain_gemm, no_name, one_thread, set_nothing};

static void load(void) {
  void *lib = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_LOCAL);
  void *gemm = lib ? dlsym(lib, GEMM) : NULL,
       *name = lib ? dlsym(lib, "openblas_get_corename") : NULL;
  void *get = lib ? dlsym(lib, "openblas_get_num_threads") : NULL;
  void *set = lib ? dlsym(lib, "openblas_set_num_threads") : NULL;
  if (!gemm || !name || !get || !set) return;
  memcpy(&blas.gemm, &gemm, sizeof gemm); /* ISO C converts no pointer to a function */
  memcpy(&blas.name, &name, sizeof name);
  memcpy(&blas.threads, &get, sizeof get);
  memcpy(&blas.set_threads, &set, sizeof set);
}

static void need_blas(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
}

void kern_blas_version(char *out, size_t size) {
  static const char name[] = " OpenBLAS ", text[] = OPENBLAS_VERSION;
  const char *from = strncmp(text, name, sizeof name - 1) == 0 ? text + sizeof name - 1 : text;
  snprintf(out, size, "%.*s", (int)strcspn(from, " "), from);
}

const char *kern_blas(void) {
  need_blas();
  return blas.name();
}

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
  blas.gemm(CblasRowMajor, p->ta ? CblasTrans : CblasNoTrans, p->tb ? CblasTrans : CblasNoTrans,
            rows, p->n, p->k, 1, p->a + (size_t)r0 * (p->ta ? 1 : (size_t)p->k),
            p->ta ? p->m : p->k, p->b, p->tb ? p->k : p->n, 0, p->c + (size_t)r0 * (size_t)p->n,
            p->n);
}

void blas_product(const Ctx *cx, int m, int n, int k, const real *a, bool ta, const real *b,
                  bool tb, real *c) {
  need_blas();
  const int threads = pool_threads(cx->pool), before = blas.threads();
  Product p = {m, n, k, (m + threads - 1) / threads, a, b, ta, tb, c};
  blas.set_threads(1);
  pool_run(cx->pool, (m + p.rows - 1) / p.rows, product_chunk, &p);
  blas.set_threads(before);
}

static void weight_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Product *p = arg;
  const int c0 = chunk * p->rows, cols = p->n - c0 < p->rows ? p->n - c0 : p->rows;
  blas.gemm(CblasRowMajor, CblasNoTrans, CblasTrans, p->m, cols, p->k, 1, p->a, p->k,
            p->b + (size_t)c0 * (size_t)p->k, p->k, 0, p->c + c0, p->n);
}

void blas_weight(const Ctx *cx, int m, int n, int k, const real *x, const real *w, bool cut,
                 real *y) {
  need_blas();
  const int threads = pool_threads(cx->pool), before = blas.threads();
  Product p = {m, n, k, cut ? (n + threads - 1) / threads : n, x, w, false, true, y};
  blas.set_threads(cut ? 1 : threads);
  if (cut)
    pool_run(cx->pool, (n + p.rows - 1) / p.rows, weight_chunk, &p);
  else
    weight_chunk(&p, 0, 0);
  blas.set_threads(before);
}
