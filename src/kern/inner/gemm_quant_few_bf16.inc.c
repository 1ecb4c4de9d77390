/* gemm_quant_few_bf16.inc.c - few rows of bf16 pairs times a quantised weight, by AVX-512 with
 * BF16.  Each pair of values goes from its codes to the multiply-add within registers, so that
 * decoding reads the weight once and stores no copy.  A whole tile of rows by NF4 goes another way,
 * which gemm_nf4_bf16.inc.c has.
 *
 * Values are those of pack_bf16_avx512.inc.c, and sums those of gemm_tile_bf16.inc.c: pairs in
 * order, one accumulator per output. */
enum {
  QUANT_BF16_GROUPS = 6, /* of a tile at most */
  QUANT_BF16_MANY = 4,   /* rows from which on products are what takes the time */
  QUANT_BF16_AHEAD = 48, /* lines that are prefetched: too many streams for the CPU */
  QUANT_LINE = 64        /* bytes */
};

/* pairs of a group in one cache line */
static inline __attribute__((always_inline)) int quant_line_pairs(const QuantType type) {
  return type == QUANT_NF4 ? 4 : type == QUANT_INT8 ? 2 : 1;
}

/* scale[0] becomes its first 8 lanes, each twice, and scale[1] the others. */
static inline __attribute__((always_inline)) void each_twice(__m512 scale[2]) {
  const __m512i half = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  scale[1] = _mm512_permutexvar_ps(_mm512_or_si512(half, _mm512_set1_epi32(8)), scale[0]);
  scale[0] = _mm512_permutexvar_ps(half, scale[0]);
}

/* Two steps of INT8 as pairs, with scales of each_twice.  Bytes are interleaved before they become
 * floats, which any unit of the CPU can do; ordering products takes a unit that multiplies. */
static inline __attribute__((always_inline)) __m512i int8_pair(const int8_t *q, const bool high,
                                                             const __m512 scale[2]) {
  const __m128i a = _mm_loadu_si128((const void *)q);
  const __m128i b = high ? _mm_loadu_si128((const void *)(q + GROUP)) : _mm_setzero_si128();
  const __m512i first = _mm512_cvtepi8_epi32(_mm_unpacklo_epi8(a, b));
  const __m512i other = _mm512_cvtepi8_epi32(_mm_unpackhi_epi8(a, b));
  return (__m512i)_mm512_cvtne2ps_pbh(_mm512_mul_ps(_mm512_cvtepi32_ps(other), scale[1]),
                                      _mm512_mul_ps(_mm512_cvtepi32_ps(first), scale[0]));
}

/* Pair s of a group of outputs, counted from the line at `w`; high: is there a second step?  twice:
 * INT8 with scales of each_twice; else only scale[0] is read. */
static inline __attribute__((always_inline)) __m512i quant_pair(const QuantType type, const char *w,
                                                              const int s, const bool high,
                                                              const bool twice,
                                                              const __m512 scale[2],
                                                              __m512 table) {
  const int steps = 2 * s * GROUP;
  if (type == QUANT_NF4) {
    const __m512i code = _mm512_loadu_si512(w + s / 4 * QUANT_LINE);
    const __m512 a = _mm512_permutexvar_ps(_mm512_srli_epi32(code, (unsigned)(s % 4 * 8)), table);
    const __m512 b =
        _mm512_permutexvar_ps(_mm512_srli_epi32(code, (unsigned)(s % 4 * 8 + 4)), table);
    return pair_lanes(_mm512_mul_ps(a, scale[0]), _mm512_mul_ps(b, scale[0]));
  }
  const __m512 none = _mm512_setzero_ps();
  if (type == QUANT_INT8) {
    const int8_t *q = (const int8_t *)w + steps;
    if (twice) return int8_pair(q, high, scale);
    return pair_lanes(int8_at(q, scale[0]), high ? int8_at(q + GROUP, scale[0]) : none);
  }
  const uint16_t *x = (const uint16_t *)(const void *)w + steps;
  return pair_lanes(f16_at(x), high ? f16_at(x + GROUP) : none);
}

/* A tile's pairs are unpacked while the pairs before them are multiplied: the CPU's window is too
 * short to find both kinds of work by itself. */
static inline __attribute__((always_inline)) void
quant_tile_bf16(const QuantType type, const int mr, const int ng, const QuantFewBf16 *q) {
  const int line = quant_line_pairs(type);
  const ptrdiff_t ars = mr == TILE_BF16_MR ? 1 : q->lda, aps = mr == TILE_BF16_MR ? mr : 1;
  const ptrdiff_t stride = q->stride, ldc = q->ldc;
  const int span = type == QUANT_NF4 ? NF4_BLOCK : q->depth; /* inner steps that share scales */
  /* behind a group's last line of this block the next tile's are prefetched */
  const ptrdiff_t bytes = (ptrdiff_t)ceil_div(q->depth, 2 * line) * QUANT_LINE;
  const ptrdiff_t over = ng * stride - bytes, within = bytes - QUANT_BF16_AHEAD * QUANT_LINE;
  const bool twice = type == QUANT_INT8 && mr >= QUANT_BF16_MANY;
  const __m512 table = _mm512_loadu_ps(nf4_code);
  const uint32_t *a = q->a;
  const char *w = q->w;
  const real *scales = q->scale;
  vec acc[TILE_BF16_MR][QUANT_BF16_GROUPS];
  __m512 scale[QUANT_BF16_GROUPS][2];
  __m512i now[QUANT_BF16_GROUPS], then[QUANT_BF16_GROUPS];
#define EACH_GROUP UNROLL for (int g = 0; g < ng; g++)
#define QUANT_PAIRS(to, s, high)                                                                   \
  EACH_GROUP to[g] = quant_pair(type, w + g * stride, s, high, twice, scale[g], table)
#define QUANT_DOT()                                                                                \
  UNROLL for (int i = 0; i < mr; i++) {                                                            \
    const ivec x = v_word(a + i * ars);                                                            \
    EACH_GROUP acc[i][g] = v_dot(acc[i][g], x, (ivec)now[g]);                                      \
  }                                                                                                \
  a += aps
  EACH_GROUP {
    const vec first = q->bias ? v_load(q->bias + g * GROUP) : v_set(0);
    UNROLL for (int i = 0; i < mr; i++) acc[i][g] =
        q->add ? v_load(q->c + i * ldc + g * GROUP) : first;
    now[g] = _mm512_setzero_si512();
  }
  int at = 0;
  do {
    const int pairs = span / 2;
    int p = 0;
    EACH_GROUP {
      scale[g][0] = _mm512_loadu_ps(scales + g * GROUP);
      if (twice) each_twice(scale[g]);
    }
    if (pairs > 0) QUANT_PAIRS(now, 0, true);
    for (; p + line < pairs; p += line, w += QUANT_LINE) {
      const bool over_end = w - (const char *)q->w >= within;
      const ptrdiff_t fetch = QUANT_BF16_AHEAD * QUANT_LINE + (over_end ? over : 0);
      EACH_GROUP __builtin_prefetch(w + g * stride + fetch);
      UNROLL for (int s = 0; s < line; s++) {
        QUANT_PAIRS(then, s + 1, true);
        QUANT_DOT();
        EACH_GROUP now[g] = then[g];
      }
    }
    UNROLL for (int s = 0; s < line; s++) {
      if (p + s >= pairs) break;
      EACH_GROUP then[g] = now[g];
      if (p + s + 1 < pairs) QUANT_PAIRS(then, s + 1, true);
      QUANT_DOT();
      EACH_GROUP now[g] = then[g];
    }
    if (type == QUANT_NF4) w += QUANT_LINE;
    at += span, scales += q->scale_ld;
  } while (at < q->depth);
  if (type != QUANT_NF4 && q->depth % 2) {
    w = (const char *)q->w + (ptrdiff_t)(q->depth / 2) * (QUANT_LINE / line);
    QUANT_PAIRS(now, 0, false);
    QUANT_DOT();
  }
  UNROLL for (int i = 0; i < mr; i++)
      EACH_GROUP v_store(q->c + i * ldc + g * GROUP, acc[i][g]);
#undef EACH_GROUP
#undef QUANT_PAIRS
#undef QUANT_DOT
}

#define QUANT_BF16_SIZES(X, type)                                                                  \
  X(type, 1, 6) X(type, 2, 6) X(type, 3, 3) X(type, 4, 3) X(type, 5, 3) X(type, 6, 3)              \
  X(type, 7, 3) X(type, 8, 3)
#define QUANT_BF16_TILE(type, m, g)                                                                \
  static void quant_bf16_##type##_##m(const QuantFewBf16 *q) {                                     \
    quant_tile_bf16(QUANT_##type, m, g, q);                                                        \
  }                                                                                                \
  static void quant_bf16_##type##_##m##_last(const QuantFewBf16 *q) {                              \
    quant_tile_bf16(QUANT_##type, m, 1, q);                                                        \
  }
#include "kern/inner/gemm_nf4_bf16.inc.c"

QUANT_BF16_SIZES(QUANT_BF16_TILE, F16)
QUANT_BF16_SIZES(QUANT_BF16_TILE, INT8)
QUANT_BF16_SIZES(QUANT_BF16_TILE, NF4)

typedef void QuantBf16Fn(const QuantFewBf16 *q);
typedef struct QuantBf16Tile {
  int groups;
  QuantBf16Fn *whole, *last; /* for `groups` groups; for one */
} QuantBf16Tile;
#define QUANT_BF16_ENTRY(type, m, g)                                                               \
  [QUANT_##type][(m)-1] = {g, quant_bf16_##type##_##m, quant_bf16_##type##_##m##_last},
static const QuantBf16Tile quant_bf16_tiles[QUANT_TYPES][TILE_BF16_MR] = {
    QUANT_BF16_SIZES(QUANT_BF16_ENTRY, F16) QUANT_BF16_SIZES(QUANT_BF16_ENTRY, INT8)
        QUANT_BF16_SIZES(QUANT_BF16_ENTRY, NF4)};

static const QuantBf16Tile nf4_whole = {NF4_TILE_GROUPS, nf4_tile, quant_bf16_NF4_8_last};

static void quant_few_bf16(const QuantFewBf16 *q) {
  const bool nf4 = q->type == QUANT_NF4 && q->rows == TILE_BF16_MR;
  const QuantBf16Tile *t = nf4 ? &nf4_whole : &quant_bf16_tiles[q->type][q->rows - 1];
  QuantFewBf16 part = *q;
  for (int g = 0, n; g < q->groups; g += n) {
    n = q->groups - g >= t->groups ? t->groups : 1;
    part.w = (const char *)q->w + g * q->stride;
    part.scale = q->scale + g * GROUP;
    part.bias = q->bias ? q->bias + g * GROUP : NULL;
    part.c = q->c + g * GROUP;
    (n > 1 ? t->whole : t->last)(&part);
  }
}
