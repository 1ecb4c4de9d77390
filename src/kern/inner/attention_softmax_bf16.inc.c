/* attention_softmax_bf16.inc.c - attention's softmax into bf16 pairs, by AVX-512 with BF16.
 *
 * A file that defines EXP_OF_TWO computes exponentials as powers of two, which takes fewer steps;
 * otherwise they are those of avx512.c.  Probabilities are rounded when they are stored, but the
 * denominator sums the unrounded ones: rounding to nearest is unbiased, so only the numerators
 * carry it. */

/* exp(k x + shift); with EXP_OF_TWO k and shift are in powers of two already */
typedef struct Exp {
  __m512 k, shift;
} Exp;

#ifdef EXP_OF_TWO
/* exp(k x - minus) */
static inline Exp exp_minus(real k, real minus) {
  const real log2e = 1.44269504f;
  return (Exp){_mm512_set1_ps(k * log2e), _mm512_set1_ps(-(minus * log2e))};
}
/* exp(k (x - top)): k is rounded once, so that it is 1 at the top */
static inline Exp exp_below(real k, real top) {
  const real k2 = k * 1.44269504f;
  return (Exp){_mm512_set1_ps(k2), _mm512_set1_ps(-(top * k2))};
}

/* r = z - n, |r| <= 1/2, a polynomial in r, times 2^n.  The relative error for z is below 3e-7; NaN
 * stays NaN. */
static inline __m512 exp_at(const Exp *e, __m512 x) {
  const __m512 magic = _mm512_set1_ps(12582912.0f);
  const __m512 z = _mm512_max_ps(_mm512_set1_ps(-1000), _mm512_fmadd_ps(x, e->k, e->shift));
  const __m512 n = _mm512_sub_ps(_mm512_add_ps(z, magic), magic), r = _mm512_sub_ps(z, n);
  __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(1.33813025e-3f), r, _mm512_set1_ps(9.66636852e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.55038101e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(2.40223490e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(6.93147181e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
  return _mm512_scalef_ps(p, n);
}
#else
static inline Exp exp_below(real k, real top) {
  return (Exp){_mm512_set1_ps(k), _mm512_set1_ps(-(top * k))};
}

/* exp with the bits of inner/vec.inc.c */
static inline __m512 exp_at(const Exp *e, __m512 at) {
  const __m512 x = _mm512_fmadd_ps(at, e->k, e->shift);
  const __m512 lo = _mm512_set1_ps(-87.33654f), magic = _mm512_set1_ps(12582912.0f);
  const __m512 c = _mm512_min_ps(_mm512_set1_ps(89), _mm512_max_ps(lo, x));
  const __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(c, _mm512_set1_ps(1.44269504f), magic), magic);
  __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0.693359375f), c);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(2.12194440e-4f), r);
  __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(1.9875691500e-4f), r, _mm512_set1_ps(1.3981999507e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1f));
  p = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1));
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, lo, _CMP_NLT_UQ), p, n);
}
#endif

/* the lanes of 16 scores from index i on that are in [lo, hi) */
static inline __mmask16 seen_lanes(int i, int lo, int hi) {
  return (__mmask16)(first_lanes(hi - i) & ~first_lanes(lo - i));
}

/* v_sum, bit for bit */
static inline real sum_of_16(__m512 x) {
  __m256 a = _mm512_castps512_ps256(x);
  a = _mm256_add_ps(a, _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1)));
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

/* the largest, or NaN if there is one */
static inline real largest(int lo, int hi, const real *s) {
  const __m512 none = _mm512_set1_ps(-INFINITY);
  const int from = lo / LANES * LANES, to = round_up(hi, LANES);
  __m512 m = none, other = none;
  int i = from;
  for (; i < to && (i < lo || i + LANES > hi); i += LANES)
    m = _mm512_max_ps(m, _mm512_mask_loadu_ps(none, seen_lanes(i, lo, hi), s + i));
  for (; i + 2 * LANES <= hi; i += 2 * LANES) {
    m = _mm512_max_ps(m, _mm512_loadu_ps(s + i));
    other = _mm512_max_ps(other, _mm512_loadu_ps(s + i + LANES));
  }
  for (; i < to; i += LANES)
    m = _mm512_max_ps(m, _mm512_mask_loadu_ps(none, seen_lanes(i, lo, hi), s + i));
  return _mm512_reduce_max_ps(_mm512_max_ps(m, other));
}

/* a, b: 32 probabilities; the first of each two goes to the high half */
static inline void store_pairs(uint32_t *p, __m512 a, __m512 b) {
  _mm512_storeu_si512(p, _mm512_rol_epi32((__m512i)_mm512_cvtne2ps_pbh(b, a), 16));
}

static inline real softmax_bf16_row(int lo, int hi, real scale, const real *s, uint32_t *p,
                                 real *max) {
  const real top = largest(lo, hi, s);
  const Exp e = exp_below(scale, top);
  __m512 sum = _mm512_setzero_ps();
  *max = top * scale;
  for (int i = lo / (2 * LANES) * (2 * LANES); i < hi; i += 2 * LANES) {
    const bool all = i >= lo && i + 2 * LANES <= hi;
    __m512 a = exp_at(&e, _mm512_loadu_ps(s + i)), b = _mm512_setzero_ps();
    if (i + LANES < hi) b = exp_at(&e, _mm512_loadu_ps(s + i + LANES));
    if (!all) {
      a = _mm512_maskz_mov_ps(seen_lanes(i, lo, hi), a);
      b = _mm512_maskz_mov_ps(seen_lanes(i + LANES, lo, hi), b);
    }
    sum = _mm512_add_ps(_mm512_add_ps(sum, a), b);
    store_pairs(p + i / 2, a, b);
  }
  return sum_of_16(sum);
}

static void zero_pairs(uint32_t *p, int from, int to) {
  for (int i = from; i < to; i += 2 * LANES) _mm512_storeu_si512(p + i / 2, _mm512_setzero_si512());
}

static void softmax_bf16(int m, int first, int last, int lo, int hi, real scale, const real *s,
                      ptrdiff_t ld, uint32_t *p, ptrdiff_t ldp, real *max, real *sum) {
  enum { LINE_KEYS = 2 * LANES };
  const bool none = lo >= hi;
  const int begin = first / LINE_KEYS * LINE_KEYS;
  for (int i = 0; i < m; i++, s += ld, p += ldp) {
    max[i] = -(real)INFINITY;
    sum[i] = none ? 0 : softmax_bf16_row(lo, hi, scale, s, p, max + i);
    zero_pairs(p, begin, none ? last : lo / LINE_KEYS * LINE_KEYS);
    zero_pairs(p, none ? last : round_up(hi, LINE_KEYS), last);
  }
}
