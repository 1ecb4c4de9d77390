/* avx2.c - the kernels with vectors of 8 floats and fused multiply-add. */
#include <immintrin.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "kern/kernels.h"

#define LANES 8
#include "kern/inner/types.inc.c"

static inline vec v_set(real x) { return (vec)_mm256_set1_ps(x); }
#ifdef PORTABLE
static inline vec v_fma(vec a, vec b, vec c) { return a * b + c; }
#else
static inline vec v_fma(vec a, vec b, vec c) { return (vec)_mm256_fmadd_ps(a, b, c); }
#define V_FMA_TO(sum, a, b) __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b))
#endif
static inline vec v_max(vec a, vec b) { return (vec)_mm256_max_ps(a, b); }
static inline vec v_min(vec a, vec b) { return (vec)_mm256_min_ps(a, b); }
static inline vec v_sqrt(vec a) { return (vec)_mm256_sqrt_ps(a); }
static inline vec v_keep(ivec mask, vec a) { return (vec)(mask & (ivec)a); }
#define V_SEL
static inline vec v_sel(ivec mask, vec a, vec b) {
  return (vec)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)mask);
}
#define V_HOLD(x) __asm__("" : "+x"(x))

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

/* ---- quantised weights: LANES values ---- */
static inline vec v_f16(const uint16_t *p) {
  return (vec)_mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}
static inline vec v_int8(const int8_t *p) {
  return (vec)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)));
}
static inline ivec v_words(const uint32_t *p) { return (ivec)_mm256_loadu_si256((const void *)p); }

/* The bytes of a value are looked up one by one, 32 at a time: plane[i] holds byte i of all
 * codes. */
typedef struct Nf4Table {
  __m256i plane[4];
} Nf4Table;
static inline __m128i bytes_together(const float *four) {
  const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm_shuffle_epi8(_mm_loadu_si128((const void *)four), order);
}
static inline Nf4Table nf4_table(void) {
  const __m128i a = bytes_together(nf4_code), b = bytes_together(nf4_code + 4);
  const __m128i c = bytes_together(nf4_code + 8), d = bytes_together(nf4_code + 12);
  const __m128i ab = _mm_unpacklo_epi32(a, b), cd = _mm_unpacklo_epi32(c, d);
  const __m128i ab2 = _mm_unpackhi_epi32(a, b), cd2 = _mm_unpackhi_epi32(c, d);
  return (Nf4Table){{_mm256_broadcastsi128_si256(_mm_unpacklo_epi64(ab, cd)),
                     _mm256_broadcastsi128_si256(_mm_unpackhi_epi64(ab, cd)),
                     _mm256_broadcastsi128_si256(_mm_unpacklo_epi64(ab2, cd2)),
                     _mm256_broadcastsi128_si256(_mm_unpackhi_epi64(ab2, cd2))}};
}
#define V_NF4_CELL
static inline void v_nf4_cell(const Nf4Table t, ivec code, vec *value) {
  /* plane i has byte i of each of a half's numbers: steps 2 i and 2 i + 1 */
  const __m256i c = _mm256_shuffle_epi8(
      (__m256i)code, _mm256_broadcastsi128_si256(
                         _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)));
  UNROLL for (int s = 0; s < 2; s++) {
    const __m256i at = _mm256_and_si256(s ? _mm256_srli_epi32(c, 4) : c, _mm256_set1_epi8(15));
    const __m256i b0 = _mm256_shuffle_epi8(t.plane[0], at),
                  b1 = _mm256_shuffle_epi8(t.plane[1], at);
    const __m256i b2 = _mm256_shuffle_epi8(t.plane[2], at),
                  b3 = _mm256_shuffle_epi8(t.plane[3], at);
    const __m256i low = _mm256_unpacklo_epi8(b0, b1), high = _mm256_unpacklo_epi8(b2, b3);
    const __m256i low2 = _mm256_unpackhi_epi8(b0, b1), high2 = _mm256_unpackhi_epi8(b2, b3);
    value[s] = (vec)_mm256_unpacklo_epi16(low, high);
    value[2 + s] = (vec)_mm256_unpackhi_epi16(low, high);
    value[4 + s] = (vec)_mm256_unpacklo_epi16(low2, high2);
    value[6 + s] = (vec)_mm256_unpackhi_epi16(low2, high2);
  }
}

#define V_SQUARE
/* columns of rows of 4; a[i] has i and i + 4 side by side */
static inline __attribute__((always_inline)) void four_columns(const __m256 a[4], vec *y) {
  const __m256 low = _mm256_unpacklo_ps(a[0], a[1]), low2 = _mm256_unpacklo_ps(a[2], a[3]);
  const __m256 high = _mm256_unpackhi_ps(a[0], a[1]), high2 = _mm256_unpackhi_ps(a[2], a[3]);
  y[0] = (vec)_mm256_shuffle_ps(low, low2, 0x44);
  y[1] = (vec)_mm256_shuffle_ps(low, low2, 0xee);
  y[2] = (vec)_mm256_shuffle_ps(high, high2, 0x44);
  y[3] = (vec)_mm256_shuffle_ps(high, high2, 0xee);
}
static inline __m256 two_fours(const real *x, const real *x4) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(x)), _mm_loadu_ps(x4), 1);
}
static inline __attribute__((always_inline)) void v_square(const real *x, ptrdiff_t ldx, vec *y) {
  __m256 a[4], b[4];
  const real *x4 = x + 4 * ldx;
  UNROLL for (int i = 0; i < 4; i++, x += ldx, x4 += ldx) {
    a[i] = two_fours(x, x4);
    b[i] = two_fours(x + 4, x4 + 4);
  }
  four_columns(a, y);
  four_columns(b, y + 4);
}

/* Products of few rows with quantised weights: tiles by rows and groups; rows of a tile, and rows
 * at most, by type.  A value of bf16 or f16 costs a tile less than unpacking would. */
#define QUANT_FEW_ROWS   6
#define QUANT_FEW_GROUPS 2
#define QUANT_FEW_SIZES(X, type)                                                                   \
  X(type, 1, 2) X(type, 2, 2) X(type, 3, 1) X(type, 4, 1) X(type, 5, 1) X(type, 6, 1)
#define QUANT_FEW_BY     6, 6, 4, 4
#define QUANT_FEW_MOST   INT_MAX, INT_MAX, 64, 64
#define QUANT_FEW_SHARES 4
#define DX_BLOCK         512, 768, 48
#define FEW_SUMS         12
#define TILE_MR          6
#define TILE_NG          1
#define TILES(X)         X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1)
#ifdef PORTABLE
#define TABLE kern_portable_avx2
#else
#define TABLE kern_avx2
#endif
#include "kern/inner/table.inc.c"
