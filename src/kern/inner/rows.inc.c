/* rows.inc.c - one row at a time: norms, rotary positions, attention's softmax. */

static real dot(int n, const real *a, const real *b) {
  vec s = v_set(0);
  for (int i = 0; i < n; i += LANES) s = v_fma(v_get(a + i, n - i), v_get(b + i, n - i), s);
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

static void layernorm(int c, const real *x, const real *w, const real *b, double eps, real *y,
                      real *mean, real *rstd) {
  vec s = v_set(0), q = v_set(0);
  for (int i = 0; i < c; i += LANES) s += v_get(x + i, c - i);
  const real mu = (real)((double)v_sum(s) / c);
  for (int i = 0; i < c; i += LANES) {
    vec d = v_get_or(x + i, c - i, mu) - mu;
    q = v_fma(d, d, q);
  }
  const real r = (real)(1 / sqrt((double)v_sum(q) / c + eps));
  for (int i = 0; i < c; i += LANES) {
    vec n = (v_get(x + i, c - i) - mu) * r * v_get(w + i, c - i);
    v_put(y + i, c - i, b ? n + v_get(b + i, c - i) : n);
  }
  *mean = mu;
  *rstd = r;
}

/* dx = r (g - mean(g) - n mean(g n)), g = dy w, n = (x - mean) r */
static void layernorm_dx(int c, const real *x, const real *w, real mean, real rstd, const real *dy,
                         real *dx, bool add) {
  vec sg = v_set(0), sn = v_set(0);
  for (int i = 0; i < c; i += LANES) {
    vec g = v_get(dy + i, c - i) * v_get(w + i, c - i);
    sg += g;
    sn = v_fma(g, (v_get(x + i, c - i) - mean) * rstd, sn);
  }
  const real mg = (real)((double)v_sum(sg) / c), mn = (real)((double)v_sum(sn) / c);
  for (int i = 0; i < c; i += LANES) {
    vec g = v_get(dy + i, c - i) * v_get(w + i, c - i), n = (v_get(x + i, c - i) - mean) * rstd;
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

/* lanes l with lo[l] <= j < hi[l] */
static inline ivec seen(lane_int j, ivec lo, ivec hi) { return (ivec)(lo <= j) & (ivec)(hi > j); }

/* The same for LANES columns; sums by row modulo LANES, folded as v_sum does. */
static inline void softmax_lanes(int from, int to, const int *lo, const int *hi, real scale,
                                 real *s, ptrdiff_t ld, real *max, real *sum) {
  int all_from = from, all_to = to;
  lane_int a[LANES], b[LANES];
  ivec l, h;
  for (int i = 0; i < LANES; i++) {
    a[i] = lo[i], b[i] = hi[i];
    all_from = kern_max(all_from, lo[i]), all_to = kern_min(all_to, hi[i]);
  }
  memcpy(&l, a, sizeof l), memcpy(&h, b, sizeof h);
  all_to = kern_max(all_to, all_from);
  const vec none = v_set(-(real)INFINITY);
  vec m[4] = {none, none, none, none}, part[LANES];
  for (int j = from; j < kern_min(all_from, to); j++)
    m[0] = v_max(v_sel(seen(j, l, h), v_load(s + j * ld), none), m[0]);
  for (int j = all_from; j < all_to; j++) m[j & 3] = v_max(v_load(s + j * ld), m[j & 3]);
  for (int j = all_to; j < to; j++)
    m[0] = v_max(v_sel(seen(j, l, h), v_load(s + j * ld), none), m[0]);
  const vec top = v_max(v_max(m[0], m[1]), v_max(m[2], m[3])) * scale, k = v_set(scale);
  for (int j = from; j < to; j++) {
    vec p = v_exp(v_fma(v_load(s + j * ld), k, -top));
    if (j < all_from || j >= all_to) p = v_keep(seen(j, l, h), p);
    v_store(s + j * ld, p);
  }
  for (int i = 0; i < LANES; i++) {
    part[i] = v_set(0);
    for (int j = from + (i - from % LANES + LANES) % LANES; j < to; j += LANES)
      part[i] += v_load(s + j * ld);
  }
  for (int n = LANES / 2; n > 0; n /= 2)
    for (int i = 0; i < n; i++) part[i] += part[i + n];
  v_store(max, top);
  v_store(sum, part[0]);
}

static void softmax_down(int from, int to, const int *lo, const int *hi, real scale, real *s,
                         ptrdiff_t ld, real *max, real *sum) {
  for (int i = 0; i < GROUP; i += LANES)
    softmax_lanes(from, to, lo + i, hi + i, scale, s + i, ld, max + i, sum + i);
}

static void attn_ds(int keys, int rows, int ld, real scale, real cap, const real *lse,
                    const real *d, int first, int last, real *p, real *ds) {
  for (int j = 0; j < keys; j++, p += ld, ds += ld)
    for (int i = 0; i < rows; i += LANES) {
      vec z = v_load(p + i) * scale, slope = v_set(scale);
      if (cap > 0) {
        vec t = v_tanh(z / cap);
        z = cap * t;
        slope = slope * (1 - t * t);
      }
      vec e = v_exp(z - v_load(lse + i));
      if (first + j > i || last + j < i + LANES) { /* some lane does not see the key */
        real t[LANES];
        for (int l = 0; l < LANES; l++) t[l] = i + l >= first + j && i + l < last + j;
        vec seen = v_load(t);
        e = v_sel((ivec)(seen > 0), e, v_set(0));
      }
      v_store(p + i, e);
      v_store(ds + i, e * (v_load(ds + i) - v_load(d + i)) * slope);
    }
}
