/* few.inc.c - block() for a few rows and b in rows: more columns in registers than a tile has, so that
 * sums do not wait for one another.  An output's sum is the same.
 */
#define FEW_ARGS                                                                                   \
  int k, const real *a, ptrdiff_t ars, const real *b, ptrdiff_t brs, real *c, ptrdiff_t ldc,       \
      bool add

static inline __attribute__((always_inline)) void few(const int mr, const int nv, FEW_ARGS) {
  vec acc[3][8];
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++) acc[i][j] =
      add ? v_load(c + i * ldc + j * LANES) : v_set(0);
  for (ptrdiff_t p = 0; p < k; p++, b += brs) UNROLL for (int i = 0; i < mr; i++) {
      const vec x = v_set(a[i * ars + p]);
      UNROLL for (int j = 0; j < nv; j++) acc[i][j] = v_fma(x, v_load(b + j * LANES), acc[i][j]);
    }
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++)
      v_store(c + i * ldc + j * LANES, acc[i][j]);
}

static void few_1_8(FEW_ARGS) { few(1, 8, k, a, ars, b, brs, c, ldc, add); }
static void few_1_4(FEW_ARGS) { few(1, 4, k, a, ars, b, brs, c, ldc, add); }
static void few_2_4(FEW_ARGS) { few(2, 4, k, a, ars, b, brs, c, ldc, add); }
static void few_3_4(FEW_ARGS) { few(3, 4, k, a, ars, b, brs, c, ldc, add); }

static void few_rows(int m, int n, int k, const real *a, ptrdiff_t ars, const real *b,
                     ptrdiff_t brs, real *c, ptrdiff_t ldc, bool add) {
  int j = 0;
  while (m <= 3 && n - j >= 4 * LANES) {
    const bool eight = m == 1 && n - j >= 8 * LANES;
    (m == 3   ? few_3_4
     : m == 2 ? few_2_4
     : eight  ? few_1_8
              : few_1_4)(k, a, ars, b + j, brs, c + j, ldc, add);
    j += (eight ? 8 : 4) * LANES;
  }
  if (j < n) block(m, n - j, k, a, ars, 1, b + j, brs, GROUP, c + j, ldc, add);
}
