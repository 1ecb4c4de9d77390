/* attention_ds_bf16.inc.c - attention's P and dS in bf16 pairs: pairs of queries for the products
 * that sum over queries, and dS also in pairs of keys.  Two queries are computed at a time. */

/* P of 16 keys from index j on, and their dS in *ds. */
static inline __attribute__((always_inline)) __m512 ds_at(const bool all, const bool capped,
                                                          const AttnDs *x, const Exp *e, int i,
                                                          int j, const real *s, const real *dp,
                                                          __m512 *ds) {
  const __m512 scale = _mm512_set1_ps(x->scale), score = _mm512_loadu_ps(s + j);
  __m512 slope = scale, p = exp_at(e, score);
  if (capped) {
    const __m512 t = _mm512_mul_ps(score, _mm512_set1_ps(1 / x->cap));
    slope = _mm512_fnmadd_ps(_mm512_mul_ps(t, t), scale, scale);
  }
  *ds = _mm512_mul_ps(_mm512_mul_ps(p, slope),
                      _mm512_sub_ps(_mm512_loadu_ps(dp + j), _mm512_set1_ps(x->d[i])));
  if (!all) {
    const __mmask16 seen = seen_lanes(j, x->lo[i] - x->key, x->hi[i] - x->key);
    p = _mm512_maskz_mov_ps(seen, p);
    *ds = _mm512_maskz_mov_ps(seen, *ds);
  }
  return p;
}

/* Where the two queries' results go. */
typedef struct DsOut {
  uint32_t *p, *ds, *row0, *row1;
  ptrdiff_t bgs;
} DsOut;

static inline __m512i two_groups(__m512 a, __m512 b) { return (__m512i)_mm512_cvtne2ps_pbh(b, a); }

/* 32 keys from index j on of queries i and i + 1 */
static inline __attribute__((always_inline)) void ds_unit(const bool all, const bool capped,
                                                          const AttnDs *x, const Exp e[2], int i,
                                                          int j, const real *s, const real *dp,
                                                          ptrdiff_t ld, const DsOut *to) {
  __m512 d00, d01, d10, d11;
  const __m512 p00 = ds_at(all, capped, x, e, i, j, s, dp, &d00);
  const __m512 p01 = ds_at(all, capped, x, e, i, j + GROUP, s, dp, &d01);
  const __m512 p10 = ds_at(all, capped, x, e + 1, i + 1, j, s + ld, dp + ld, &d10);
  const __m512 p11 = ds_at(all, capped, x, e + 1, i + 1, j + GROUP, s + ld, dp + ld, &d11);
  const ptrdiff_t at = j / GROUP * to->bgs, next = at + to->bgs;
  _mm512_storeu_si512(to->p + at, pair_lanes(p00, p10));
  _mm512_storeu_si512(to->p + next, pair_lanes(p01, p11));
  _mm512_storeu_si512(to->ds + at, pair_lanes(d00, d10));
  _mm512_storeu_si512(to->ds + next, pair_lanes(d01, d11));
  _mm512_storeu_si512(to->row0 + j / 2, two_groups(d00, d01));
  _mm512_storeu_si512(to->row1 + j / 2, two_groups(d10, d11));
}

static inline void ds_none(int from, int to, const DsOut *out) {
  const __m512i none = _mm512_setzero_si512();
  for (int j = from; j < to; j += GROUP) {
    _mm512_storeu_si512(out->p + j / GROUP * out->bgs, none);
    _mm512_storeu_si512(out->ds + j / GROUP * out->bgs, none);
  }
  for (int j = from; j < to; j += 2 * GROUP) {
    _mm512_storeu_si512(out->row0 + j / 2, none);
    _mm512_storeu_si512(out->row1 + j / 2, none);
  }
}

static inline __attribute__((always_inline)) void ds_pair(const bool capped, const AttnDs *x, int i,
                                                          int n, const real *s, const real *dp,
                                                          ptrdiff_t ld, const DsOut *to) {
  const int lo = min_int(x->lo[i], x->lo[i + 1]) - x->key;
  const int hi = min_int(max_int(x->hi[i], x->hi[i + 1]) - x->key, n);
  const int all_lo = max_int(x->lo[i], x->lo[i + 1]) - x->key;
  const int all_hi = min_int(x->hi[i], x->hi[i + 1]) - x->key;
  const real k = capped ? 1 : x->scale;
  const Exp e[2] = {exp_minus(k, x->lse[i]), exp_minus(k, x->lse[i + 1])};
  int j = min_int(n, max_int(lo, 0) / KV_UNIT * KV_UNIT);
  ds_none(0, j, to);
  for (; j < hi; j += KV_UNIT)
    if (j >= all_lo && j + KV_UNIT <= all_hi)
      ds_unit(true, capped, x, e, i, j, s, dp, ld, to);
    else
      ds_unit(false, capped, x, e, i, j, s, dp, ld, to);
  ds_none(j, n, to);
}

static void ds_bf16(int units, int n, const AttnDs *x, const real *s, const real *dp, ptrdiff_t ld,
                 uint32_t *p, uint32_t *ds, ptrdiff_t bgs, uint32_t *rows, ptrdiff_t ldr) {
  DsOut to = {p, ds, rows, rows + ldr, bgs};
  for (int i = 0; i < units; i += 2, s += 2 * ld, dp += 2 * ld) {
    if (x->cap > 0)
      ds_pair(true, x, i, n, s, dp, ld, &to);
    else
      ds_pair(false, x, i, n, s, dp, ld, &to);
    to.p += GROUP, to.ds += GROUP, to.row0 += 2 * ldr, to.row1 += 2 * ldr;
  }
}
