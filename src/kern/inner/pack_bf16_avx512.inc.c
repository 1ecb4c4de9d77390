/* pack_bf16_avx512.inc.c - packing reals and quantised weights into bf16 pairs by AVX-512 with
 * BF16, for all tables of KernelsBf16 on x86. */
/* index of 16-bit values: 32 and above are the second operand */
static const uint16_t pair_index[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                        21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                        11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
static const uint16_t zip_index[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                       37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                       11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
static const uint16_t turn_index[32] = {0, 8,  4, 12, 32, 40, 36, 44, 1, 9,  5, 13, 33, 41, 37, 45,
                                        2, 10, 6, 14, 34, 42, 38, 46, 3, 11, 7, 15, 35, 43, 39, 47};

/* ---- float to pairs; subnormals become zeros, as in products ---- */

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

/* Whole vectors are stored without a mask: what was stored with one cannot be read before it is in
 * the cache. */
static void pair_row(int k, const real *x, uint32_t *a) {
  int p = 0;
  for (; p + 32 <= k; p += 32)
    _mm512_storeu_si512(a + p / 2, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + p + 16),
                                                                _mm512_loadu_ps(x + p)));
  for (; p < k; p += 32)
    _mm512_mask_storeu_epi32(a + p / 2, first_lanes((k - p + 1) / 2), pairs_at(x + p, k - p));
}

static void half_row(int k, bool high, const real *x, uint32_t *words) {
  const __m512i others = _mm512_set1_epi32(high ? 0xffff : (int)0xffff0000u);
  const __m128i up = _mm_cvtsi32_si128(high ? 16 : 0);
  for (int c = 0; c < k; c += GROUP, words += GROUP) {
    const __m256i half =
        (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(first_lanes(k - c), x + c));
    const __m512i mine = _mm512_sll_epi32(_mm512_cvtepu16_epi32(half), up);
    const __m512i rest = _mm512_and_si512(_mm512_loadu_si512(words), others);
    _mm512_storeu_si512(words, _mm512_or_si512(mine, rest));
  }
}

static inline __m512i zip_low(__m512i a, __m512i b) {
  const __m512i i = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return _mm512_permutex2var_epi32(a, i, b);
}
static inline __m512i zip_high(__m512i a, __m512i b) {
  const __m512i i = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return _mm512_permutex2var_epi32(a, i, b);
}

enum { VALUES_AHEAD = 64 }; /* lines of each row that are prefetched */

static void pair_group(int depth, int cols, const real *x, ptrdiff_t ldx, uint32_t *b) {
  const __mmask16 present = first_lanes(cols);
  for (int p = 0; p < depth; p += 2, x += 2 * ldx, b += GROUP) {
    __builtin_prefetch(x + VALUES_AHEAD);
    __builtin_prefetch(x + VALUES_AHEAD + ldx);
    const __m512 low = _mm512_maskz_loadu_ps(present, x);
    const __m512 high = _mm512_maskz_loadu_ps(p + 1 < depth ? present : 0, x + ldx);
    _mm512_storeu_si512(b, pair_lanes(low, high));
  }
}

static void blend(int lines, int lanes, const uint32_t *a, const uint32_t *b, uint32_t *to) {
  const __mmask16 from_a = first_lanes(lanes);
  for (int i = 0; i < lines; i++, a += GROUP, b += GROUP, to += GROUP)
    _mm512_storeu_si512(
        to, _mm512_mask_mov_epi32(_mm512_loadu_si512(b), from_a, _mm512_loadu_si512(a)));
}

/* ---- quantised weights to pairs ----
 * Lines are prefetched a block of a panel ahead: groups are unpacked alternately, so that the
 * CPU sees short streams only. */
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
    for (int p = 0; p < min_int(depth, 8); p += 2, b += GROUP) {
      const __m512 low = _mm512_permutexvar_ps(code, table);
      const __m512 high = _mm512_permutexvar_ps(_mm512_srli_epi32(code, 4), table);
      _mm512_storeu_si512(b, pair_lanes(_mm512_mul_ps(low, s), _mm512_mul_ps(high, s)));
      code = _mm512_srli_epi32(code, 8);
    }
  }
}

/* ---- pairs of inner steps to pairs of outputs ----
 * 8 lines of 16 pairs are 8 x 16 x 2 = 256 values.  Interleaving the first 4 lines with the
 * last 4, three times, brings the outputs' upper bits to the front; the third time also orders
 * the steps. */
static inline __m512i pick(__m512i a, const uint16_t index[32], int add, __m512i b) {
  const __m512i i = _mm512_add_epi16(_mm512_loadu_si512(index), _mm512_set1_epi16((short)add));
  return _mm512_permutex2var_epi16(a, i, b);
}

static void transpose_pairs(int lines, const uint32_t *w, uint32_t *out, ptrdiff_t bgs) {
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

/* The functions of this file, and two that its includer defines, in a table. */
#define PACKING_BF16                                                                               \
  .blend = blend, .pair_rows = pair_rows, .pair_row = pair_row, .half_row = half_row,              \
  .pair_columns = pair_columns, .pair_group = pair_group, .widen_f32 = widen_f32,                  \
  .widen_f16 = widen_f16, .widen_int8 = widen_int8, .widen_nf4 = widen_nf4,                        \
  .transpose = transpose_pairs
