/* gemm_few_transposed.inc.c - few_rows() with the columns of b stored as rows, in squares: so are
 * the keys in the last block of a growing segment (kv.c).  They are transposed in registers. */
enum { SQUARE = GROUP * GROUP };

#define TRANSPOSED_ARGS                                                                            \
  int k, const real *a, ptrdiff_t ars, const real *b, real *c, ptrdiff_t ldc, Fetch *next

/* Adds LANES inner steps of a square, from p on. */
static inline __attribute__((always_inline)) void add_square(const int mr, const int nv,
                                                             const real *a, ptrdiff_t ars,
                                                             const real *b, vec (*acc)[PER_GROUP]) {
  UNROLL for (int j = 0; j < nv; j++) {
    vec column[LANES];
    v_square(b + j * LANES * GROUP, GROUP, column);
    UNROLL for (int p = 0; p < LANES; p++) UNROLL for (int i = 0; i < mr; i++) acc[i][j] =
        v_fma(v_set(a[i * ars + p]), column[p], acc[i][j]);
  }
}

static inline __attribute__((always_inline)) void few_transposed(const int mr, const int nv,
                                                          TRANSPOSED_ARGS) {
  vec acc[FEW_ROWS][PER_GROUP];
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++) acc[i][j] = v_set(0);
  for (int q = 0; q < k; q += GROUP, b += SQUARE)
    for (int p = q; p < q + GROUP; p += LANES) {
      if (next) fetch_ahead(next, LANES);
      add_square(mr, nv, a + p, ars, b + p - q, acc);
    }
  UNROLL for (int i = 0; i < mr; i++) UNROLL for (int j = 0; j < nv; j++)
      v_store(c + i * ldc + j * LANES, acc[i][j]);
}

#define DEFINE_TRANSPOSED(m)                                                                       \
  static void few_transposed_##m##_1(TRANSPOSED_ARGS) {                                            \
    few_transposed(m, 1, k, a, ars, b, c, ldc, next);                                              \
  }                                                                                                \
  static void few_transposed_##m##_all(TRANSPOSED_ARGS) {                                          \
    few_transposed(m, PER_GROUP, k, a, ars, b, c, ldc, next);                                      \
  }
DEFINE_TRANSPOSED(1)
DEFINE_TRANSPOSED(2)
DEFINE_TRANSPOSED(3)

static void few_rows_transposed(int m, int n, TRANSPOSED_ARGS) {
  typedef void Fn(TRANSPOSED_ARGS);
  static Fn *const sizes[FEW_ROWS][2] = {
      {few_transposed_1_1, few_transposed_1_all},
      {few_transposed_2_1, few_transposed_2_all},
      {few_transposed_3_1, few_transposed_3_all}};
  sizes[m - 1][n > LANES](k, a, ars, b, c, ldc, next);
}
