/* avx512bf16.c - products of bf16 by AVX512_BF16, two multiply-adds a lane and instruction.
 *
 * A CPU that has it runs avx512.c's table for everything else: the same bits.
 */
#include <immintrin.h>
#include <string.h>

#include "kern/dispatch.h"

#define LANES 16
#include "kern/inner/types.inc.c"

enum { PER_GROUP = GROUP / LANES };

static inline vec v_set(real x) { return (vec)_mm512_set1_ps(x); }
static inline vec v_load(const real *p) { return (vec)_mm512_loadu_ps(p); }
static inline void v_store(real *p, vec x) { _mm512_storeu_ps(p, (__m512)x); }
static inline ivec v_words(const uint32_t *p) { return (ivec)_mm512_loadu_si512(p); }
static inline ivec v_word(const uint32_t *p) { return (ivec)_mm512_set1_epi32((int)*p); }

/* acc + a b of each lane's pair */
static inline vec v_dot(vec acc, ivec a, ivec b) {
  return (vec)_mm512_dpbf16_ps((__m512)acc, (__m512bh)a, (__m512bh)b);
}

#define TILE16_MR      8
#define TILE16_MOST_NG 6
#define TILE16_MAXV    6
#define FEW16(X, m)    X(m, 1) X(m, 2) X(m, 3) X(m, 4) X(m, 5) X(m, 6)
#define MORE16(X, m)   X(m, 1) X(m, 2) X(m, 3)
#define TILES16(X)                                                                                 \
  FEW16(X, 1)                                                                                      \
  FEW16(X, 2) FEW16(X, 3) FEW16(X, 4) MORE16(X, 5) MORE16(X, 6) MORE16(X, 7) MORE16(X, 8)
#define NEAR16(X) MORE16(X, 8)
#include "kern/inner/block16.inc.c"
#include "kern/inner/strided16.inc.c"

/* where 16-bit values come from: 32 and on are the second operand */
static const uint16_t pair_index[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                        21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                        11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
static const uint16_t zip_index[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                       37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                       11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
static const uint16_t turn_index[32] = {0, 8,  4, 12, 32, 40, 36, 44, 1, 9,  5, 13, 33, 41, 37, 45,
                                        2, 10, 6, 14, 34, 42, 38, 46, 3, 11, 7, 15, 35, 43, 39, 47};

/* ---- float to pairs; subnormals become zeros, as they do in products ---- */

static inline __mmask16 first_lanes(ptrdiff_t n) {
  return n >= LANES ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
}

/* lane i: (a[i], b[i]) */
static inline __m512i pair_lanes(__m512 a, __m512 b) {
  const __m512i i = _mm512_loadu_si512(pair_index);
  return _mm512_permutexvar_epi16(i, (__m512i)_mm512_cvtne2ps_pbh(b, a));
}

/* 32 consecutive values as 16 pairs */
static inline __m512i pairs_at(const real *x, ptrdiff_t left) {
  return (__m512i)_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(first_lanes(left - 16), x + 16),
                                      _mm512_maskz_loadu_ps(first_lanes(left), x));
}

static void pair_row(int k, const real *x, uint32_t *a) {
  for (int p = 0; p < k; p += 32)
    _mm512_mask_storeu_epi32(a + p / 2, first_lanes((k - p + 1) / 2), pairs_at(x + p, k - p));
}

static inline __m512i zip_low(__m512i a, __m512i b) {
  const __m512i i = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return _mm512_permutex2var_epi32(a, i, b);
}
static inline __m512i zip_high(__m512i a, __m512i b) {
  const __m512i i = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return _mm512_permutex2var_epi32(a, i, b);
}

/* Interleaving the first half of 8 rows with the second, three times, turns [row][pair] into
 * [pair][row]. */
static void pair_tile(int k, const real *x, ptrdiff_t ldx, uint32_t *a) {
  for (int p = 0; p < k; p += 32, a += 16 * TILE16_MR) {
    __m512i row[TILE16_MR], next[TILE16_MR];
    UNROLL for (int i = 0; i < TILE16_MR; i++) row[i] = pairs_at(x + i * ldx + p, k - p);
    UNROLL for (int round = 0; round < 3; round++) {
      UNROLL for (int i = 0; i < TILE16_MR / 2; i++) {
        next[2 * i] = zip_low(row[i], row[i + TILE16_MR / 2]);
        next[2 * i + 1] = zip_high(row[i], row[i + TILE16_MR / 2]);
      }
      UNROLL for (int i = 0; i < TILE16_MR; i++) row[i] = next[i];
    }
    const int words = (k - p + 1) / 2 * TILE16_MR;
    UNROLL for (int i = 0; i < TILE16_MR; i++)
        _mm512_mask_storeu_epi32(a + 16 * i, first_lanes(words - 16 * i), row[i]);
  }
}

static void pair_rows(int m, int k, const real *x, ptrdiff_t ldx, uint32_t *a) {
  const ptrdiff_t lda = kern_ceil(k, 2);
  for (int i = 0, rows; i < m; i += rows) {
    rows = tile16_rows(m - i);
    if (rows == TILE16_MR)
      pair_tile(k, x + i * ldx, ldx, a + i * lda);
    else
      for (int r = i; r < i + rows; r++) pair_row(k, x + r * ldx, a + r * lda);
  }
}

enum { COLUMNS_AHEAD = 32 }; /* rows fetched ahead of a walk down columns */

/* 8 columns, or 16 for two tiles: a word of each from two rows */
static void pair_column_tile(int depth, const real *x, ptrdiff_t ldx, uint32_t *a,
                             uint32_t *other) {
  const __mmask16 present = other ? 0xffff : 0xff;
  for (int p = 0; p < depth; p += 2, x += 2 * ldx, a += TILE16_MR) {
    __builtin_prefetch(x + COLUMNS_AHEAD * ldx);
    __builtin_prefetch(x + (COLUMNS_AHEAD + 1) * ldx);
    const __m512 high = _mm512_maskz_loadu_ps(p + 1 < depth ? present : 0, x + ldx);
    const __m512i pairs = pair_lanes(_mm512_maskz_loadu_ps(present, x), high);
    _mm256_storeu_si256((void *)a, _mm512_castsi512_si256(pairs));
    if (!other) continue;
    _mm256_storeu_si256((void *)other, _mm512_extracti64x4_epi64(pairs, 1));
    other += TILE16_MR;
  }
}

static void pair_columns(int m, int depth, const real *x, ptrdiff_t ldx, uint32_t *a) {
  const int lda = kern_ceil(depth, 2);
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i row = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(lda));
  for (int i = 0, rows; i < m; i += rows) {
    const int left = m - i;
    uint32_t *to = a + (ptrdiff_t)i * lda;
    rows = tile16_rows(left);
    if (left == 2 * TILE16_MR || left >= 3 * TILE16_MR) {
      rows = 2 * TILE16_MR;
      pair_column_tile(depth, x + i, ldx, to, to + (ptrdiff_t)TILE16_MR * lda);
    } else if (rows == TILE16_MR)
      pair_column_tile(depth, x + i, ldx, to, NULL);
    else
      for (int p = 0; p < depth; p += 2) {
        const real *from = x + p * ldx + i;
        const __mmask16 one = first_lanes(rows), other = p + 1 < depth ? one : 0;
        _mm512_mask_i32scatter_epi32(
            a + (ptrdiff_t)i * lda + p / 2, one, row,
            pair_lanes(_mm512_maskz_loadu_ps(one, from), _mm512_maskz_loadu_ps(other, from + ldx)),
            sizeof(uint32_t));
      }
  }
}

static void pair_group(int depth, int cols, const real *x, ptrdiff_t ldx, uint32_t *b) {
  const __mmask16 present = first_lanes(cols);
  for (int p = 0; p < depth; p += 2, x += 2 * ldx, b += GROUP) {
    __builtin_prefetch(x + COLUMNS_AHEAD * ldx);
    __builtin_prefetch(x + (COLUMNS_AHEAD + 1) * ldx);
    const __m512 low = _mm512_maskz_loadu_ps(present, x);
    const __m512 high = _mm512_maskz_loadu_ps(p + 1 < depth ? present : 0, x + ldx);
    _mm512_storeu_si512(b, pair_lanes(low, high));
  }
}

/* ---- compact weights to pairs ----
 * Lines are fetched a block of a panel ahead: groups are unpacked in turns, so that the CPU sees
 * short streams only. */
enum { WIDEN_AHEAD = 4096 };

static void widen_f32(int depth, const float *x, ptrdiff_t ldx, uint32_t *b) {
  for (; depth >= 2; depth -= 2, x += 2 * ldx, b += GROUP) {
    __builtin_prefetch(x + WIDEN_AHEAD / 64 * ldx);
    __builtin_prefetch(x + (WIDEN_AHEAD / 64 + 1) * ldx);
    _mm512_storeu_si512(b, pair_lanes(_mm512_loadu_ps(x), _mm512_loadu_ps(x + ldx)));
  }
  if (depth) _mm512_storeu_si512(b, pair_lanes(_mm512_loadu_ps(x), _mm512_setzero_ps()));
}

static inline __m512 f16_at(const uint16_t *x) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)x));
}
static void widen_f16(int depth, const uint16_t *x, uint32_t *b) {
  for (; depth >= 2; depth -= 2, x += 2 * GROUP, b += GROUP) {
    __builtin_prefetch((const char *)x + 2 * WIDEN_AHEAD);
    _mm512_storeu_si512(b, pair_lanes(f16_at(x), f16_at(x + GROUP)));
  }
  if (depth) _mm512_storeu_si512(b, pair_lanes(f16_at(x), _mm512_setzero_ps()));
}

static inline __m512 int8_at(const int8_t *q, __m512 scale) {
  const __m512i wide = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)q));
  return _mm512_mul_ps(_mm512_cvtepi32_ps(wide), scale);
}
static void widen_int8(int depth, const int8_t *q, const real *scale, uint32_t *b) {
  const __m512 s = _mm512_loadu_ps(scale);
  for (; depth >= 2; depth -= 2, q += 2 * GROUP, b += GROUP) {
    __builtin_prefetch((const char *)q + WIDEN_AHEAD);
    _mm512_storeu_si512(b, pair_lanes(int8_at(q, s), int8_at(q + GROUP, s)));
  }
  if (depth) _mm512_storeu_si512(b, pair_lanes(int8_at(q, s), _mm512_setzero_ps()));
}

static void widen_nf4(int depth, const uint32_t *cells, const real *scale, uint32_t *b) {
  const __m512 table = _mm512_loadu_ps(nf4_code), s = _mm512_loadu_ps(scale);
  for (; depth > 0; depth -= 8, cells += GROUP) {
    __m512i code = _mm512_loadu_si512(cells);
    __builtin_prefetch((const char *)cells + WIDEN_AHEAD / 2);
    for (int p = 0; p < kern_min(depth, 8); p += 2, b += GROUP) {
      const __m512 low = _mm512_permutexvar_ps(code, table);
      const __m512 high = _mm512_permutexvar_ps(_mm512_srli_epi32(code, 4), table);
      _mm512_storeu_si512(b, pair_lanes(_mm512_mul_ps(low, s), _mm512_mul_ps(high, s)));
      code = _mm512_srli_epi32(code, 8);
    }
  }
}

/* ---- pairs of inner steps to pairs of outputs ----
 * 8 lines of 16 words are 8 x 16 x 2 = 256 values.  Interleaving the first 4 lines with the last 4,
 * three times, brings the outputs' upper bits to the front; the third time the steps are put in
 * order too. */
static inline __m512i pick(__m512i a, const uint16_t index[32], int add, __m512i b) {
  const __m512i i = _mm512_add_epi16(_mm512_loadu_si512(index), _mm512_set1_epi16((short)add));
  return _mm512_permutex2var_epi16(a, i, b);
}

static void turn(int lines, const uint32_t *w, uint32_t *out, ptrdiff_t bgs) {
  enum { LINES = GROUP / 2 };
  for (int at = 0; at < lines; at += LINES, w += LINES * GROUP, out += bgs) {
    __m512i a[LINES], b[LINES];
    UNROLL for (int i = 0; i < LINES; i++) a[i] =
        at + i < lines ? _mm512_loadu_si512(w + i * GROUP) : _mm512_setzero_si512();
    UNROLL for (int round = 0; round < 3; round++) {
      const uint16_t *index = round < 2 ? zip_index : turn_index;
      UNROLL for (int i = 0; i < LINES / 2; i++) {
        b[2 * i] = pick(a[i], index, 0, a[i + LINES / 2]);
        b[2 * i + 1] = pick(a[i], index, 16, a[i + LINES / 2]);
      }
      UNROLL for (int i = 0; i < LINES; i++) a[i] = b[i];
    }
    UNROLL for (int i = 0; i < LINES; i++) _mm512_storeu_si512(out + i * GROUP, a[i]);
  }
}

const Kernels16 kern_avx512bf16 = {
    .mr = TILE16_MR,
    .block = block16,
    .strided = block16_strided,
    .pair_rows = pair_rows,
    .pair_row = pair_row,
    .pair_columns = pair_columns,
    .pair_group = pair_group,
    .widen_f32 = widen_f32,
    .widen_f16 = widen_f16,
    .widen_int8 = widen_int8,
    .widen_nf4 = widen_nf4,
    .turn = turn,
};
