/* kern_test.h - what the kernel tests share: every path in turn, pools of 1 to 3
 * threads, random rows, and bit comparisons.
 */
#ifndef GRPO_TESTS_KERN_TEST_H
#define GRPO_TESTS_KERN_TEST_H

#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/pool.h"
#include "kern/dispatch.h"
#include "kern/kern.h"
#include "testing.h"

static Arena arena;
enum { NPATHS = 9 }; /* more than any CPU has */

/* Does this CPU have a path i (0: generic)?  Selects it. */
static inline bool use_path(int i) {
  const char *path = kern_path(i);
  return path && kern_select(path) == GRPO_OK;
}

static uint64_t rng_state = 1;
static inline double uniform(void) { /* (0, 1) */
  rng_state ^= rng_state << 13, rng_state ^= rng_state >> 7, rng_state ^= rng_state << 17;
  return ((double)(rng_state >> 11) + 0.5) / 9007199254740992.0;
}
static inline float gauss(void) {
  return (float)(sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()));
}
/* n floats, each in a block of its own so that a sanitizer sees a step outside */
static inline float *floats(size_t n) { return calloc(n ? n : 1, sizeof(float)); }
static inline float *randoms(size_t n) {
  float *x = floats(n);
  for (size_t i = 0; i < n; i++) x[i] = gauss();
  return x;
}
static inline float *copy_of(const float *x, size_t n) {
  return memcpy(floats(n), x, n * sizeof(float));
}
static inline bool same_bits(const float *a, const float *b, size_t n) {
  return memcmp(a, b, n * sizeof(float)) == 0;
}
/* the largest |a - b|, NaN counts as infinite */
static inline double distance(const float *a, const double *b, size_t n) {
  double worst = 0;
  for (size_t i = 0; i < n; i++) {
    double d = fabs((double)a[i] - b[i]);
    if (!(d <= worst)) worst = d == d ? d : HUGE_VAL;
  }
  return worst;
}

/* fn with pools of 1, 2 and 3 threads must leave the same n floats in out. */
typedef void (*OnPool)(const Ctx *cx, float *out, void *arg);
static inline bool threads_agree(OnPool fn, size_t n, void *arg) {
  float *one = floats(n), *more = floats(n);
  Ctx cx = {.arena = &arena};
  bool ok = true;
  fn(&cx, one, arg);
  for (int t = 1; t <= 3; t++) {
    if (pool_new(&cx.pool, t)) return false;
    memset(more, 0, n * sizeof(float));
    fn(&cx, more, arg);
    ok &= same_bits(one, more, n);
    pool_free(cx.pool);
  }
  free(one);
  free(more);
  return ok;
}

static const int row_counts[] = {1, 2, 7, 8, 64, 500};
enum { NCOUNTS = 6, MAX_ROWS = 500 };

/* Rows of a product and of its dx have the bits alone that they have among MAX_ROWS.  The case
 * `arg` has *m rows, with operands *x [*m, k] and *dy [*m, n]. */
static inline void check_rows(OnPool forward, OnPool dx, void *arg, int n, int k, int *m, float **x,
                              float **dy) {
  const Ctx cx = {.arena = &arena};
  float *const all_x = *x, *const all_dy = *dy;
  float *y = floats((size_t)(MAX_ROWS * n)), *y1 = floats((size_t)(MAX_ROWS * n));
  float *g = floats((size_t)(MAX_ROWS * k)), *g1 = floats((size_t)(MAX_ROWS * k));
  forward(&cx, y, arg), dx(&cx, g, arg);
  for (int i = 0; i < NCOUNTS + 20; i++) {
    *m = i < NCOUNTS ? row_counts[i] : 2 + i;
    const int at = (MAX_ROWS - *m) / 3; /* another place in the tile */
    *x = all_x + at * k, *dy = all_dy + at * n;
    forward(&cx, y1, arg), dx(&cx, g1, arg);
    CHECK(same_bits(y1, y + at * n, (size_t)(*m * n)));
    CHECK(same_bits(g1, g + at * k, (size_t)(*m * k)));
  }
  *x = all_x, *dy = all_dy;
  free(y), free(y1), free(g), free(g1);
}

/* A product and its dx with 300 rows and with 3; the case has at least 300. */
static inline void check_threads(OnPool forward, OnPool dx, void *arg, int n, int k, int *m) {
  for (*m = 300; *m >= 3; *m /= 100) {
    CHECK(threads_agree(forward, (size_t)(*m * n), arg));
    CHECK(threads_agree(dx, (size_t)(*m * k), arg));
  }
}

#endif
