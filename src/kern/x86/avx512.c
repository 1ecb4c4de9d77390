/* avx512.c - the kernels with vectors of 16 floats and fused multiply-add. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kern/dispatch.h"

#define LANES 16
#include "kern/inner/types.inc.c"

static inline vec v_set(real x) { return (vec)_mm512_set1_ps(x); }
static inline vec v_fma(vec a, vec b, vec c) { return (vec)_mm512_fmadd_ps(a, b, c); }
static inline vec v_max(vec a, vec b) { return (vec)_mm512_max_ps(a, b); }
static inline vec v_min(vec a, vec b) { return (vec)_mm512_min_ps(a, b); }
static inline vec v_sqrt(vec a) { return (vec)_mm512_sqrt_ps(a); }
static inline vec v_keep(ivec mask, vec a) { return (vec)(mask & (ivec)a); }

static inline __mmask16 first_lanes(ptrdiff_t left) {
  return left >= LANES ? (__mmask16)0xffff : (__mmask16)((1u << left) - 1);
}
static inline vec v_get(const real *p, ptrdiff_t left) {
  return (vec)_mm512_maskz_loadu_ps(first_lanes(left), p);
}
static inline vec v_get_or(const real *p, ptrdiff_t left, real fill) {
  return (vec)_mm512_mask_loadu_ps(_mm512_set1_ps(fill), first_lanes(left), p);
}
static inline void v_put(real *p, ptrdiff_t left, vec x) {
  _mm512_mask_storeu_ps(p, first_lanes(left), x);
}

#define TILE_MR    8
#define TILE_NG    3
#define ROWS(X, g) X(1, g) X(2, g) X(3, g) X(4, g) X(5, g) X(6, g) X(7, g) X(8, g)
#define TILES(X)   ROWS(X, 1) ROWS(X, 2) ROWS(X, 3)
#define TABLE      kern_avx512
#define NAME       "avx512"
#include "kern/inner/table.inc.c"
