/* norm_rope.inc.c - one row at a time: norms, rotary positions, attention's softmax. */

static real dot(int n, const real *a, const real *b) {
  vec s = v_set(0);
  int i = 0;
  for (; i + LANES <= n; i += LANES) s = v_fma(v_load(a + i), v_load(b + i), s);
  if (i < n) s = v_fma(v_get(a + i, n - i), v_get(b + i, n - i), s);
  return v_sum(s);
}

static void rmsnorm(int c, const real *x, const real *w, real base, double eps, real *y,
                    real *rstd) {
  const real r = (real)(1 / sqrt((double)dot(c, x, x) / c + eps));
  for (int i = 0; i < c; i += LANES)
    v_put(y + i, c - i, v_get(x + i, c - i) * r * (v_get(w + i, c - i) + base));
  *rstd = r;
}

static inline void put_or_add(real *y, ptrdiff_t left, bool add, vec x) {
  v_put(y, left, add ? v_get(y, left) + x : x);
}

/* dx = r g - x r^3 (g . x) / c, g = dy (base + w) */
static void rmsnorm_dx(int c, const real *x, const real *w, real base, real rstd, const real *dy,
                       real *dx, bool add) {
  vec s = v_set(0);
  for (int i = 0; i < c; i += LANES)
    s = v_fma(v_get(dy + i, c - i) * (v_get(w + i, c - i) + base), v_get(x + i, c - i), s);
  const real k = (real)((double)v_sum(s) * rstd * rstd / c);
  for (int i = 0; i < c; i += LANES) {
    vec g = v_get(dy + i, c - i) * (v_get(w + i, c - i) + base);
    put_or_add(dx + i, c - i, add, (g - v_get(x + i, c - i) * k) * rstd);
  }
}

static void layernorm(int c, const real *x, const real *w, const real *b, real base, double eps,
                      real *y, real *mean, real *rstd) {
  vec s = v_set(0), q = v_set(0);
  for (int i = 0; i < c; i += LANES) s += v_get(x + i, c - i);
  const real mu = (real)((double)v_sum(s) / c);
  for (int i = 0; i < c; i += LANES) {
    vec d = v_get_or(x + i, c - i, mu) - mu;
    q = v_fma(d, d, q);
  }
  const real r = (real)(1 / sqrt((double)v_sum(q) / c + eps));
  for (int i = 0; i < c; i += LANES) {
    vec n = (v_get(x + i, c - i) - mu) * r * (v_get(w + i, c - i) + base);
    v_put(y + i, c - i, b ? n + v_get(b + i, c - i) : n);
  }
  *mean = mu;
  *rstd = r;
}

/* dx = r (g - mean(g) - n mean(g n)), g = dy (base + w), n = (x - mean) r */
static void layernorm_dx(int c, const real *x, const real *w, real base, real mean, real rstd,
                         const real *dy, real *dx, bool add) {
  vec sg = v_set(0), sn = v_set(0);
  for (int i = 0; i < c; i += LANES) {
    vec g = v_get(dy + i, c - i) * (v_get(w + i, c - i) + base);
    sg += g;
    sn = v_fma(g, (v_get(x + i, c - i) - mean) * rstd, sn);
  }
  const real mg = (real)((double)v_sum(sg) / c), mn = (real)((double)v_sum(sn) / c);
  for (int i = 0; i < c; i += LANES) {
    vec g = v_get(dy + i, c - i) * (v_get(w + i, c - i) + base);
    vec n = (v_get(x + i, c - i) - mean) * rstd;
    put_or_add(dx + i, c - i, add, (g - mg - n * mn) * rstd);
  }
}

static void norm_dw(int c, const real *x, real mean, real rstd, const real *dy, real *dw,
                    real *db) {
  for (int i = 0; i < c; i += LANES) {
    vec d = v_get(dy + i, c - i), n = (v_get(x + i, c - i) - mean) * rstd;
    v_put(dw + i, c - i, v_fma(d, n, v_get(dw + i, c - i)));
    if (db) v_put(db + i, c - i, v_get(db + i, c - i) + d);
  }
}

static void rope(int heads, int d, int h, int n, const real *x, const real *c, const real *s,
                 real *y, bool add) {
  for (int head = 0; head < heads; head++, x += d, y += d)
    for (int i = 0; i < n; i += LANES) {
      vec x1 = v_get(x + i, n - i), x2 = v_get(x + h + i, n - i);
      vec cv = v_get(c + i, n - i), sv = v_get(s + i, n - i);
      put_or_add(y + i, n - i, add, v_fma(x1, cv, -(x2 * sv)));
      put_or_add(y + h + i, n - i, add, v_fma(x2, cv, x1 * sv));
    }
}

/* lanes below n are `fill` */
static inline vec v_start(vec x, int n, real fill) {
  lane_int lane[LANES];
  ivec at;
  for (int l = 0; l < LANES; l++) lane[l] = l;
  memcpy(&at, lane, sizeof at);
  return v_sel((ivec)(at >= n), x, v_set(fill));
}

static void fill_zero(real *s, int from, int to) {
  for (int i = from; i < to; i += LANES) v_store(s + i, v_set(0));
}

static inline real softmax_row(int lo, int hi, real scale, real *s, real *max) {
  const int from = lo / LANES * LANES, to = round_up(hi, LANES), end = to - LANES;
  const real none = -(real)INFINITY;
  if (from < lo) v_store(s + from, v_start(v_load(s + from), lo - from, none));
  if (hi < to) v_store(s + end, v_get_or(s + end, hi - end, none));
  vec m = v_set(none), sum = v_set(0);
  for (int i = from; i < to; i += LANES) m = v_max(v_load(s + i), m);
  *max = v_largest(m) * scale;
  const vec k = v_set(scale), shift = v_set(-*max);
  for (int i = from; i < to; i += LANES) {
    vec p = v_exp(v_fma(v_load(s + i), k, shift));
    v_store(s + i, p);
    sum += p;
  }
  return v_sum(sum);
}

static void softmax(int m, int first, int last, int lo, int hi, real scale, real *s, ptrdiff_t ld,
                    real *max, real *sum) {
  const bool none = lo >= hi;
  const int from = none ? last : lo, to = none ? last : hi;
  for (int i = 0; i < m; i++, s += ld) {
    max[i] = -(real)INFINITY;
    sum[i] = none ? 0 : softmax_row(lo, hi, scale, s, max + i);
    fill_zero(s, first / LANES * LANES, from / LANES * LANES);
    fill_zero(s, none ? first / LANES * LANES : round_up(to, LANES), last);
  }
}

/* Finds which of LANES columns see a row: column l sees rows lo[l] .. hi[l] - 1, and all see rows
 * from `from` to `to`. */
typedef struct Seen {
  ivec lo, hi;
  int from, to;
} Seen;

static inline Seen seen_by(int from, int to, const int *lo, const int *hi) {
  lane_int a[LANES], b[LANES];
  Seen w = {.from = from, .to = to};
  for (int i = 0; i < LANES; i++) {
    a[i] = lo[i], b[i] = hi[i];
    w.from = max_int(w.from, lo[i]), w.to = min_int(w.to, hi[i]);
  }
  memcpy(&w.lo, a, sizeof a), memcpy(&w.hi, b, sizeof b);
  w.from = min_int(w.from, to);
  w.to = max_int(w.to, w.from);
  return w;
}

static inline ivec sees(const Seen *w, int j) {
  return (ivec)(w->lo <= (lane_int)j) & (ivec)(w->hi > (lane_int)j);
}

static inline vec some_largest(const Seen *w, int from, int to, const real *s, ptrdiff_t ld,
                               vec m) {
  const vec none = v_set(-(real)INFINITY);
  for (int j = from; j < to; j++) m = v_max(v_sel(sees(w, j), v_load(s + j * ld), none), m);
  return m;
}

static inline vec all_largest(int from, int to, const real *s, ptrdiff_t ld, vec m) {
  vec m1 = m, m2 = m, m3 = m;
  int j = from;
  for (s += j * ld; j + 4 <= to; j += 4, s += 4 * ld) {
    m = v_max(v_load(s), m), m1 = v_max(v_load(s + ld), m1);
    m2 = v_max(v_load(s + 2 * ld), m2), m3 = v_max(v_load(s + 3 * ld), m3);
  }
  for (; j < to; j++, s += ld) m = v_max(v_load(s), m);
  return v_max(v_max(m, m1), v_max(m2, m3));
}

static inline void exp_rows(const Seen *w, bool all, int from, int to, vec scale, vec shift,
                            real *s, ptrdiff_t ld) {
  for (int j = from; j < to; j++) {
    vec p = v_exp(v_fma(v_load(s + j * ld), scale, shift));
    v_store(s + j * ld, all ? p : v_keep(sees(w, j), p));
  }
}

/* by row modulo LANES, folded like v_sum */
static inline vec sum_rows(int from, int to, const real *s, ptrdiff_t ld) {
  vec part[LANES];
  for (int i = 0; i < LANES; i++) part[i] = v_set(0);
  int j = from / LANES * LANES;
  for (; j < from && j + LANES <= to; j += LANES)
    for (int i = from - j; i < LANES; i++) part[i] += v_load(s + (j + i) * ld);
  for (; j + LANES <= to; j += LANES)
    UNROLL for (int i = 0; i < LANES; i++) part[i] += v_load(s + (j + i) * ld);
  for (int i = max_int(0, from - j); j + i < to; i++) part[i] += v_load(s + (j + i) * ld);
  UNROLL for (int n = LANES / 2; n > 0; n /= 2) for (int i = 0; i < n; i++) part[i] += part[i + n];
  return part[0];
}

static inline void softmax_lanes(int from, int to, const int *lo, const int *hi, real scale,
                                 real *s, ptrdiff_t ld, real *max, real *sum) {
  const Seen w = seen_by(from, to, lo, hi);
  vec m = some_largest(&w, from, w.from, s, ld, v_set(-(real)INFINITY));
  m = some_largest(&w, w.to, to, s, ld, all_largest(w.from, w.to, s, ld, m));
  const vec k = v_set(scale), top = m * scale;
  exp_rows(&w, false, from, w.from, k, -top, s, ld);
  exp_rows(&w, true, w.from, w.to, k, -top, s, ld);
  exp_rows(&w, false, w.to, to, k, -top, s, ld);
  v_store(max, top);
  v_store(sum, sum_rows(from, to, s, ld));
}

static void softmax_down(int from, int to, const int *lo, const int *hi, real scale, real *s,
                         ptrdiff_t ld, real *max, real *sum) {
  for (int i = 0; i < GROUP; i += LANES)
    softmax_lanes(from, to, lo + i, hi + i, scale, s + i, ld, max + i, sum + i);
}

/* one row of attn_ds: P and dS from scores and dP */
static inline void ds_row(real scale, real cap, vec lse, vec d, ivec keep, real *p, real *ds) {
  vec z = v_load(p) * scale, slope = v_set(scale);
  if (cap > 0) {
    vec t = v_tanh(z / cap);
    z = cap * t;
    slope = slope * (1 - t * t);
  }
  vec e = v_keep(keep, v_exp(z - lse));
  v_store(p, e);
  v_store(ds, e * (v_load(ds) - d) * slope);
}

static void attn_ds(int keys, int units, ptrdiff_t ld, real scale, real cap, const real *lse,
                    const real *d, int key, const int *lo, const int *hi, real *p, real *ds) {
  for (int i = 0; i < units; i += LANES) {
    const vec l = v_load(lse + i), dd = v_load(d + i);
    if (lo[i + LANES - 1] <= key && hi[i] >= key + keys) {
      const ivec all = ~(ivec){0};
      for (int j = 0; j < keys; j++)
        ds_row(scale, cap, l, dd, all, p + j * ld + i, ds + j * ld + i);
    } else {
      const Seen w = seen_by(key, key + keys, lo + i, hi + i);
      for (int j = 0; j < keys; j++)
        ds_row(scale, cap, l, dd, sees(&w, key + j), p + j * ld + i, ds + j * ld + i);
    }
  }
}
