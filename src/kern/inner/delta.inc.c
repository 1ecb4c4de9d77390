/* delta.inc.c - the gated delta rule, a token and a panel of DELTA_COLUMNS values at a time, and
 * the causal convolution, a token and a block of channels.  Formulas: kern/delta.h, kern/conv.h. */

enum { DELTA_VECS = DELTA_COLUMNS / LANES };

static void delta_step(const DeltaStep *t, real *s, real *rest, real *o) {
  vec sum[DELTA_VECS], out[DELTA_VECS];
  for (int j = 0; j < DELTA_VECS; j++) sum[j] = out[j] = v_set(0);
  for (int i = 0; i < t->n; i++) {
    const vec k = v_set(t->k[i]);
    const real *si = s + i * DELTA_COLUMNS;
    for (int j = 0; j < DELTA_VECS; j++) sum[j] = v_fma(v_load(si + j * LANES), k, sum[j]);
  }
  for (int j = 0; j < DELTA_VECS; j++) {
    const vec e = v_fma(sum[j], v_set(-t->decay), v_load(t->v + j * LANES));
    v_store(rest + j * LANES, e);
    sum[j] = e * t->beta;
  }
  for (int i = 0; i < t->n; i++) {
    const vec k = v_set(t->k[i]), q = v_set(t->q[i]);
    real *si = s + i * DELTA_COLUMNS;
    for (int j = 0; j < DELTA_VECS; j++) {
      const vec x = v_fma(k, sum[j], v_load(si + j * LANES) * t->decay);
      v_store(si + j * LANES, x);
      out[j] = v_fma(x, q, out[j]);
    }
  }
  for (int j = 0; j < DELTA_VECS; j++) v_store(o + j * LANES, out[j]);
}

/* Sums over the columns of a panel. */
static inline real panel_sum(const vec *x) {
  Wide sum;
  memcpy(&sum, x, sizeof sum);
  for (int j = PER_GROUP; j < DELTA_VECS; j++) sum.v[j % PER_GROUP] += x[j];
  return wide_sum(sum);
}

/* Through o = S^T q and S = decay s + k d^T: ds becomes the gradient of S, and dd that of d. */
static void delta_back_update(const DeltaStep *t, const DeltaStepGrad *g, const vec *d, vec *dd) {
  vec x[DELTA_VECS], y[DELTA_VECS];
  for (int i = 0; i < t->n; i++) {
    const vec k = v_set(t->k[i]), q = v_set(t->q[i]);
    const real *si = g->before + i * DELTA_COLUMNS;
    real *dsi = g->ds + i * DELTA_COLUMNS;
    for (int j = 0; j < DELTA_VECS; j++) {
      const vec dout = v_load(g->dout + j * LANES);
      const vec ds = v_fma(q, dout, v_load(dsi + j * LANES));
      v_store(dsi + j * LANES, ds);
      x[j] = v_fma(k, d[j], v_load(si + j * LANES) * t->decay) * dout;
      y[j] = ds * d[j];
      dd[j] = v_fma(ds, k, dd[j]);
    }
    g->dq[i] += panel_sum(x);
    g->dk[i] += panel_sum(y);
  }
}

/* Through d = beta (v - decay s^T k), with e = dv: ds becomes the gradient of s. */
static void delta_back_rest(const DeltaStep *t, const DeltaStepGrad *g, const vec *e) {
  vec x[DELTA_VECS], decay[DELTA_VECS];
  for (int j = 0; j < DELTA_VECS; j++) decay[j] = v_set(0);
  for (int i = 0; i < t->n; i++) {
    const vec k = v_set(t->k[i]);
    const real *si = g->before + i * DELTA_COLUMNS;
    real *dsi = g->ds + i * DELTA_COLUMNS;
    for (int j = 0; j < DELTA_VECS; j++) {
      const vec p = v_load(si + j * LANES) * t->decay, dp = v_load(dsi + j * LANES) - k * e[j];
      x[j] = p * e[j];
      decay[j] = v_fma(dp, p, decay[j]);
      v_store(dsi + j * LANES, dp * t->decay);
    }
    g->dk[i] -= panel_sum(x);
  }
  *g->dlog += panel_sum(decay);
}

static void delta_step_back(const DeltaStep *t, const DeltaStepGrad *g) {
  vec d[DELTA_VECS], dd[DELTA_VECS], x[DELTA_VECS];
  for (int j = 0; j < DELTA_VECS; j++) {
    d[j] = v_load(g->rest + j * LANES) * t->beta;
    dd[j] = v_set(0);
  }
  delta_back_update(t, g, d, dd);
  for (int j = 0; j < DELTA_VECS; j++) {
    x[j] = dd[j] * v_load(g->rest + j * LANES);
    dd[j] *= t->beta;
    v_store(g->dv + j * LANES, dd[j]);
  }
  *g->dbeta += panel_sum(x);
  delta_back_rest(t, g, dd);
}

static vec conv_sum(int taps, const real *const *x, const real *w, int i, ptrdiff_t left) {
  vec sum = v_set(0);
  for (int j = 0; j < taps; j++)
    sum = v_fma(v_get(x[j] + i, left), v_load(w + j * CONV_BLOCK + i), sum);
  return sum;
}

static void conv_step(int n, int taps, const real *const *x, const real *w, bool silu, real *y) {
  for (int i = 0; i < n; i += LANES) {
    const vec u = conv_sum(taps, x, w, i, n - i);
    v_put(y + i, n - i, silu ? u * v_sigmoid(u) : u);
  }
}

static void conv_step_back(int n, int taps, const real *const *x, const real *w, bool silu,
                           const real *dy, real *const *dx, real *dw) {
  for (int i = 0; i < n; i += LANES) {
    const vec u = conv_sum(taps, x, w, i, n - i);
    vec du = v_get(dy + i, n - i);
    if (silu) {
      const vec s = v_sigmoid(u);
      du *= s * (1 + u * (1 - s));
    }
    for (int j = 0; j < taps; j++) {
      real *dwj = dw + j * CONV_BLOCK + i;
      v_put(dx[j] + i, n - i, v_fma(du, v_load(w + j * CONV_BLOCK + i), v_get(dx[j] + i, n - i)));
      v_store(dwj, v_fma(du, v_get(x[j] + i, n - i), v_load(dwj)));
    }
  }
}
