/* norm_rope.inc.c - one row at a time: norms, rotary positions, attention's softmax. */

/* Sums over a row have GROUP lanes in every class, whatever the width of a vector, so that the
 * width changes no bit.  A Wide is these lanes. */
typedef struct Wide {
  vec v[PER_GROUP];
} Wide;

/* Each vector of a whole group, and then each of the group that the row ends in. */
#define EACH_IN_ROW(i, left, n, ...)                                                               \
  do {                                                                                             \
    int group_at = 0;                                                                              \
    for (; group_at + GROUP <= (n); group_at += GROUP)                                             \
      UNROLL for (int j = 0; j < PER_GROUP; j++) {                                                 \
        const int i = group_at + j * LANES;                                                        \
        const ptrdiff_t left = LANES;                                                              \
        __VA_ARGS__                                                                                \
      }                                                                                            \
    UNROLL for (int j = 0; j < PER_GROUP; j++) {                                                   \
      const int i = group_at + j * LANES;                                                          \
      const ptrdiff_t left = (n)-i;                                                                \
      if (left > 0) {                                                                              \
        __VA_ARGS__                                                                                \
      }                                                                                            \
    }                                                                                              \
  } while (0)

static inline Wide wide_set(real x) {
  Wide w;
  UNROLL for (int j = 0; j < PER_GROUP; j++) w.v[j] = v_set(x);
  return w;
}
/* Halves are folded. */
static inline real wide_sum(Wide w) {
  UNROLL for (int n = PER_GROUP / 2; n > 0; n /= 2)
      UNROLL for (int j = 0; j < n; j++) w.v[j] += w.v[j + n];
  return v_sum(w.v[0]);
}
/* never -0 */
static inline real wide_largest(Wide w) {
  UNROLL for (int n = PER_GROUP / 2; n > 0; n /= 2) for (int j = 0; j < n; j++) w.v[j] =
      v_max(w.v[j + n], w.v[j]);
  return v_largest(w.v[0]) + 0;
}

static real dot(int n, const real *a, const real *b) {
  Wide s = wide_set(0);
  EACH_IN_ROW(i, left, n, { s.v[j] = v_fma(v_get(a + i, left), v_get(b + i, left), s.v[j]); });
  return wide_sum(s);
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
  Wide s = wide_set(0);
  EACH_IN_ROW(i, left, c, {
    const vec g = v_get(dy + i, left) * (v_get(w + i, left) + base);
    s.v[j] = v_fma(g, v_get(x + i, left), s.v[j]);
  });
  const real k = (real)((double)wide_sum(s) * rstd * rstd / c);
  for (int i = 0; i < c; i += LANES) {
    vec g = v_get(dy + i, c - i) * (v_get(w + i, c - i) + base);
    put_or_add(dx + i, c - i, add, (g - v_get(x + i, c - i) * k) * rstd);
  }
}

static void layernorm(int c, const real *x, const real *w, const real *b, real base, double eps,
                      real *y, real *mean, real *rstd) {
  Wide s = wide_set(0), q = wide_set(0);
  EACH_IN_ROW(i, left, c, { s.v[j] += v_get(x + i, left); });
  const real mu = (real)((double)wide_sum(s) / c);
  EACH_IN_ROW(i, left, c, {
    const vec d = v_get_or(x + i, left, mu) - mu;
    q.v[j] = v_fma(d, d, q.v[j]);
  });
  const real r = (real)(1 / sqrt((double)wide_sum(q) / c + eps));
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
  Wide sg = wide_set(0), sn = wide_set(0);
  EACH_IN_ROW(i, left, c, {
    const vec g = v_get(dy + i, left) * (v_get(w + i, left) + base);
    sg.v[j] += g;
    sn.v[j] = v_fma(g, (v_get(x + i, left) - mean) * rstd, sn.v[j]);
  });
  const real mg = (real)((double)wide_sum(sg) / c), mn = (real)((double)wide_sum(sn) / c);
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

/* Lanes of a group below `from`, and from `to` on, become x. */
static inline void fill_outside(real *s, int from, int to, real x) {
  lane_int lane[LANES];
  ivec at;
  for (int l = 0; l < LANES; l++) lane[l] = l;
  memcpy(&at, lane, sizeof at);
  UNROLL for (int j = 0; j < PER_GROUP; j++, s += LANES) {
    const ivec in = (ivec)(at >= from - j * LANES) & (ivec)(at < to - j * LANES);
    v_store(s, v_sel(in, v_load(s), v_set(x)));
  }
}

static void fill_zero(real *s, int from, int to) {
  for (int i = from; i < to; i += LANES) v_store(s + i, v_set(0));
}

static inline real softmax_row(int lo, int hi, real scale, real *s, real *max) {
  const int from = lo / GROUP * GROUP, to = round_up(hi, GROUP);
  const int end = to - GROUP;
  const real none = -(real)INFINITY;
  if (from < lo) fill_outside(s + from, lo - from, hi - from, none);
  if (hi < to) fill_outside(s + end, lo - end, hi - end, none);
  Wide m = wide_set(none), sum = wide_set(0);
  for (int i = from; i < to; i += GROUP)
    UNROLL for (int j = 0; j < PER_GROUP; j++) m.v[j] = v_max(v_load(s + i + j * LANES), m.v[j]);
  *max = wide_largest(m) * scale;
  const vec k = v_set(scale), shift = v_set(-*max);
  for (int i = from; i < to; i += GROUP) UNROLL for (int j = 0; j < PER_GROUP; j++) {
      real *at = s + i + j * LANES;
      const vec p = v_exp(v_fma(v_load(at), k, shift));
      v_store(at, p);
      sum.v[j] += p;
    }
  return wide_sum(sum);
}

static void softmax(int m, int first, int last, int lo, int hi, real scale, real *s, ptrdiff_t ld,
                    real *max, real *sum) {
  const bool none = lo >= hi;
  const int from = none ? last : lo, to = none ? last : hi;
  for (int i = 0; i < m; i++, s += ld) {
    max[i] = -(real)INFINITY;
    sum[i] = none ? 0 : softmax_row(lo, hi, scale, s, max + i);
    fill_zero(s, first / GROUP * GROUP, from / GROUP * GROUP);
    fill_zero(s, none ? first / GROUP * GROUP : round_up(to, GROUP), last);
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

/* part[i] = the sum of the rows that are i + `parity` modulo GROUP, for the PARTS parts that
 * registers hold together */
enum { PARTS = LANES < (int)GROUP ? GROUP / 2 : GROUP };
static inline void sum_parts(int parity, int from, int to, const real *s, ptrdiff_t ld, vec *part) {
  for (int i = 0; i < PARTS; i++) part[i] = v_set(0);
  int j = from / GROUP * GROUP + parity;
  for (; j < from && j + PARTS <= to; j += GROUP)
    for (int i = max_int(0, from - j); i < PARTS; i++) part[i] += v_load(s + (j + i) * ld);
  for (; j + PARTS <= to; j += GROUP)
    UNROLL for (int i = 0; i < PARTS; i++) part[i] += v_load(s + (j + i) * ld);
  for (int i = max_int(0, from - j); i < PARTS && j + i < to; i++)
    part[i] += v_load(s + (j + i) * ld);
}

/* folded like wide_sum */
static inline vec sum_rows(int from, int to, const real *s, ptrdiff_t ld) {
  vec part[PARTS];
  sum_parts(0, from, to, s, ld, part);
  if (PARTS != (int)GROUP) {
    vec other[PARTS];
    sum_parts(PARTS, from, to, s, ld, other);
    UNROLL for (int i = 0; i < PARTS; i++) part[i] += other[i];
  }
  UNROLL for (int n = PARTS / 2; n > 0; n /= 2) for (int i = 0; i < n; i++) part[i] += part[i + n];
  return part[0];
}

static inline void softmax_lanes(int from, int to, const int *lo, const int *hi, real scale,
                                 real *s, ptrdiff_t ld, real *max, real *sum) {
  const Seen w = seen_by(from, to, lo, hi);
  vec m = some_largest(&w, from, w.from, s, ld, v_set(-(real)INFINITY));
  m = some_largest(&w, w.to, to, s, ld, all_largest(w.from, w.to, s, ld, m));
  const vec k = v_set(scale), top = (m + 0) * scale;
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
