/* gemm_few.inc.c - block() for a few rows, with b in rows or in groups of columns.
 *
 * It keeps more columns in registers than a tile does, so that sums do not wait for one another,
 * but at most FEW_SUMS vectors of them.  An output is the same sum as in a tile. */
#define FEW_ARGS                                                                                   \
  int k, const real *a, ptrdiff_t ars, const real *b, ptrdiff_t brs, ptrdiff_t bgs, real *c,       \
      ptrdiff_t ldc, bool add, Fetch *next

static inline __attribute__((always_inline)) void few(const int mr, const int ng, FEW_ARGS) {
  const int nv = ng * PER_GROUP;
  vec acc[FEW_ROWS][8 * PER_GROUP];
  Fetch f = next ? *next : (Fetch){0};
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++) acc[i][j] =
      add ? v_load(c + i * ldc + j * LANES) : v_set(0);
  for (ptrdiff_t p = 0; p < k; p++, b += brs) {
    fetch_ahead(&f, ng);
    vec x[FEW_ROWS];
    UNROLL for (int i = 0; i < mr; i++) x[i] = v_set(a[i * ars + p]);
    UNROLL for (int j = 0; j < nv; j++) {
      vec bv = v_load(b + j / PER_GROUP * bgs + j % PER_GROUP * LANES);
      if (mr > 1) V_HOLD(bv);
      UNROLL for (int i = 0; i < mr; i++) acc[i][j] = v_fma(x[i], bv, acc[i][j]);
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
static FewFn *const few_sizes[FEW_ROWS][8] = {
#define FEW_ENTRY(m, g) [(m)-1][(g)-1] = few_##m##_##g,
    FEW_SIZES(FEW_ENTRY)};

/* How many of the groups that are left are computed together. */
static inline int few_groups(int m, int left) {
  enum { FIT = FEW_SUMS / PER_GROUP };
  const int most = max_int(1, min_int(4, FIT / m));
  if (m == 1 && FIT >= 8 && left >= 8) return 8;
  return left > most && left < 2 * most ? (left + 1) / 2 : min_int(left, most);
}

static void few_rows(int m, int n, int k, const real *a, ptrdiff_t ars, const real *b,
                     ptrdiff_t brs, ptrdiff_t bgs, real *c, ptrdiff_t ldc, bool add, Fetch *next) {
  const int groups = n / GROUP;
  if (m > FEW_ROWS) {
    block(m, n, k, a, ars, 1, b, brs, bgs, c, ldc, add);
    fetch_rest(next);
    return;
  }
  for (int j = 0, g; j < groups; j += g) {
    g = few_groups(m, groups - j);
    few_sizes[m - 1][g - 1](k, a, ars, b + j * bgs, brs, bgs, c + j * GROUP, ldc, add, next);
  }
}
