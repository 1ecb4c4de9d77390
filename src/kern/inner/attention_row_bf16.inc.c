/* attention_row_bf16.inc.c - attention's products of bf16 for one row, by vectors, with the bits of
 * tiles.
 *
 * A tile of one row takes as long as a tile of sixteen, and waits for memory.  Like tiles, each
 * unit of pairs sums the products of the low halves from zero, and those of the high halves; then
 * both are added to an output together.  Subnormals are zeros. */
#define ROW_BF16_ARGS                                                                              \
  int pairs, const uint32_t *a, const uint32_t *b, ptrdiff_t bps, ptrdiff_t bgs, real *c,          \
      bool add, Fetch *next

static inline __m512 low_half(__m512i words) { return (__m512)_mm512_slli_epi32(words, 16); }
static inline __m512 high_half(__m512i words) {
  return (__m512)_mm512_and_si512(words, _mm512_set1_epi32((int)0xffff0000u));
}

static inline __attribute__((always_inline)) void row_bf16(const int ng, ROW_BF16_ARGS) {
  enum { MOST = 4 };
  __m512 sum[MOST], low[MOST], high[MOST];
  Fetch f = next ? *next : (Fetch){0};
  UNROLL for (int j = 0; j < ng; j++) sum[j] =
      add ? _mm512_loadu_ps(c + j * GROUP) : _mm512_setzero_ps();
  for (int left = pairs; left > 0; left -= UNIT) {
    UNROLL for (int j = 0; j < ng; j++) low[j] = high[j] = _mm512_setzero_ps();
    for (int p = min_int(left, UNIT); p > 0; p--, a++, b += bps) {
      const __m512i x = _mm512_set1_epi32((int)*a);
      const __m512 xl = low_half(x), xh = high_half(x);
      fetch_ahead(&f, ng);
      UNROLL for (int j = 0; j < ng; j++) {
        const __m512i words = _mm512_loadu_si512(b + j * bgs);
        low[j] = _mm512_fmadd_ps(xl, low_half(words), low[j]);
        high[j] = _mm512_fmadd_ps(xh, high_half(words), high[j]);
      }
    }
    UNROLL for (int j = 0; j < ng; j++) sum[j] =
        _mm512_add_ps(sum[j], _mm512_add_ps(low[j], high[j]));
  }
  UNROLL for (int j = 0; j < ng; j++) _mm512_storeu_ps(c + j * GROUP, sum[j]);
  if (next) *next = f;
}

static void row_bf16_1(ROW_BF16_ARGS) { row_bf16(1, pairs, a, b, bps, bgs, c, add, next); }
static void row_bf16_2(ROW_BF16_ARGS) { row_bf16(2, pairs, a, b, bps, bgs, c, add, next); }
static void row_bf16_3(ROW_BF16_ARGS) { row_bf16(3, pairs, a, b, bps, bgs, c, add, next); }
static void row_bf16_4(ROW_BF16_ARGS) { row_bf16(4, pairs, a, b, bps, bgs, c, add, next); }

/* n columns, a multiple of GROUP */
static void one_row_bf16(int n, ROW_BF16_ARGS) {
  static void (*const sizes[])(ROW_BF16_ARGS) = {row_bf16_1, row_bf16_2, row_bf16_3, row_bf16_4};
  enum { MOST = 4, SUBNORMALS_ARE_ZEROS = 0x40 };
  const int groups = n / GROUP;
  const unsigned mode = _mm_getcsr();
  _mm_setcsr(mode | _MM_FLUSH_ZERO_ON | SUBNORMALS_ARE_ZEROS);
  for (int j = 0, g; j < groups; j += g) {
    const int left = groups - j;
    g = left > MOST && left < 2 * MOST ? (left + 1) / 2 : min_int(left, MOST);
    sizes[g - 1](pairs, a, b + j * bgs, bps, bgs, c + j * GROUP, add, next);
  }
  _mm_setcsr(mode);
}
