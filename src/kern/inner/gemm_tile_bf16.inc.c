/* gemm_tile_bf16.inc.c - the matrix product c[m,n] (+)= a b of bf16 pairs, for instruction sets
 * that multiply them.
 *
 * Like gemm_tile.inc.c it has a register tile of mr rows by ng groups, adds pairs of inner steps in
 * order, and has one accumulator per output, so that an output's bits do not depend on its tile.
 * The file that includes this one has defined v_dot, v_word and TILES_BF16 besides what vec.inc.c
 * needs. */
enum {
  FETCH_AHEAD = 16, /* pairs that are prefetched: the groups are too many streams for the CPU */
  SHARES = 4        /* tiles of rows at most that share the prefetching of the next block */
};

typedef struct TileBf16 {
  int pairs;
  const uint32_t *a, *b;
  ptrdiff_t bgs;         /* pairs between groups of b */
  const uint32_t *fetch; /* what is prefetched meanwhile */
  ptrdiff_t fetch_step;  /* the distance from one pair to the next there */
  const uint32_t *next;  /* near: instead one line per pair from here on, into L2 */
  const real *bias;      /* sums begin with it; or NULL */
  real *c;
  ptrdiff_t ldc;
  bool add;
} TileBf16;

/* A whole tile of rows is interleaved; other rows follow one another. */
static inline __attribute__((always_inline)) void tile_bf16(const int mr, const int ng,
                                                         const bool near, const TileBf16 *t) {
  enum { MAXV = TILE_BF16_MAXV };
  const int nv = ng * PER_GROUP;
  const ptrdiff_t ars = mr == TILE_BF16_MR ? 1 : t->pairs;
  const ptrdiff_t aps = mr == TILE_BF16_MR ? TILE_BF16_MR : 1;
  const ptrdiff_t bgs = t->bgs, ldc = t->ldc, fetch_step = t->fetch_step;
  const uint32_t *a = t->a, *b = t->b, *fetch = t->fetch, *ahead = t->next;
  real *c = t->c;
  const ptrdiff_t next = (ptrdiff_t)TILE_BF16_MR * t->pairs;
  vec acc[TILE_BF16_MR][MAXV];
  if (t->add)
    UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++) acc[i][j] =
        v_load(c + i * ldc + j * LANES);
  else
    UNROLL for (int j = 0; j < nv; j++) {
      const vec first = t->bias ? v_load(t->bias + j * LANES) : v_set(0);
      UNROLL for (int i = 0; i < mr; i++) acc[i][j] = first;
    }
  for (int p = t->pairs; p > 0; p--) {
    ivec bv[MAXV];
    if (near) {
      __builtin_prefetch(ahead, 0, 2);
      ahead += GROUP;
    } else {
      UNROLL for (int g = 0; g < ng; g++) __builtin_prefetch(fetch + g * bgs);
      fetch += fetch_step;
    }
    UNROLL for (int j = 0; j < nv; j++) bv[j] =
        v_words(b + j / PER_GROUP * bgs + j % PER_GROUP * LANES);
    if (mr == TILE_BF16_MR) __builtin_prefetch(a + next); /* of the next tile */
    UNROLL for (int i = 0; i < mr; i++) {
      const ivec x = v_word(a + i * ars);
      UNROLL for (int j = 0; j < nv; j++) acc[i][j] = v_dot(acc[i][j], x, bv[j]);
    }
    a += aps;
    b += GROUP;
  }
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++)
      v_store(c + i * ldc + j * LANES, acc[i][j]);
}

#define DEFINE_TILE_BF16(m, g)                                                                     \
  static void tile_bf16_##m##_##g(const TileBf16 *t) { tile_bf16(m, g, false, t); }
TILES_BF16(DEFINE_TILE_BF16)
#define DEFINE_NEAR_BF16(m, g)                                                                     \
  static void near_bf16_##g(const TileBf16 *t) { tile_bf16(m, g, true, t); }
NEAR_BF16(DEFINE_NEAR_BF16)

typedef void TileBf16Fn(const TileBf16 *t);
static TileBf16Fn *const tiles_bf16[TILE_BF16_MR][TILE_BF16_MOST_NG] = {
#define TILE_BF16_ENTRY(m, g) [(m)-1][(g)-1] = tile_bf16_##m##_##g,
    TILES_BF16(TILE_BF16_ENTRY)};
/* near: whole tiles of rows whose b is in the cache, while the next block is prefetched */
static TileBf16Fn *const near_bf16[TILE_BF16_MOST_NG] = {
#define NEAR_BF16_ENTRY(m, g) [(g)-1] = near_bf16_##g,
    NEAR_BF16(NEAR_BF16_ENTRY)};

/* A tile whose last group is partly outside c goes through a buffer. */
static void edge_tile_bf16(int rows, int groups, int cols, TileBf16 t) {
  enum { LD = TILE_BF16_MOST_NG * GROUP };
  real whole[TILE_BF16_MR * LD], bias[LD] = {0}, *c = t.c;
  const size_t bytes = sizeof(real) * (size_t)cols;
  if (t.add) {
    memset(whole, 0, sizeof whole);
    for (int i = 0; i < rows; i++) memcpy(whole + i * LD, c + i * t.ldc, bytes);
  }
  if (t.bias) t.bias = memcpy(bias, t.bias, bytes);
  const ptrdiff_t ldc = t.ldc;
  t.c = whole, t.ldc = LD;
  tiles_bf16[rows - 1][groups - 1](&t);
  for (int i = 0; i < rows; i++) memcpy(c + i * ldc, whole + i * LD, bytes);
}

/* rows of the next tile when `left` are left */
static inline int tile_bf16_rows(int left) {
  return left <= TILE_BF16_MR ? left : left < 2 * TILE_BF16_MR ? (left + 1) / 2 : TILE_BF16_MR;
}

/* The most groups that a tile of `rows` rows takes. */
static inline int tile_bf16_groups(int rows) {
  int g = TILE_BF16_MOST_NG;
  while (!tiles_bf16[rows - 1][g - 1]) g--;
  return g;
}

/* Prefetches the next tile's rows of c, which will be added to. */
static inline void fetch_rows_bf16(const real *c, ptrdiff_t ldc, int rows, int cols) {
  for (int i = 0; i < rows; i++, c += ldc)
    for (int j = 0; j < cols; j += GROUP) __builtin_prefetch(c + j, 1);
}

/* next: the block of b that is multiplied after this one, with groups as far apart as b's, or NULL.
 * If there are few tiles of rows, each prefetches a share of it.  If there are many, the first
 * prefetches what it needs itself, and each later one a group of `next`.  Without `next` the last
 * of several tiles prefetches what follows this block in memory. */
static void block_bf16(int m, int n, int pairs, const uint32_t *a, const uint32_t *b, ptrdiff_t bgs,
                    const uint32_t *next, const real *bias, real *c, ptrdiff_t ldc, bool add) {
  const int most = tile_bf16_groups(tile_bf16_rows(m)), row_tiles = ceil_div(m, TILE_BF16_MR);
  const bool shared = next && row_tiles <= SHARES;
  for (int j = 0, g; j < n; j += g * GROUP) {
    const int left = ceil_div(n - j, GROUP);
    g = left > most && left < 2 * most ? (left + 1) / 2 : min_int(left, most);
    const int cols = min_int(n - j, g * GROUP);
    for (int i = 0, rows; i < m; i += rows) {
      rows = tile_bf16_rows(m - i);
      if (add && i + rows < m)
        fetch_rows_bf16(c + (i + rows) * ldc + j, ldc, min_int(TILE_BF16_MR, m - i - rows), cols);
      else if (add)
        fetch_rows_bf16(c + j + g * GROUP, ldc, min_int(TILE_BF16_MR, m), cols);
      const int group = (i - 1) / TILE_BF16_MR;
      const bool near =
          !shared && next && i > 0 && group < g && cols == g * GROUP && rows == TILE_BF16_MR;
      TileBf16 t = {.pairs = pairs,
                  .a = a + (ptrdiff_t)i * pairs,
                  .b = b + j / GROUP * bgs,
                  .bgs = bgs,
                  .fetch_step = GROUP,
                  .bias = bias ? bias + j : NULL,
                  .c = c + i * ldc + j,
                  .ldc = ldc,
                  .add = add};
      t.fetch = t.b + (!next && i > 0 && i + rows == m ? pairs : FETCH_AHEAD) * (ptrdiff_t)GROUP;
      if (shared) {
        t.fetch_step = ceil_div(GROUP, row_tiles);
        t.fetch = next + j / GROUP * bgs + ceil_div(i, TILE_BF16_MR) * t.fetch_step * pairs;
      } else if (near)
        t.next = next + (j / GROUP + group) * bgs;
      if (near)
        near_bf16[g - 1](&t);
      else if (cols == g * GROUP)
        tiles_bf16[rows - 1][g - 1](&t);
      else
        edge_tile_bf16(rows, g, cols, t);
    }
  }
}
