/* avx512.c - the kernels with vectors of 16 floats and fused multiply-add. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kern/kernels.h"

#define LANES 16
#include "kern/inner/types.inc.c"

static inline vec v_set(real x) { return (vec)_mm512_set1_ps(x); }
#ifdef PORTABLE
static inline vec v_fma(vec a, vec b, vec c) { return a * b + c; }
#else
static inline vec v_fma(vec a, vec b, vec c) { return (vec)_mm512_fmadd_ps(a, b, c); }
#endif
static inline vec v_max(vec a, vec b) { return (vec)_mm512_max_ps(a, b); }
static inline vec v_min(vec a, vec b) { return (vec)_mm512_min_ps(a, b); }
static inline vec v_sqrt(vec a) { return (vec)_mm512_sqrt_ps(a); }
static inline vec v_keep(ivec mask, vec a) { return (vec)(mask & (ivec)a); }

static inline __mmask16 first_lanes(ptrdiff_t left) {
  return left >= LANES ? (__mmask16)0xffff : (__mmask16)((1u << left) - 1);
}
/* Whole vectors without a mask: masked stores to memory take three times as long. */
static inline vec v_get(const real *p, ptrdiff_t left) {
  if (__builtin_expect(left >= LANES, 1)) return (vec)_mm512_loadu_ps(p);
  return (vec)_mm512_maskz_loadu_ps(first_lanes(left), p);
}
static inline vec v_get_or(const real *p, ptrdiff_t left, real fill) {
  if (__builtin_expect(left >= LANES, 1)) return (vec)_mm512_loadu_ps(p);
  return (vec)_mm512_mask_loadu_ps(_mm512_set1_ps(fill), first_lanes(left), p);
}
static inline void v_put(real *p, ptrdiff_t left, vec x) {
  if (__builtin_expect(left >= LANES, 1))
    _mm512_storeu_ps(p, x);
  else
    _mm512_mask_storeu_ps(p, first_lanes(left), x);
}

#define V_TIMES_POWER
static inline vec v_times_power(vec p, vec n) { return (vec)_mm512_scalef_ps(p, n); }

#define V_FOLDS
/* folds the upper half of the lanes onto the lower half, and so on */
static inline __m256 upper8(vec x) {
  return _mm256_castpd_ps(_mm512_extractf64x4_pd((__m512d)x, 1));
}
static inline real v_sum(vec x) {
  __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x), upper8(x));
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
/* lane 0 if it is NaN; NaN in other lanes does not count */
static inline real v_largest(vec x) {
  const vec first = (vec)_mm512_broadcastss_ps(_mm512_castps512_ps128(x));
  x = v_max(x, first);
  __m256 a = _mm256_max_ps(_mm512_castps512_ps256(x), upper8(x));
  __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

/* ---- quantised weights: LANES values ---- */
static inline vec v_f16(const uint16_t *p) {
  return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}
static inline vec v_int8(const int8_t *p) {
  return (vec)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)p)));
}
static inline ivec v_words(const uint32_t *p) { return (ivec)_mm512_loadu_si512(p); }

/* the table is one register; the permutation looks at the low 4 bits of an index only */
typedef __m512 Nf4Table;
static inline Nf4Table nf4_table(void) { return _mm512_loadu_ps(nf4_code); }
static inline vec v_nf4(Nf4Table table, ivec code) {
  return (vec)_mm512_permutexvar_ps((__m512i)code, table);
}

#define V_SQUARE
static inline __m512 pairs_low(__m512 a, __m512 b) {
  return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
static inline __m512 pairs_high(__m512 a, __m512 b) {
  return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
/* squares of 4 by 4 in registers' quarters, then the quarters */
static inline __attribute__((always_inline)) void v_square(const real *x, ptrdiff_t ldx, vec *y) {
  __m512 a[LANES], b[LANES];
  UNROLL for (int i = 0; i < LANES; i++) a[i] = _mm512_loadu_ps(x + i * ldx);
  UNROLL for (int i = 0; i < LANES; i += 2) {
    b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
  }
  UNROLL for (int i = 0; i < LANES; i += 4) {
    a[i] = pairs_low(b[i], b[i + 2]);
    a[i + 1] = pairs_high(b[i], b[i + 2]);
    a[i + 2] = pairs_low(b[i + 1], b[i + 3]);
    a[i + 3] = pairs_high(b[i + 1], b[i + 3]);
  }
  UNROLL for (int c = 0; c < 4;
              c++) { /* a[4 q + c]: rows 4 q .. of columns c, 4 + c, 8 + c, 12 + c */
    const __m512 even = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x88);
    const __m512 odd = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xdd);
    const __m512 even8 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x88);
    const __m512 odd8 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xdd);
    y[c] = (vec)_mm512_shuffle_f32x4(even, even8, 0x88);
    y[4 + c] = (vec)_mm512_shuffle_f32x4(odd, odd8, 0x88);
    y[8 + c] = (vec)_mm512_shuffle_f32x4(even, even8, 0xdd);
    y[12 + c] = (vec)_mm512_shuffle_f32x4(odd, odd8, 0xdd);
  }
}

#include "kern/inner/nf4_scales_avx512.inc.c"

/* Products of few rows with quantised weights: tiles by rows and groups; rows at most, by type. */
#define QUANT_FEW_ROWS   8
#define QUANT_FEW_GROUPS 6
#define QUANT_FEW_SIZES(X, type)                                                                   \
  X(type, 1, 6) X(type, 2, 6) X(type, 4, 3) X(type, 6, 2) X(type, 8, 2)
#define QUANT_FEW_MOST 64, 64, 48, 24
#define FEW_SUMS       12
#define TILE_MR        8
#define TILE_NG        3
#define ROWS(X, g)     X(1, g) X(2, g) X(3, g) X(4, g) X(5, g) X(6, g) X(7, g) X(8, g)
#define TILES(X)       ROWS(X, 1) ROWS(X, 2) ROWS(X, 3)
#ifdef PORTABLE
#define TABLE kern_portable_avx512
#else
#define TABLE kern_avx512
#endif
#include "kern/inner/table.inc.c"
