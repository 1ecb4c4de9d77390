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
enum { NPATHS = 7 }; /* more than any CPU has */

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

#endif
