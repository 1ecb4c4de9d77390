/* elementwise.inc.c - operations on n independent elements. */

/* Whole vectors come first: `left` is known to be LANES there, so no vector needs a test. */
#define EACH(i, left, n, ...)                                                                      \
  do {                                                                                             \
    size_t i = 0;                                                                                  \
    for (; i + LANES <= n; i += LANES) {                                                           \
      const ptrdiff_t left = LANES;                                                                \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
    const ptrdiff_t left = (ptrdiff_t)(n - i);                                                     \
    if (left > 0) {                                                                                \
      __VA_ARGS__                                                                                  \
    }                                                                                              \
  } while (0)

static void exp_all(size_t n, const real *x, real *y) {
  EACH(i, left, n, { v_put(y + i, left, v_exp(v_get(x + i, left))); });
}

static void swiglu(size_t n, const real *gate, const real *up, real *y) {
  EACH(i, left, n, {
    vec g = v_get(gate + i, left);
    v_put(y + i, left, g * v_sigmoid(g) * v_get(up + i, left));
  });
}

static void swiglu_grad(size_t n, const real *gate, const real *up, const real *dy, real *dgate,
                        bool add_gate, real *dup, bool add_up) {
  EACH(i, left, n, {
    vec g = v_get(gate + i, left), u = v_get(up + i, left), d = v_get(dy + i, left);
    vec s = v_sigmoid(g), silu = g * s;
    if (dgate) put_or_add(dgate + i, left, add_gate, d * u * v_fma(silu, 1 - s, s));
    if (dup) put_or_add(dup + i, left, add_up, d * silu);
  });
}

/* gelu(x) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): no cancellation as with tanh.
 * Beyond |x| = 30 the sigmoid is 0 or 1 in any precision, and x^3 must not overflow. */
static inline vec gelu_sigmoid(vec x, vec *x2) {
  vec c = v_min(v_set(30), v_max(v_set(-30), x));
  *x2 = c * c;
  return v_sigmoid((real)1.5957691216057308 * c * v_fma(*x2, v_set((real)0.044715), v_set(1)));
}

/* gelu'(x) */
static inline vec gelu_slope(vec x, vec s, vec x2) {
  vec du = (real)1.5957691216057308 * v_fma(x2, v_set((real)0.134145), v_set(1));
  return v_fma(x * s * (1 - s), du, s);
}

static void gelu(size_t n, const real *x, real *y) {
  EACH(i, left, n, {
    vec v = v_get(x + i, left), x2;
    v_put(y + i, left, v * gelu_sigmoid(v, &x2));
  });
}

static void gelu_grad(size_t n, const real *x, const real *dy, real *dx, bool add) {
  EACH(i, left, n, {
    vec v = v_get(x + i, left), x2, s = gelu_sigmoid(v, &x2);
    put_or_add(dx + i, left, add, v_get(dy + i, left) * gelu_slope(v, s, x2));
  });
}

static void geglu(size_t n, const real *gate, const real *up, real *y) {
  EACH(i, left, n, {
    vec g = v_get(gate + i, left), x2;
    v_put(y + i, left, g * gelu_sigmoid(g, &x2) * v_get(up + i, left));
  });
}

static void geglu_grad(size_t n, const real *gate, const real *up, const real *dy, real *dgate,
                       bool add_gate, real *dup, bool add_up) {
  EACH(i, left, n, {
    vec g = v_get(gate + i, left), u = v_get(up + i, left), d = v_get(dy + i, left), x2;
    vec s = gelu_sigmoid(g, &x2);
    if (dgate) put_or_add(dgate + i, left, add_gate, d * u * gelu_slope(g, s, x2));
    if (dup) put_or_add(dup + i, left, add_up, d * g * s);
  });
}

static void softcap(size_t n, real scale, real cap, const real *x, real *y) {
  const real inverse = scale / cap;
  EACH(i, left, n, { v_put(y + i, left, cap * v_tanh(v_get(x + i, left) * inverse)); });
}

static void softcap_grad(size_t n, real cap, const real *y, const real *dy, real *dx, bool add) {
  const real inverse = 1 / cap;
  EACH(i, left, n, {
    vec t = v_get(y + i, left) * inverse;
    put_or_add(dx + i, left, add, v_get(dy + i, left) * (1 - t * t));
  });
}

static void add_all(size_t n, const real *a, const real *b, real *y) {
  EACH(i, left, n, { v_put(y + i, left, v_get(a + i, left) + v_get(b + i, left)); });
}

static void scale_all(size_t n, real alpha, const real *x, real *y) {
  EACH(i, left, n, { v_put(y + i, left, v_get(x + i, left) * alpha); });
}

static void mix(size_t n, real a, real *y, real b, const real *x) {
  EACH(i, left, n,
       { v_put(y + i, left, v_fma(v_set(b), v_get(x + i, left), v_get(y + i, left) * a)); });
}

static void lerp(size_t n, real alpha, const real *x, real *y) {
  const real keep = 1 - alpha;
  EACH(i, left, n,
       { v_put(y + i, left, v_fma(v_get(x + i, left), v_set(alpha), v_get(y + i, left) * keep)); });
}

static void adamw(size_t n, real *p, const real *g, real *m, real *v, const AdamScalars *o) {
  EACH(i, left, n, {
    vec gi = v_get(g + i, left) * o->grad_scale;
    vec mi = v_get(m + i, left), vi = v_get(v + i, left);
    mi = v_fma(gi - mi, v_set(o->rest1), mi);
    vi = v_fma(gi * gi, v_set(o->rest2), vi * o->beta2);
    v_put(m + i, left, mi);
    v_put(v + i, left, vi);
    vec step = mi * o->step / (v_sqrt(vi) * o->root2 + o->eps);
    v_put(p + i, left, v_get(p + i, left) * o->keep - step);
  });
}

static void lion(size_t n, real *p, const real *g, real *m, const LionScalars *o) {
  const vec up = v_set(o->lr), none = v_set(0);
  EACH(i, left, n, {
    vec gi = v_get(g + i, left) * o->grad_scale, mi = v_get(m + i, left);
    vec u = v_fma(gi, v_set(o->rest1), mi * o->beta1);
    v_put(m + i, left, v_fma(gi, v_set(o->rest2), mi * o->beta2));
    vec step = v_sel((ivec)(u > 0), up, v_sel((ivec)(u < 0), -up, none));
    v_put(p + i, left, v_get(p + i, left) * o->keep - step);
  });
}

static double sumsq(size_t n, const real *x) {
  double s[GROUP] = {0}, total = 0;
  for (size_t i = 0; i < n; i += GROUP) {
    const int m = n - i < GROUP ? (int)(n - i) : GROUP;
    for (int l = 0; l < m; l++) s[l] += (double)x[i + (size_t)l] * (double)x[i + (size_t)l];
  }
  for (int l = 0; l < GROUP; l++) total += s[l];
  return total;
}
