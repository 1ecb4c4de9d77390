/* unpack_quant.inc.c - unpacking quantised weights (quant.h) to reals, and transposition in
 * registers.
 *
 * A group is GROUP outputs side by side, inner step after inner step.  The values are the same in
 * every class: widening is exact, and a scale is one multiplication. */
enum {
  NF4_STEPS = 8
}; /* inner steps in a cell: GROUP numbers of 8 codes, the first in the low bits */

#ifdef GRPO_DOUBLE
static inline vec v_bf16_low(ivec w) {
  for (int i = 0; i < LANES; i++) w[i] = (lane_int)(uint16_t)w[i];
  vec x = {0};
  for (int i = 0; i < LANES; i++) x[i] = (real)bf16_to_f32((uint16_t)w[i]);
  return x;
}
static inline vec v_bf16_high(ivec w) { return v_bf16_low(w >> 16); }
/* the twin checks formulas, not rounding */
static inline vec v_round_bf16(vec x) { return x; }
static inline vec v_round_tame(vec x) { return x; }
static inline ivec v_pair_bf16(vec a, vec b) {
  ivec w;
  for (int i = 0; i < LANES; i++)
    w[i] = f32_to_bf16((float)a[i]) | (lane_int)f32_to_bf16((float)b[i]) << 16;
  return w;
}
static inline void v_put_words(uint16_t *p, ivec w) {
  for (int i = 0; i < LANES; i++) p[2 * i] = (uint16_t)w[i], p[2 * i + 1] = (uint16_t)(w[i] >> 16);
}
#else
static inline vec v_bf16_low(ivec w) { return (vec)((uivec)w << 16); }
static inline vec v_bf16_high(ivec w) { return (vec)((uivec)w & 0xffff0000u); }
/* nearest, ties to even; NaN becomes quiet */
static inline vec v_round_bf16(vec x) {
  const uivec u = (uivec)x;
  const vec r = (vec)((u + 0x7fffu + (u >> 16 & 1)) & 0xffff0000u);
  return v_sel((ivec)(x != x), (vec)((u & 0xffff0000u) | 0x400000u), r);
}
/* Rounds a number that is not subnormal, huge or -0 like v_round_bf16, with fewer steps: beside
 * 2^16 times its own power of two the last bit that is left is bf16's. */
static inline vec v_round_tame(vec x) {
  const vec one = (vec)((uivec)x & 0xff800000u), big = v_set(65536);
  return v_fma(-big, one, v_fma(big, one, x));
}
static inline ivec v_pair_bf16(vec a, vec b) {
  return (ivec)((uivec)v_round_bf16(a) >> 16 | (uivec)v_round_bf16(b));
}
static inline void v_put_words(uint16_t *p, ivec w) { memcpy(p, &w, sizeof w); }
#endif

/* An odd depth ends with half a pair. */
static void widen_bf16(int depth, const uint16_t *pairs, real *y) {
  for (int p = 0; p < depth; p += 2, pairs += 2 * GROUP, y += 2 * GROUP)
    UNROLL for (int j = 0; j < PER_GROUP; j++) {
      const ivec w = v_words((const uint32_t *)(const void *)(pairs + 2 * j * LANES));
      v_store(y + j * LANES, v_bf16_low(w));
      if (p + 1 < depth) v_store(y + GROUP + j * LANES, v_bf16_high(w));
    }
}

static void round_bf16(size_t n, const real *x, real *y) {
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) v_store(y + i, v_round_bf16(v_load(x + i)));
  if (i < n) v_put(y + i, (ptrdiff_t)(n - i), v_round_bf16(v_get(x + i, (ptrdiff_t)(n - i))));
}

static void pair_bf16(int depth, const real *x, ptrdiff_t ldx, uint16_t *pairs) {
  for (int p = 0; p < depth; p += 2, pairs += 2 * GROUP, x += 2 * ldx)
    UNROLL for (int j = 0; j < PER_GROUP; j++) {
      const vec b = p + 1 < depth ? v_load(x + ldx + j * LANES) : v_set(0);
      v_put_words(pairs + 2 * j * LANES, v_pair_bf16(v_load(x + j * LANES), b));
    }
}

static void widen_f16(size_t n, const uint16_t *x, real *y) {
  for (size_t i = 0; i < n; i += LANES) v_store(y + i, v_f16(x + i));
}

/* Prefetches what is unpacked next: the same number of steps, right after these. */
static void widen_int8(int depth, const int8_t *q, const real *scale, real *y) {
  vec s[PER_GROUP];
  UNROLL for (int j = 0; j < PER_GROUP; j++) s[j] = v_load(scale + j * LANES);
  const ptrdiff_t next = depth * GROUP;
  for (int p = 0; p < depth; p++, q += GROUP, y += GROUP) {
    if (p % 4 == 0) __builtin_prefetch(q + next);
    UNROLL for (int j = 0; j < PER_GROUP; j++) v_store(y + j * LANES, v_int8(q + j * LANES) * s[j]);
  }
}

#ifndef V_NF4_CELL
/* value[s]: of step s */
static inline __attribute__((always_inline)) void v_nf4_cell(const Nf4Table t, ivec code,
                                                             vec *value) {
  UNROLL for (int s = 0; s < NF4_STEPS; s++, code >>= 4) value[s] = v_nf4(t, code);
}
#endif

static void widen_nf4(int depth, const uint32_t *cells, const real *scale, real *y) {
  const Nf4Table table = nf4_table();
  for (int p = 0; p < depth; p += NF4_STEPS, cells += GROUP, y += NF4_STEPS * GROUP) {
    __builtin_prefetch(cells + depth / NF4_STEPS * GROUP);
    UNROLL for (int j = 0; j < PER_GROUP; j++) {
      const vec s = v_load(scale + j * LANES);
      vec value[NF4_STEPS];
      v_nf4_cell(table, v_words(cells + j * LANES), value);
      UNROLL for (int i = 0; i < NF4_STEPS; i++) v_store(y + i * GROUP + j * LANES, value[i] * s);
    }
  }
}

#ifndef V_SQUARE
/* y receives the columns of LANES by LANES reals.  Interleaving the first half of the rows with the
 * second, log2(LANES) times, gives them. */
static inline __attribute__((always_inline)) void v_square(const real *x, ptrdiff_t ldx, vec *y) {
  vec b[LANES];
  UNROLL for (int i = 0; i < LANES; i++) y[i] = v_load(x + i * ldx);
  UNROLL for (int round = 1; round < LANES; round *= 2) {
    UNROLL for (int i = 0; i < LANES / 2; i++) {
      b[2 * i] = v_zip_low(y[i], y[i + LANES / 2]);
      b[2 * i + 1] = v_zip_high(y[i], y[i + LANES / 2]);
    }
    UNROLL for (int i = 0; i < LANES; i++) y[i] = b[i];
  }
}
#endif

static inline __attribute__((always_inline)) void transpose_square(const real *x, ptrdiff_t ldx,
                                                                   real *y, ptrdiff_t ldy) {
  vec column[LANES];
  v_square(x, ldx, column);
  UNROLL for (int i = 0; i < LANES; i++) v_store(y + i * ldy, column[i]);
}

/* y[cols, rows] = x[rows, cols] transposed; a line of y is written at once, also by several
 * squares */
static void transpose(int rows, int cols, const real *x, ptrdiff_t ldx, real *y, ptrdiff_t ldy) {
  const int whole_rows = rows - rows % LANES, whole_cols = cols - cols % LANES;
  for (int i0 = 0; i0 < whole_rows; i0 += GROUP)
    for (int j = 0; j < whole_cols; j += LANES)
      for (int i = i0; i < min_int(i0 + GROUP, whole_rows); i += LANES)
        transpose_square(x + i * ldx + j, ldx, y + j * ldy + i, ldy);
  for (int i = 0; i < rows; i++)
    for (int j = i < whole_rows ? whole_cols : 0; j < cols; j++) y[j * ldy + i] = x[i * ldx + j];
}
