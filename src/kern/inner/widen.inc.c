/* widen.inc.c - compact weights (matrix.h) to reals, and transposition in registers.
 *
 * A group is GROUP outputs side by side, inner step after inner step.  The values are the same on
 * every path: widening is exact, and a scale is one multiplication.
 */
enum {
  NF4_STEPS = 8
}; /* inner steps in a cell: GROUP words of 8 codes, the first in the low bits */

static void widen_bf16(size_t n, const uint16_t *x, real *y) {
  for (size_t i = 0; i < n; i += LANES) v_store(y + i, v_bf16(x + i));
}

static void widen_f16(size_t n, const uint16_t *x, real *y) {
  for (size_t i = 0; i < n; i += LANES) v_store(y + i, v_f16(x + i));
}

static void widen_int8(int depth, const int8_t *q, const real *scale, real *y) {
  vec s[PER_GROUP];
  UNROLL for (int j = 0; j < PER_GROUP; j++) s[j] = v_load(scale + j * LANES);
  for (int p = 0; p < depth; p++, q += GROUP, y += GROUP)
    UNROLL for (int j = 0; j < PER_GROUP; j++) v_store(y + j * LANES, v_int8(q + j * LANES) * s[j]);
}

static void widen_nf4(int depth, const uint32_t *cells, const real *scale, real *y) {
  const Nf4Table table = nf4_table();
  for (int p = 0; p < depth; p += NF4_STEPS, cells += GROUP, y += NF4_STEPS * GROUP)
    UNROLL for (int j = 0; j < PER_GROUP; j++) {
      const vec s = v_load(scale + j * LANES);
      ivec code = v_words(cells + j * LANES);
      UNROLL for (int i = 0; i < NF4_STEPS; i++, code >>= 4)
          v_store(y + i * GROUP + j * LANES, v_nf4(table, code) * s);
    }
}

/* One square of LANES by LANES: interleaving the first half of the rows with the second,
 * log2(LANES) times, ends with the columns. */
static inline __attribute__((always_inline)) void transpose_square(const real *x, ptrdiff_t ldx,
                                                                   real *y, ptrdiff_t ldy) {
  vec a[LANES], b[LANES];
  UNROLL for (int i = 0; i < LANES; i++) a[i] = v_load(x + i * ldx);
  UNROLL for (int round = 1; round < LANES; round *= 2) {
    UNROLL for (int i = 0; i < LANES / 2; i++) {
      b[2 * i] = v_zip_low(a[i], a[i + LANES / 2]);
      b[2 * i + 1] = v_zip_high(a[i], a[i + LANES / 2]);
    }
    UNROLL for (int i = 0; i < LANES; i++) a[i] = b[i];
  }
  UNROLL for (int i = 0; i < LANES; i++) v_store(y + i * ldy, a[i]);
}

/* y[cols, rows] = x[rows, cols] transposed */
static void transpose(int rows, int cols, const real *x, ptrdiff_t ldx, real *y, ptrdiff_t ldy) {
  const int whole_rows = rows - rows % LANES, whole_cols = cols - cols % LANES;
  for (int i = 0; i < whole_rows; i += LANES)
    for (int j = 0; j < whole_cols; j += LANES)
      transpose_square(x + i * ldx + j, ldx, y + j * ldy + i, ldy);
  for (int i = 0; i < rows; i++)
    for (int j = i < whole_rows ? whole_cols : 0; j < cols; j++) y[j * ldy + i] = x[i * ldx + j];
}
