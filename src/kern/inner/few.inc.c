/* few.inc.c - block() for a few rows, b in rows or in groups of columns: more columns in registers than a
 * tile has, so that sums do not wait for one another.  An output's sum is the same.
 */
#define FEW_ARGS                                                                                   \
  int k, const real *a, ptrdiff_t ars, const real *b, ptrdiff_t brs, ptrdiff_t bgs, real *c,       \
      ptrdiff_t ldc, bool add, Fetch *next

static inline __attribute__((always_inline)) void few(const int mr, const int ng, FEW_ARGS) {
  const int nv = ng * PER_GROUP;
  vec acc[3][8 * PER_GROUP];
  Fetch f = next ? *next : (Fetch){0};
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++) acc[i][j] =
      add ? v_load(c + i * ldc + j * LANES) : v_set(0);
  for (ptrdiff_t p = 0; p < k; p++, b += brs) {
    fetch_ahead(&f, ng);
    UNROLL for (int i = 0; i < mr; i++) {
      const vec x = v_set(a[i * ars + p]);
      UNROLL for (int j = 0; j < nv; j++) acc[i][j] =
          v_fma(x, v_load(b + j / PER_GROUP * bgs + j % PER_GROUP * LANES), acc[i][j]);
    }
  }
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++)
      v_store(c + i * ldc + j * LANES, acc[i][j]);
  if (next) *next = f;
}

#define FEW_SIZES(X)                                                                               \
  X(1, 1)                                                                                          \
  X(1, 2) X(1, 3) X(1, 4) X(1, 8) X(2, 1) X(2, 2) X(2, 3) X(2, 4) X(3, 1) X(3, 2) X(3, 3) X(3, 4)
#define DEFINE_FEW(m, g)                                                                           \
  static void few_##m##_##g(FEW_ARGS) { few(m, g, k, a, ars, b, brs, bgs, c, ldc, add, next); }
FEW_SIZES(DEFINE_FEW)

typedef void FewFn(FEW_ARGS);
static FewFn *const few_sizes[3][8] = {
#define FEW_ENTRY(m, g) [(m)-1][(g)-1] = few_##m##_##g,
    FEW_SIZES(FEW_ENTRY)};

static void few_rows(int m, int n, int k, const real *a, ptrdiff_t ars, const real *b,
                     ptrdiff_t brs, ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add, Fetch *next) {
  const int groups = n / GROUP;
  if (m > 3) {
    block(m, n, k, a, ars, 1, b, brs, bgs, c, ldc, add);
    fetch_rest(next);
    return;
  }
  for (int j = 0, g; j < groups; j += g) {
    const int left = groups - j;
    g = m == 1 && left >= 8 ? 8 : left > 4 && left < 8 ? (left + 1) / 2 : kern_min(left, 4);
    few_sizes[m - 1][g - 1](k, a, ars, b + j * bgs, brs, bgs, c + j * GROUP, ldc, add, next);
  }
}
