/* avx512bf16.c - products of bf16 by AVX512_BF16, two multiply-adds per lane and instruction.  A
 * CPU that has it uses avx512.c's table for everything else, with the same bits. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kern/kernels.h"
#include "kern/kv.h"

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

#define TILE_BF16_MR      8
#define TILE_BF16_MOST_NG 6
#define TILE_BF16_MAXV    6
#define FEW_BF16(X, m)    X(m, 1) X(m, 2) X(m, 3) X(m, 4) X(m, 5) X(m, 6)
#define MORE_BF16(X, m)   X(m, 1) X(m, 2) X(m, 3)
#define TILES_BF16(X)                                                                              \
  FEW_BF16(X, 1)                                                                                   \
  FEW_BF16(X, 2)                                                                                   \
  FEW_BF16(X, 3) FEW_BF16(X, 4) MORE_BF16(X, 5) MORE_BF16(X, 6) MORE_BF16(X, 7) MORE_BF16(X, 8)
#define NEAR_BF16(X) MORE_BF16(X, 8)
#include "kern/inner/gemm_tile_bf16.inc.c"

#include "kern/inner/attention_tile_bf16.inc.c" /* uses the tile's sizes */

#include "kern/inner/pack_bf16_avx512.inc.c"

#include "kern/inner/gemm_quant_few_bf16.inc.c" /* uses the packing's values and the tile's sizes */

#include "kern/inner/attention_softmax_bf16.inc.c" /* uses the packing's masks */

/* ---- attention: nothing has to be prepared ---- */
static void no_rows(int upper, int lower) { (void)upper, (void)lower; }
static void no_end(void) {}

/* A call with this many keys is mostly followed by one with the next keys. */
enum { MANY_KEYS = 512 };

static void scores(int m, int n, int pairs, const uint32_t *a, ptrdiff_t ars, const uint32_t *b,
                   ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add, Fetch *next) {
  fetch_rest(next);
  strided(m, n, pairs, a, ars, b, GROUP, bgs, c, ldc, add, pairs, n >= MANY_KEYS);
}

static void values(int m, int n, int pairs, const uint32_t *a, ptrdiff_t ars, const uint32_t *first,
                   const uint32_t *b, ptrdiff_t bps, real *c, ptrdiff_t ldc, bool add,
                   Fetch *next) {
  const int before = first ? KV_UNIT / 2 : 0;
  fetch_rest(next);
  if (first) strided(m, n, before, a, ars, first, bps, GROUP, c, ldc, add, before, false);
  if (pairs)
    strided(m, n, pairs, a + before, ars, b, bps, GROUP, c, ldc, add || first, CHUNK_PAIRS,
            pairs >= MANY_KEYS / 2);
}

/* ---- rows ---- */

/* Interleaving the first half of 8 rows with the second, three times, transposes [row][pair] to
 * [pair][row]. */
static void pair_tile(int k, const real *x, ptrdiff_t ldx, uint32_t *a) {
  for (int p = 0; p < k; p += 32, a += 16 * TILE_BF16_MR) {
    __m512i row[TILE_BF16_MR], next[TILE_BF16_MR];
    UNROLL for (int i = 0; i < TILE_BF16_MR; i++) row[i] = pairs_at(x + i * ldx + p, k - p);
    UNROLL for (int round = 0; round < 3; round++) {
      UNROLL for (int i = 0; i < TILE_BF16_MR / 2; i++) {
        next[2 * i] = zip_low(row[i], row[i + TILE_BF16_MR / 2]);
        next[2 * i + 1] = zip_high(row[i], row[i + TILE_BF16_MR / 2]);
      }
      UNROLL for (int i = 0; i < TILE_BF16_MR; i++) row[i] = next[i];
    }
    const int words = (k - p + 1) / 2 * TILE_BF16_MR;
    UNROLL for (int i = 0; i < TILE_BF16_MR; i++)
        _mm512_mask_storeu_epi32(a + 16 * i, first_lanes(words - 16 * i), row[i]);
  }
}

static void pair_rows(int m, int k, const real *x, ptrdiff_t ldx, uint32_t *a) {
  const ptrdiff_t lda = ceil_div(k, 2);
  for (int i = 0, rows; i < m; i += rows) {
    rows = tile_bf16_rows(m - i);
    if (rows == TILE_BF16_MR)
      pair_tile(k, x + i * ldx, ldx, a + i * lda);
    else
      for (int r = i; r < i + rows; r++) pair_row(k, x + r * ldx, a + r * lda);
  }
}

/* 8 columns, or 16 for two tiles: a pair of each from two rows */
static void pair_column_tile(int depth, const real *x, ptrdiff_t ldx, uint32_t *a,
                             uint32_t *other) {
  const __mmask16 present = other ? 0xffff : 0xff;
  for (int p = 0; p < depth; p += 2, x += 2 * ldx, a += TILE_BF16_MR) {
    __builtin_prefetch(x + VALUES_AHEAD);
    __builtin_prefetch(x + VALUES_AHEAD + ldx);
    const __m512 high = _mm512_maskz_loadu_ps(p + 1 < depth ? present : 0, x + ldx);
    const __m512i pairs = pair_lanes(_mm512_maskz_loadu_ps(present, x), high);
    _mm256_storeu_si256((void *)a, _mm512_castsi512_si256(pairs));
    if (!other) continue;
    _mm256_storeu_si256((void *)other, _mm512_extracti64x4_epi64(pairs, 1));
    other += TILE_BF16_MR;
  }
}

static void pair_columns(int m, int depth, const real *x, ptrdiff_t ldx, ptrdiff_t pairs, int p0,
                         uint32_t *a) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i row = _mm512_mullo_epi32(lanes, _mm512_set1_epi32((int)pairs));
  for (int i = 0, rows; i < m; i += rows) {
    const int left = m - i;
    uint32_t *to = a + i * pairs;
    rows = tile_bf16_rows(left);
    if (left == 2 * TILE_BF16_MR || left >= 3 * TILE_BF16_MR) {
      rows = 2 * TILE_BF16_MR;
      to += p0 * TILE_BF16_MR;
      pair_column_tile(depth, x + i, ldx, to, to + TILE_BF16_MR * pairs);
    } else if (rows == TILE_BF16_MR)
      pair_column_tile(depth, x + i, ldx, to + p0 * TILE_BF16_MR, NULL);
    else
      for (int p = 0; p < depth; p += 2) {
        const real *from = x + p * ldx + i;
        const __mmask16 one = first_lanes(rows), other = p + 1 < depth ? one : 0;
        _mm512_mask_i32scatter_epi32(
            to + p0 + p / 2, one, row,
            pair_lanes(_mm512_maskz_loadu_ps(one, from), _mm512_maskz_loadu_ps(other, from + ldx)),
            sizeof(uint32_t));
      }
  }
}

const KernelsBf16 kern_avx512bf16 = {
    .mr = TILE_BF16_MR,
    .unit = 1,
    .rows = 256,
    .pairs = 256, /* a panel of them stays in L1 */
    .groups = 3,
    .few = 4,
    .few_groups = TILE_BF16_MOST_NG,
    .few_fetch = true,
    .block = block_bf16,
    .quant_few = quant_few_bf16,
    .begin = no_rows,
    .end = no_end,
    .scores = scores,
    .values = values,
    .softmax = softmax_bf16,
    PACKING_BF16,
};
