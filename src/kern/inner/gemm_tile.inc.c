/* gemm_tile.inc.c - the one matrix product: c[m,n] (+)= a[m,k] b[k,n].
 *
 * A register tile holds mr rows by ng groups of GROUP columns; k runs in
 * order, so an output's bits do not depend on the tile that it falls into.
 */
/* b is prefetched some lines ahead, unless the whole next block is.  Rows of c that are not in the
 * cache would stop the stream of b when they are stored or added to, all at once.  So they are
 * prefetched too, one in each of mr pieces of the inner steps.  Products of up to SHORT inner steps
 * that overwrite c are attention's scores, which are in the cache. */
enum { PER_GROUP = GROUP / LANES, FETCH_AHEAD = 48 / TILE_NG, SHORT = 64 };

#define TILE_ARGS                                                                                  \
  int k, const real *a, ptrdiff_t ars, ptrdiff_t aks, const real *b, ptrdiff_t brs, ptrdiff_t bgs, \
      real *c, ptrdiff_t ldc, bool add, const real *fetch, ptrdiff_t fetch_step

static inline __attribute__((always_inline)) void tile(const int mr, const int ng, TILE_ARGS,
                                                       const real *soon) {
  enum { MAXV = TILE_NG * PER_GROUP };
  const int nv = ng * PER_GROUP;
  vec acc[TILE_MR][MAXV];
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++) acc[i][j] =
      add ? v_load(c + i * ldc + j * LANES) : v_set(0);
  const ptrdiff_t piece = add || k > SHORT ? k / mr + 1 : k;
  for (ptrdiff_t p = 0, end; p < k; soon += ldc) {
    UNROLL for (int g = 0; g < ng; g++) __builtin_prefetch(soon + g * GROUP, 1);
    for (end = p + piece < k ? p + piece : k; p < end; p++) {
      vec bv[MAXV];
      UNROLL for (int g = 0; g < ng; g++) __builtin_prefetch(fetch + g * bgs);
      UNROLL for (int j = 0; j < nv; j++) bv[j] =
          v_load(b + j / PER_GROUP * bgs + j % PER_GROUP * LANES);
      UNROLL for (int i = 0; i < mr; i++) {
        const vec x = v_set(a[i * ars]);
        UNROLL for (int j = 0; j < nv; j++) acc[i][j] = v_fma(x, bv[j], acc[i][j]);
      }
      a += aks;
      b += brs;
      fetch += fetch_step;
    }
  }
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++)
      v_store(c + i * ldc + j * LANES, acc[i][j]);
}

#define DEFINE_TILE(m, g)                                                                          \
  static void tile_##m##_##g(TILE_ARGS, const real *soon) {                                        \
    tile(m, g, k, a, ars, aks, b, brs, bgs, c, ldc, add, fetch, fetch_step, soon);                 \
  }
TILES(DEFINE_TILE)

typedef void TileFn(TILE_ARGS, const real *soon);
static TileFn *const tiles[TILE_MR][TILE_NG] = {
#define TILE_ENTRY(m, g) [(m)-1][(g)-1] = tile_##m##_##g,
    TILES(TILE_ENTRY)};

/* A tile whose last group is partly outside c goes through a buffer. */
static void edge_tile(int m, int cols, int groups, TILE_ARGS) {
  enum { LD = TILE_NG * GROUP };
  real t[TILE_MR * LD];
  const size_t bytes = sizeof(real) * (size_t)cols;
  if (add) {
    memset(t, 0, sizeof t);
    for (int i = 0; i < m; i++) memcpy(t + i * LD, c + i * ldc, bytes);
  }
  tiles[m - 1][groups - 1](k, a, ars, aks, b, brs, bgs, t, LD, add, fetch, fetch_step,
                           b); /* t is in the cache */
  for (int i = 0; i < m; i++) memcpy(c + i * ldc, t + i * LD, bytes);
}

/* ats is the distance of the rows of one tile from those of the next, per row; it differs from ars
 * where tiles are packed.  next: k brs reals, of which each tile prefetches a share; NULL: tiles
 * prefetch what they need soon. */
static inline __attribute__((always_inline)) void
blocks(int m, int n, int k, const real *a, ptrdiff_t ats, ptrdiff_t ars, ptrdiff_t aks,
       const real *b, ptrdiff_t brs, ptrdiff_t bgs, const real *next, real *c, ptrdiff_t ldc,
       bool add) {
  const ptrdiff_t step = next ? ceil_div((int)brs, ceil_div(m, TILE_MR)) : brs;
  for (int j = 0, g; j < n; j += g * GROUP) {
    const int left = ceil_div(n - j, GROUP), cols = min_int(n - j, TILE_NG * GROUP);
    g = left == TILE_NG + 1 && TILE_NG > 2 ? TILE_NG - 1 : min_int(left, TILE_NG);
    const real *bj = b + j / GROUP * bgs, *fetch = next ? next : bj + FETCH_AHEAD * brs;
    for (int i = 0, rows; i < m; i += rows) {
      rows = m - i;
      if (rows > TILE_MR) rows = rows < 2 * TILE_MR && ats == ars ? (rows + 1) / 2 : TILE_MR;
      /* c is needed when the next tile begins if it is added to, and at the end if it is
       * overwritten */
      const real *soon = c + (add && i + rows < m ? i + rows : add ? 0 : i) * ldc + j;
      if (add && i + rows >= m) soon += g * GROUP;
      if (j + g * GROUP <= n)
        tiles[rows - 1][g - 1](k, a + i * ats, ars, aks, bj, brs, bgs, c + i * ldc + j, ldc, add,
                               fetch, step, soon);
      else
        edge_tile(rows, min_int(cols, g * GROUP), g, k, a + i * ats, ars, aks, bj, brs, bgs,
                  c + i * ldc + j, ldc, add, fetch, step);
      if (next) fetch += k * step;
    }
  }
}

static void block(int m, int n, int k, const real *a, ptrdiff_t ars, ptrdiff_t aks, const real *b,
                  ptrdiff_t brs, ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add) {
  blocks(m, n, k, a, ars, ars, aks, b, brs, bgs, NULL, c, ldc, add);
}

static void stream(int m, int n, int k, const real *a, ptrdiff_t ars, const real *b, ptrdiff_t brs,
                   const real *next, real *c, ptrdiff_t ldc, bool add) {
  blocks(m, n, k, a, ars, ars, 1, b, brs, GROUP, next, c, ldc, add);
}

static void outer(int m, int n, int k, const real *a, const real *b, ptrdiff_t brs, real *c,
                  ptrdiff_t ldc, bool add) {
  blocks(m, n, k, a, k, 1, TILE_MR, b, brs, GROUP, NULL, c, ldc, add);
}

/* v_get and v_put, also for a vector that is wholly beyond the end */
static inline vec get_some(const real *x, ptrdiff_t left) {
  return left > 0 ? v_get(x, left) : v_set(0);
}
static inline void put_some(real *x, ptrdiff_t left, vec v) {
  if (left > 0) v_put(x, left, v);
}

/* sum[cols] += rows of x, in order */
static void add_rows(int rows, int cols, const real *x, ptrdiff_t ld, real *sum) {
  enum { N = 4 * PER_GROUP };
  for (int at = 0; at < cols; at += N * LANES) {
    vec s[N];
    UNROLL for (int j = 0; j < N; j++) s[j] = get_some(sum + at + j * LANES, cols - at - j * LANES);
    for (ptrdiff_t r = 0; r < rows; r++)
      UNROLL for (int j = 0; j < N; j++) s[j] +=
          get_some(x + r * ld + at + j * LANES, cols - at - j * LANES);
    UNROLL for (int j = 0; j < N; j++) put_some(sum + at + j * LANES, cols - at - j * LANES, s[j]);
  }
}

/* rows of y += x[cols] */
static void add_to_rows(int rows, int cols, const real *x, real *y, ptrdiff_t ld) {
  for (int at = 0; at < cols; at += GROUP) {
    vec v[PER_GROUP];
    UNROLL for (int j = 0; j < PER_GROUP; j++) v[j] =
        get_some(x + at + j * LANES, cols - at - j * LANES);
    for (ptrdiff_t r = 0; r < rows; r++) UNROLL for (int j = 0; j < PER_GROUP; j++) {
        real *to = y + r * ld + at + j * LANES;
        const ptrdiff_t left = cols - at - j * LANES;
        put_some(to, left, get_some(to, left) + v[j]);
      }
  }
}

/* ---- packing ---- */

/* dst[p][width]: a row's first `cols`, then zeros */
static inline __attribute__((always_inline)) void
pack_vectors(const int nv, int depth, int cols, const real *src, ptrdiff_t ld, real *dst) {
  for (ptrdiff_t p = 0; p < depth; p++, src += ld, dst += nv * LANES)
    UNROLL for (int j = 0; j < nv; j++)
        v_store(dst + j * LANES, get_some(src + j * LANES, cols - j * LANES));
}

static void pack_columns(int depth, int cols, int width, const real *src, ptrdiff_t ld, real *dst) {
  enum { WHOLE = TILE_NG * GROUP };
  if (cols == WHOLE)
    pack_vectors(TILE_NG * PER_GROUP, depth, WHOLE, src, ld, dst);
  else if (width == WHOLE)
    pack_vectors(TILE_NG * PER_GROUP, depth, cols, src, ld, dst);
  else if (width == GROUP)
    pack_vectors(PER_GROUP, depth, cols, src, ld, dst);
  else
    pack_vectors(2 * PER_GROUP, depth, cols, src, ld, dst);
}

static void round_bf16(size_t n, const real *x, real *y);

/* dst[tile][p][TILE_MR] has the columns of a tile of src side by side.  Some rows of all tiles are
 * packed at a time, because src has them together. */
static void pack_tiles(int depth, int cols, const real *src, ptrdiff_t ld, bool round, real *dst) {
  enum { STEPS = 16 };
  for (int p0 = 0; p0 < depth; p0 += STEPS, src += STEPS * ld) {
    const int n = min_int(STEPS, depth - p0);
    for (int i = 0; i < cols; i += TILE_MR) {
      real *const tile_of = dst + (ptrdiff_t)i * depth + p0 * TILE_MR, *to = tile_of;
      const real *from = src + i;
      if (cols - i >= TILE_MR)
        for (int p = 0; p < n; p++, from += ld, to += TILE_MR)
          memcpy(to, from, sizeof(real) * TILE_MR);
      else
        for (int p = 0; p < n; p++, from += ld, to += TILE_MR)
          memcpy(to, from, sizeof(real) * (size_t)(cols - i));
      if (round) round_bf16((size_t)n * TILE_MR, tile_of, tile_of);
    }
  }
}
