/* avx2.c - the kernels with vectors of 8 floats and fused multiply-add. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kern/dispatch.h"

#define LANES 8
#include "kern/inner/types.inc.c"

static inline vec v_set(real x) { return (vec)_mm256_set1_ps(x); }
static inline vec v_fma(vec a, vec b, vec c) { return (vec)_mm256_fmadd_ps(a, b, c); }
static inline vec v_max(vec a, vec b) { return (vec)_mm256_max_ps(a, b); }
static inline vec v_min(vec a, vec b) { return (vec)_mm256_min_ps(a, b); }
static inline vec v_sqrt(vec a) { return (vec)_mm256_sqrt_ps(a); }
static inline vec v_keep(ivec mask, vec a) { return (vec)(mask & (ivec)a); }

/* lanes below `left` */
static inline __m256i first_lanes(ptrdiff_t left) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)left), lane);
}
static inline vec v_get(const real *p, ptrdiff_t left) {
  if (left >= LANES) return *(const uvec *)p;
  return (vec)_mm256_maskload_ps(p, first_lanes(left));
}
static inline vec v_get_or(const real *p, ptrdiff_t left, real fill) {
  if (left >= LANES) return *(const uvec *)p;
  const __m256i m = first_lanes(left);
  return (vec)_mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(p, m),
                               _mm256_castsi256_ps(m));
}
static inline void v_put(real *p, ptrdiff_t left, vec x) {
  if (left >= LANES)
    *(uvec *)p = x;
  else
    _mm256_maskstore_ps(p, first_lanes(left), x);
}

#define TILE_MR  6
#define TILE_NG  1
#define TILES(X) X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1)
#define TABLE    kern_avx2
#define NAME     "avx2"
#include "kern/inner/table.inc.c"
