/* block.inc.c - the one matrix product: c[m,n] (+)= a[m,k] b[k,n].
 *
 * A register tile holds mr rows by ng groups of GROUP columns; k runs in
 * order, so an output's bits do not depend on the tile that it falls into.
 */
enum { PER_GROUP = GROUP / LANES };

#define TILE_ARGS                                                                                  \
  int k, const real *a, ptrdiff_t ars, ptrdiff_t aks, const real *b, ptrdiff_t brs, ptrdiff_t bgs, \
      real *c, ptrdiff_t ldc, bool add

static inline __attribute__((always_inline)) void tile(const int mr, const int ng, TILE_ARGS) {
  enum { MAXV = TILE_NG * PER_GROUP };
  const int nv = ng * PER_GROUP;
  vec acc[TILE_MR][MAXV];
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++) acc[i][j] =
      add ? v_load(c + i * ldc + j * LANES) : v_set(0);
  for (ptrdiff_t p = 0; p < k; p++) {
    vec bv[MAXV];
    UNROLL for (int j = 0; j < nv; j++) bv[j] =
        v_load(b + j / PER_GROUP * bgs + j % PER_GROUP * LANES);
    UNROLL for (int i = 0; i < mr; i++) {
      const vec x = v_set(a[i * ars]);
      UNROLL for (int j = 0; j < nv; j++) acc[i][j] = v_fma(x, bv[j], acc[i][j]);
    }
    a += aks;
    b += brs;
  }
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++)
      v_store(c + i * ldc + j * LANES, acc[i][j]);
}

#define DEFINE_TILE(m, g)                                                                          \
  static void tile_##m##_##g(TILE_ARGS) { tile(m, g, k, a, ars, aks, b, brs, bgs, c, ldc, add); }
TILES(DEFINE_TILE)

typedef void TileFn(TILE_ARGS);
static TileFn *const tiles[TILE_MR][TILE_NG] = {
#define TILE_ENTRY(m, g) [(m)-1][(g)-1] = tile_##m##_##g,
    TILES(TILE_ENTRY)};

/* A tile whose last group is partly outside c: through a whole one. */
static void edge_tile(int m, int cols, int groups, TILE_ARGS) {
  enum { LD = TILE_NG * GROUP };
  real t[TILE_MR * LD];
  const size_t bytes = sizeof(real) * (size_t)cols;
  if (add) {
    memset(t, 0, sizeof t);
    for (int i = 0; i < m; i++) memcpy(t + i * LD, c + i * ldc, bytes);
  }
  tiles[m - 1][groups - 1](k, a, ars, aks, b, brs, bgs, t, LD, add);
  for (int i = 0; i < m; i++) memcpy(c + i * ldc, t + i * LD, bytes);
}

static void block(int m, int n, int k, const real *a, ptrdiff_t ars, ptrdiff_t aks, const real *b,
                  ptrdiff_t brs, ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add) {
  for (int j = 0, g; j < n; j += g * GROUP) {
    const int left = kern_ceil(n - j, GROUP), cols = kern_min(n - j, TILE_NG * GROUP);
    g = left == TILE_NG + 1 && TILE_NG > 2 ? TILE_NG - 1 : kern_min(left, TILE_NG);
    const real *bj = b + j / GROUP * bgs;
    for (int i = 0, rows; i < m; i += rows) {
      rows = m - i;
      if (rows > TILE_MR) rows = rows < 2 * TILE_MR ? (rows + 1) / 2 : TILE_MR;
      if (j + g * GROUP <= n)
        tiles[rows - 1][g - 1](k, a + i * ars, ars, aks, bj, brs, bgs, c + i * ldc + j, ldc, add);
      else
        edge_tile(rows, kern_min(cols, g * GROUP), g, k, a + i * ars, ars, aks, bj, brs, bgs,
                  c + i * ldc + j, ldc, add);
    }
  }
}
