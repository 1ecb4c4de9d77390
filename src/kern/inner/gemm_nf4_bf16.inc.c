/* gemm_nf4_bf16.inc.c - a whole tile of rows of bf16 pairs times an NF4 weight, by AVX-512 with
 * BF16.  gemm_quant_few_bf16.inc.c, which includes this file, has the same product for any number
 * of rows; there each value costs a multiplication, and multiplications take the place of products
 * (vdpbf16ps runs on the same two units).
 *
 * Here the 16 bf16 values that a block has for an output are computed once for its 64 steps.  Codes
 * select bytes from them, low and high halves apart, and interleaving puts a pair of steps of 16
 * outputs side by side: shuffles, of which the CPU has units to spare.  Values and sums are the
 * same. */
enum {
  NF4_TILE_GROUPS = 2,
  NF4_TILE_STEPS = 16, /* inner steps that are unpacked while those before them are multiplied */
  NF4_TILE_PAIRS = NF4_TILE_STEPS / 2,
  NF4_TILE_BYTES = NF4_TILE_STEPS * GROUP / 2, /* of their codes */
  NF4_TILE_PARTS = NF4_BLOCK / NF4_TILE_STEPS,
  NF4_TILE_AHEAD = 48 * QUANT_LINE /* bytes of a group that are prefetched */
};
#define TILE_INLINE static inline __attribute__((always_inline))

/* The values of a block in bytes: 128-bit lane l of number v holds those of output 4 l + v. */
typedef struct Nf4Bytes {
  __m512i low[4], high[4];
} Nf4Bytes;

/* The low bytes of a lane's 8 values, then the high ones. */
static const uint8_t split_bytes[16] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};

/* Eight values of outputs v, 4 + v, 8 + v and 12 + v, split; code: of their codes, twice. */
TILE_INLINE __m512i nf4_split(__m512 code, __m512 first, __m512 other) {
  const __m512i split = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)split_bytes));
  return _mm512_shuffle_epi8((__m512i)_mm512_cvtne2ps_pbh(code * other, code * first), split);
}

TILE_INLINE void nf4_bytes(const int v, const real *scales, Nf4Bytes *t) {
  const __m512 scale = _mm512_loadu_ps(scales);
  const __m512i half = _mm512_setr_epi32(v, v, v, v, v, v, v, v, v + 4, v + 4, v + 4, v + 4, v + 4,
                                         v + 4, v + 4, v + 4);
  const __m512 first = _mm512_permutexvar_ps(half, scale);
  const __m512 other = _mm512_permutexvar_ps(_mm512_or_si512(half, _mm512_set1_epi32(8)), scale);
  const __m512i a = nf4_split(_mm512_broadcast_f32x8(_mm256_loadu_ps(nf4_code)), first, other);
  const __m512i b = nf4_split(_mm512_broadcast_f32x8(_mm256_loadu_ps(nf4_code + 8)), first, other);
  t->low[v] = _mm512_unpacklo_epi64(a, b);
  t->high[v] = _mm512_unpackhi_epi64(a, b);
}

/* A part's codes, and pairs of its values, between the stages of unpacking.  Lane l of code[v] has
 * the codes of output 4 l + v.  Lane l of words[v][i] has pairs 2 i and 2 i + 1 of outputs 4 l + v
 * and 4 l + v + 2. */
typedef struct Nf4Part {
  __m512i code[4], words[2][4];
} Nf4Part;

TILE_INLINE void nf4_split_codes(const char *w, Nf4Part *p) {
  const __m512i mask = _mm512_set1_epi8(15);
  __m512i four[2][2]; /* of each cell: codes of outputs 4 l, 4 l + 1; the others */
  UNROLL for (int i = 0; i < 2; i++) {
    const __m512i cell = _mm512_loadu_si512(w + i * QUANT_LINE);
    const __m512i even = _mm512_and_si512(cell, mask);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(cell, 4), mask);
    four[i][0] = _mm512_unpacklo_epi8(even, odd), four[i][1] = _mm512_unpackhi_epi8(even, odd);
  }
  UNROLL for (int i = 0; i < 2; i++) {
    p->code[2 * i] = _mm512_unpacklo_epi64(four[0][i], four[1][i]);
    p->code[2 * i + 1] = _mm512_unpackhi_epi64(four[0][i], four[1][i]);
  }
}

/* v: 0, 1 */
TILE_INLINE void nf4_look_up(const Nf4Bytes *t, const int v, Nf4Part *p) {
  __m512i low[2], high[2]; /* 4 pairs of output v; of output v + 2 */
  UNROLL for (int i = 0; i < 2; i++) {
    const __m512i code = p->code[v + 2 * i];
    const __m512i a = _mm512_shuffle_epi8(t->low[v + 2 * i], code);
    const __m512i b = _mm512_shuffle_epi8(t->high[v + 2 * i], code);
    low[i] = _mm512_unpacklo_epi8(a, b), high[i] = _mm512_unpackhi_epi8(a, b);
  }
  p->words[v][0] = _mm512_unpacklo_epi32(low[0], low[1]);
  p->words[v][1] = _mm512_unpackhi_epi32(low[0], low[1]);
  p->words[v][2] = _mm512_unpacklo_epi32(high[0], high[1]);
  p->words[v][3] = _mm512_unpackhi_epi32(high[0], high[1]);
}

/* out[pair][group] */
TILE_INLINE void nf4_put_pairs(const Nf4Part *p, __m512i *out) {
  UNROLL for (int i = 0; i < 4; i++) {
    out[2 * i * NF4_TILE_GROUPS] = _mm512_unpacklo_epi32(p->words[0][i], p->words[1][i]);
    out[(2 * i + 1) * NF4_TILE_GROUPS] = _mm512_unpackhi_epi32(p->words[0][i], p->words[1][i]);
  }
}

typedef vec Nf4Sums[TILE_BF16_MR][NF4_TILE_GROUPS];

typedef struct Nf4Tile {
  __m512i pairs[2][NF4_TILE_PAIRS][NF4_TILE_GROUPS]; /* those that are multiplied, and the next */
  Nf4Bytes bytes[2][NF4_TILE_GROUPS];                /* of this block and the next */
} Nf4Tile;

TILE_INLINE void nf4_dot(const uint32_t *a, const __m512i *pair, Nf4Sums sum) {
  const ivec b0 = (ivec)pair[0], b1 = (ivec)pair[1];
  UNROLL for (int i = 0; i < TILE_BF16_MR; i++) {
    const ivec x = v_word(a + i);
    sum[i][0] = v_dot(sum[i][0], x, b0);
    sum[i][1] = v_dot(sum[i][1], x, b1);
  }
}

/* Makes the bytes of the next block in the first three of a block's parts. */
TILE_INLINE void nf4_next_bytes(int part, const real *scales, Nf4Bytes *t) {
  const real *s[NF4_TILE_GROUPS] = {scales, scales + GROUP};
  if (part == 0)
    nf4_bytes(0, s[0], &t[0]), nf4_bytes(0, s[1], &t[1]), nf4_bytes(1, s[0], &t[0]);
  else if (part == 1)
    nf4_bytes(1, s[1], &t[1]), nf4_bytes(2, s[0], &t[0]), nf4_bytes(2, s[1], &t[1]);
  else if (part == 2)
    nf4_bytes(3, s[0], &t[0]), nf4_bytes(3, s[1], &t[1]);
}

/* The bytes of the first block, and the first part's pairs. */
TILE_INLINE void nf4_tile_begin(const QuantFewBf16 *q, Nf4Tile *t, Nf4Sums sum) {
  UNROLL for (int g = 0; g < NF4_TILE_GROUPS; g++) {
    const vec first = q->bias ? v_load(q->bias + g * GROUP) : v_set(0);
    UNROLL for (int i = 0; i < TILE_BF16_MR; i++) sum[i][g] =
        q->add ? v_load(q->c + i * q->ldc + g * GROUP) : first;
    UNROLL for (int v = 0; v < 4; v++) nf4_bytes(v, q->scale + g * GROUP, &t->bytes[0][g]);
    Nf4Part p;
    nf4_split_codes((const char *)q->w + g * q->stride, &p);
    nf4_look_up(&t->bytes[0][g], 0, &p);
    nf4_look_up(&t->bytes[0][g], 1, &p);
    nf4_put_pairs(&p, &t->pairs[0][0][g]);
  }
}

static void nf4_tile(const QuantFewBf16 *q) {
  const ptrdiff_t bytes = (ptrdiff_t)q->depth * (GROUP / 2), stride = q->stride;
  const int parts = q->depth / NF4_TILE_STEPS;
  const uint32_t *a = q->a;
  Nf4Tile t;
  Nf4Sums sum;
  nf4_tile_begin(q, &t, sum);
  for (int i = 0; i < parts; i++, a += NF4_TILE_PAIRS * TILE_BF16_MR) {
    const int then = min_int(i + 1, parts - 1), block = i / NF4_TILE_PARTS;
    const char *w = (const char *)q->w + (ptrdiff_t)then * NF4_TILE_BYTES;
    /* behind a group's last line of this block the next tile's are prefetched */
    const ptrdiff_t at = (ptrdiff_t)i * NF4_TILE_BYTES + NF4_TILE_AHEAD;
    const char *fetch =
        (const char *)q->w + at + (at >= bytes ? NF4_TILE_GROUPS * stride - bytes : 0);
    UNROLL for (int g = 0; g < NF4_TILE_GROUPS; g++)
        UNROLL for (int line = 0; line < NF4_TILE_BYTES; line += QUANT_LINE)
            __builtin_prefetch(fetch + g * stride + line);
    const Nf4Bytes *now = t.bytes[then / NF4_TILE_PARTS % 2];
    const int later = min_int(block + 1, parts / NF4_TILE_PARTS - 1);
    nf4_next_bytes(i % NF4_TILE_PARTS, q->scale + later * q->scale_ld, t.bytes[(block + 1) % 2]);
    const __m512i *pair = t.pairs[i % 2][0];
    __m512i *next = t.pairs[(i + 1) % 2][0];
    UNROLL for (int g = 0; g < NF4_TILE_GROUPS; g++) {
      Nf4Part p;
      nf4_dot(a + 4 * g * TILE_BF16_MR, pair + 4 * g * NF4_TILE_GROUPS, sum);
      nf4_split_codes(w + g * stride, &p);
      nf4_dot(a + (4 * g + 1) * TILE_BF16_MR, pair + (4 * g + 1) * NF4_TILE_GROUPS, sum);
      nf4_look_up(&now[g], 0, &p);
      nf4_dot(a + (4 * g + 2) * TILE_BF16_MR, pair + (4 * g + 2) * NF4_TILE_GROUPS, sum);
      nf4_look_up(&now[g], 1, &p);
      nf4_dot(a + (4 * g + 3) * TILE_BF16_MR, pair + (4 * g + 3) * NF4_TILE_GROUPS, sum);
      nf4_put_pairs(&p, next + g);
    }
  }
  UNROLL for (int i = 0; i < TILE_BF16_MR; i++)
      UNROLL for (int g = 0; g < NF4_TILE_GROUPS; g++)
          v_store(q->c + i * q->ldc + g * GROUP, sum[i][g]);
}
