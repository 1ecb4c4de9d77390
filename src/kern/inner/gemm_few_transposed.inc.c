/* gemm_few_transposed.inc.c - few_rows() where b's columns are in rows, square after square, as keys of a segment that grows
 * are until a block of them is whole (kv.c): transposed in registers.
 */
enum { SQUARE = GROUP * GROUP };

#define SQUARES_ARGS                                                                               \
  int k, const real *a, ptrdiff_t ars, const real *b, real *c, ptrdiff_t ldc, Fetch *next

/* One square's LANES steps from p on */
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

static inline __attribute__((always_inline)) void squares(const int mr, const int nv,
                                                          SQUARES_ARGS) {
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

#define DEFINE_SQUARES(m)                                                                          \
  static void squares_##m##_1(SQUARES_ARGS) { squares(m, 1, k, a, ars, b, c, ldc, next); }         \
  static void squares_##m##_all(SQUARES_ARGS) { squares(m, PER_GROUP, k, a, ars, b, c, ldc, next); }
DEFINE_SQUARES(1)
DEFINE_SQUARES(2)
DEFINE_SQUARES(3)

static void few_squares(int m, int n, SQUARES_ARGS) {
  typedef void Fn(SQUARES_ARGS);
  static Fn *const sizes[FEW_ROWS][2] = {
      {squares_1_1, squares_1_all}, {squares_2_1, squares_2_all}, {squares_3_1, squares_3_all}};
  sizes[m - 1][n > LANES](k, a, ars, b, c, ldc, next);
}
