/* logits.inc.c - a row of logits: sums over the vocabulary.
 *
 * Lanes add in single precision over SPAN entries, spans in double.
 */
enum {
  SPAN = 512,
  FLOOR = -1000
}; /* exp(FLOOR) is 0; a logit of -inf counts as FLOOR, so that 0 * -inf never happens */

static inline vec log_prob(const real *z, ptrdiff_t left, real inv_temp, real shift) {
  return v_max(v_set(FLOOR), v_get_or(z, left, -(real)INFINITY) * inv_temp - shift);
}

static void row_stats(int v, const real *logits, real inv_temp, RowStats *st) {
  Wide m = wide_set(-(real)INFINITY);
  EACH_IN_ROW(i, left, v,
              { m.v[j] = v_max(v_get_or(logits + i, left, -(real)INFINITY), m.v[j]); });
  *st = (RowStats){.max = wide_largest(m) * inv_temp};
  for (int at = 0; at < v; at += SPAN) {
    const real *z = logits + at;
    Wide s = wide_set(0), sz = wide_set(0);
    EACH_IN_ROW(i, left, min_int(v - at, SPAN), {
      const vec d = log_prob(z + i, left, inv_temp, st->max), e = v_exp(d);
      s.v[j] += e;
      sz.v[j] = v_fma(e, d, sz.v[j]);
    });
    st->sum += (double)wide_sum(s);
    st->sumz += (double)wide_sum(sz);
  }
}

typedef real four __attribute__((vector_size(4 * sizeof(real)), aligned(sizeof(real)), may_alias));
typedef double four_sums __attribute__((vector_size(4 * sizeof(double))));

static double probs(int n, const real *logits, real inv_temp, real lse, real *p) {
  four_sums s = {0};
  int i = 0;
  for (; i < n; i += LANES) v_put(p + i, n - i, v_exp(v_get(logits + i, n - i) * inv_temp - lse));
  for (i = 0; i + 4 <= n; i += 4) s += __builtin_convertvector(*(const four *)(p + i), four_sums);
  for (int k = 0; i + k < n; k++) s[k] += (double)p[i + k];
  return (s[0] + s[1]) + (s[2] + s[3]);
}

static void logp_grad(int v, real *logits, real inv_temp, real lse, real c0, real c1) {
  for (int i = 0; i < v; i += LANES) {
    vec l = log_prob(logits + i, v - i, inv_temp, lse);
    v_put(logits + i, v - i, v_exp(l) * v_fma(l, v_set(c1), v_set(c0)));
  }
}

/* p and log p - log p_ref, which is 0 where p is */
static inline vec log_ratio(const real *z, const real *ref, ptrdiff_t left, real inv_temp, real lse,
                            real ref_lse, vec *p) {
  vec l = log_prob(z, left, inv_temp, lse);
  vec r = v_get(ref, left) * inv_temp - ref_lse;
  *p = v_exp(l);
  return v_keep(~(ivec)(*p == 0), l - r);
}

static double kl(int v, const real *logits, const real *ref, real inv_temp, real lse,
                 real ref_lse) {
  double total = 0;
  for (int at = 0; at < v; at += SPAN) {
    const real *z = logits + at, *r = ref + at;
    Wide s = wide_set(0);
    EACH_IN_ROW(i, left, min_int(v - at, SPAN), {
      vec p, d = log_ratio(z + i, r + i, left, inv_temp, lse, ref_lse, &p);
      s.v[j] = v_fma(p, d, s.v[j]);
    });
    total += (double)wide_sum(s);
  }
  return total;
}

static void kl_grad(int v, const real *logits, const real *ref, real inv_temp, real lse,
                    real ref_lse, real kl_row, real c, real *dlogits) {
  for (int i = 0; i < v; i += LANES) {
    vec p, d = log_ratio(logits + i, ref + i, v - i, inv_temp, lse, ref_lse, &p);
    put_or_add(dlogits + i, v - i, true, c * p * (d - kl_row));
  }
}

/* A token's probability p under the policy and q under the reference, d = log q - log p, and above:
 * log m - log p for their mixture m = beta q + (1 - beta) p, which is
 * log((1 - beta) + beta exp(d)). */
typedef struct Mix {
  vec p, q, d, above;
} Mix;

static inline Mix mixture(const real *z, const real *ref, ptrdiff_t left, real inv_temp, real lse,
                          real ref_lse, real beta) {
  const vec l = log_prob(z, left, inv_temp, lse), r = log_prob(ref, left, inv_temp, ref_lse);
  const vec d = r - l, e = v_exp(-v_max(d, -d)), a = v_set(1 - beta), b = v_set(beta);
  const vec larger = v_sel((ivec)(d > 0), b, a), smaller = v_sel((ivec)(d > 0), a, b);
  return (Mix){v_exp(l), v_exp(r), d, v_log(v_fma(smaller, e, larger)) + v_max(v_set(0), d)};
}

static double forward_kl(int v, const real *logits, const real *ref, real inv_temp, real lse,
                         real ref_lse) {
  double total = 0;
  for (int at = 0; at < v; at += SPAN) {
    const real *z = logits + at, *other = ref + at;
    Wide s = wide_set(0);
    EACH_IN_ROW(i, left, min_int(v - at, SPAN), {
      const vec l = log_prob(z + i, left, inv_temp, lse);
      const vec r = log_prob(other + i, left, inv_temp, ref_lse);
      s.v[j] = v_fma(v_exp(r), r - l, s.v[j]);
    });
    total += (double)wide_sum(s);
  }
  return total;
}

static double jsd(int v, const real *logits, const real *ref, real inv_temp, real lse, real ref_lse,
                  real beta, double *mean) {
  double of_p = 0, of_q = 0;
  *mean = -1;
  if (beta == 0) return forward_kl(v, logits, ref, inv_temp, lse, ref_lse);
  for (int at = 0; at < v; at += SPAN) {
    const real *z = logits + at, *r = ref + at;
    Wide sp = wide_set(0), sq = wide_set(0);
    EACH_IN_ROW(i, left, min_int(v - at, SPAN), {
      const Mix m = mixture(z + i, r + i, left, inv_temp, lse, ref_lse, beta);
      sp.v[j] = v_fma(m.p, -m.above, sp.v[j]);
      sq.v[j] = v_fma(m.q, m.d - m.above, sq.v[j]);
    });
    of_p += (double)wide_sum(sp);
    of_q += (double)wide_sum(sq);
  }
  *mean = (double)(1 - beta) * of_p;
  return *mean + (double)beta * of_q;
}

static void jsd_grad(int v, const real *logits, const real *ref, real inv_temp, real lse,
                     real ref_lse, real beta, real mean, real c, real *dlogits) {
  for (int i = 0; i < v; i += LANES) {
    if (beta == 0) {
      const vec p = v_exp(log_prob(logits + i, v - i, inv_temp, lse));
      const vec q = v_exp(log_prob(ref + i, v - i, inv_temp, ref_lse));
      put_or_add(dlogits + i, v - i, true, c * (p - q));
    } else {
      const Mix m = mixture(logits + i, ref + i, v - i, inv_temp, lse, ref_lse, beta);
      put_or_add(dlogits + i, v - i, true, c * m.p * ((beta - 1) * m.above - mean));
    }
  }
}
