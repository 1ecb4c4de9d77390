/* blas.c - the only file that calls OpenBLAS. */
#include "kern/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#ifdef GRPO_DOUBLE
#define GEMM "cblas_dgemm"
#else
#define GEMM "cblas_sgemm"
#endif

/* The values of the C interface to BLAS, which is the same everywhere: no header is needed. */
enum { ROW_MAJOR = 101, NOT_TRANSPOSED = 111, TRANSPOSED = 112 };

typedef void GemmFn(int order, int ta, int tb, int m, int n, int k, real alpha, const real *a,
                    int lda, const real *b, int ldb, real beta, real *c, int ldc);

static struct {
  GemmFn *gemm;
  const char *(*name)(void);
  const char *(*config)(void);
  int (*threads)(void);
  void (*set_threads)(int n);
  int (*parallel)(void);
  bool loaded;
} blas;

/* ISO C converts no object pointer to a function pointer. */
static bool find(void *lib, const char *name, void *to) {
  void *symbol = dlsym(lib, name);
  memcpy(to, &symbol, sizeof symbol);
  return symbol != NULL;
}

static void load(void) {
  static const char name[] = "libopenblas.so.0";
  void *lib = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  const bool shared = lib != NULL; /* the host program uses it too */
  if (!lib) lib = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  blas.loaded = lib && find(lib, GEMM, &blas.gemm) &&
                find(lib, "openblas_get_corename", &blas.name) &&
                find(lib, "openblas_get_config", &blas.config) &&
                find(lib, "openblas_get_num_threads", &blas.threads) &&
                find(lib, "openblas_set_num_threads", &blas.set_threads) &&
                find(lib, "openblas_get_parallel", &blas.parallel);
  if (blas.loaded && !shared) blas.set_threads(1); /* our pool has the threads */
}

/* A static program of musl cannot even open itself. */
const char *blas_absence(void) {
  return dlopen(NULL, RTLD_LAZY) ? "the library libopenblas.so.0 is not there"
                                 : "this program is linked statically and loads no libraries";
}

bool blas_load(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load);
  return blas.loaded;
}

void blas_gemm(const BlasGemm *g) {
  blas.gemm(ROW_MAJOR, g->ta ? TRANSPOSED : NOT_TRANSPOSED, g->tb ? TRANSPOSED : NOT_TRANSPOSED,
            g->m, g->n, g->k, 1, g->a, g->lda, g->b, g->ldb, g->beta, g->c, g->ldc);
}

int blas_threads(void) { return blas_load() ? blas.threads() : 1; }

void blas_set_threads(int n) {
  if (blas_load()) blas.set_threads(n);
}

bool blas_is_reentrant(void) { return blas_load() && blas.parallel() != 0; }

const char *blas_core_name(void) { return blas_load() ? blas.name() : "not found"; }

void blas_version(char *out, size_t size) {
  static const char name[] = "OpenBLAS ";
  const char *text = blas.loaded ? blas.config() : "not used";
  if (blas.loaded && strncmp(text, name, sizeof name - 1) == 0) {
    text += sizeof name - 1;
    snprintf(out, size, "%.*s", (int)strcspn(text, " "), text);
  } else {
    snprintf(out, size, "%s", text);
  }
}
