/* attention_tile_bf16.inc.c - block_bf16() for attention, which reads keys and values where they
 * are stored: rows of a follow one another, and pairs of b may be any distance apart.  A long
 * context is read from memory, in pieces too short for the CPU's prefetcher, so the next chunk of b
 * is prefetched while all rows take this one from L1. */
enum { CHUNK_PAIRS = 64 };

/* Pairs of b with p & mask == turn prefetch those that are `by` further. */
typedef struct Ahead {
  ptrdiff_t by;
  int turn, mask;
} Ahead;

#define STRIDED_BF16_ARGS                                                                          \
  int pairs, const uint32_t *a, ptrdiff_t ars, const uint32_t *b, ptrdiff_t bps, ptrdiff_t bgs,    \
      real *c, ptrdiff_t ldc, bool add, const Ahead *next

static inline __attribute__((always_inline)) void strided_bf16(const int mr, const int ng,
                                                            STRIDED_BF16_ARGS) {
  enum { MAXV = TILE_BF16_MAXV };
  const int nv = ng * PER_GROUP;
  const Ahead ahead = *next;
  vec acc[TILE_BF16_MR][MAXV];
  if (add)
    UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++) acc[i][j] =
        v_load(c + i * ldc + j * LANES);
  else
    UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++) acc[i][j] = v_set(0);
  for (int p = pairs; p > 0; p--, a++, b += bps) {
    ivec bv[MAXV];
    if ((p & ahead.mask) == ahead.turn)
      UNROLL for (int j = 0; j < ng; j++)
          __builtin_prefetch(b + ahead.by + j * bgs, 0, 2);
    UNROLL for (int j = 0; j < nv; j++) bv[j] =
        v_words(b + j / PER_GROUP * bgs + j % PER_GROUP * LANES);
    UNROLL for (int i = 0; i < mr; i++) {
      const ivec x = v_word(a + i * ars);
      UNROLL for (int j = 0; j < nv; j++) acc[i][j] = v_dot(acc[i][j], x, bv[j]);
    }
  }
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++)
      v_store(c + i * ldc + j * LANES, acc[i][j]);
}

#define DEFINE_STRIDED_BF16(m, g)                                                                  \
  static void strided_bf16_##m##_##g(STRIDED_BF16_ARGS) {                                          \
    strided_bf16(m, g, pairs, a, ars, b, bps, bgs, c, ldc, add, next);                             \
  }
TILES_BF16(DEFINE_STRIDED_BF16)

typedef void StridedBf16Fn(STRIDED_BF16_ARGS);
static StridedBf16Fn *const strided_bf16_tiles[TILE_BF16_MR][TILE_BF16_MOST_NG] = {
#define STRIDED_BF16_ENTRY(m, g) [(m)-1][(g)-1] = strided_bf16_##m##_##g,
    TILES_BF16(STRIDED_BF16_ENTRY)};

/* A chunk is some columns of b and at most `deep` of its pairs.  more: b goes on behind the last
 * chunk. */
static void strided(int m, int n, int pairs, const uint32_t *a, ptrdiff_t ars, const uint32_t *b,
                    ptrdiff_t bps, ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add, int deep,
                    bool more) {
  const int groups = n / GROUP, most = tile_bf16_groups(tile_bf16_rows(m));
  for (int p = 0; p < pairs; p += deep, add = true) {
    const int chunk = min_int(deep, pairs - p);
    for (int j = 0, g; j < groups; j += g) {
      const int left = groups - j;
      g = left > most && left < 2 * most ? (left + 1) / 2 : min_int(left, most);
      const bool last = deep < pairs ? p + deep >= pairs : left <= 2 * g;
      const ptrdiff_t by = deep < pairs ? deep * bps : 2 * g * bgs;
      for (int i = 0, rows; i < m; i += rows) {
        rows = tile_bf16_rows(m - i);
        const Ahead next = {last && !more ? 0 : by, i > 0, m > rows};
        strided_bf16_tiles[rows - 1][g - 1](chunk, a + i * ars + p, ars, b + p * bps + j * bgs, bps,
                                         bgs, c + i * ldc + j * GROUP, ldc, add, &next);
      }
    }
  }
}
