/* random_normal.c - tensors of normal random numbers, cut for the pool. */
#include "kern/random_normal.h"
#include "base/pool.h"
#include "kern/dispatch.h"
#include "kern/kernels.h"

enum { PIECE = 1 << 13 }; /* divides 2^32: the lower half of an index does not wrap within one */

typedef struct Normal {
  const KernelClass *cpu;
  const RngKey *key;
  size_t n;
  double std;
  real *out;
} Normal;

static void piece(void *arg, int chunk, int worker) {
  (void)worker;
  const Normal *j = arg;
  const size_t at = (size_t)chunk * PIECE, left = j->n - at;
  kernels(j->cpu)->normals(j->key, at, left < PIECE ? (int)left : PIECE, j->std, j->out + at);
}

void random_normal(const Ctx *cx, const RngKey *key, size_t n, double std, real *out) {
  Normal j = {cx->cpu, key, n, std, out};
  pool_run(cx->pool, (int)((n + PIECE - 1) / PIECE), piece, &j);
}
