/* Norms, rotary positions, elementwise functions and the optimizer on every path. */
#include <float.h>

#include "kern/elementwise.h"
#include "kern/gemm.h"
#include "kern/kernels.h"
#include "kern/norm_rope.h"
#include "kern/optimizers.h"
#include "kern_test.h"

/* A row function of MAX_ROWS rows of C, run from row `at`. */
enum { C = 77, N = 16 * 2400 + 11 };

static float *x, *w, *b, *dy, *up;
static int32_t *pos;
static float *cs;

__attribute__((constructor)) static void fill(void) {
  x = randoms(MAX_ROWS * C), dy = randoms(MAX_ROWS * C), up = randoms(MAX_ROWS * C);
  w = randoms(C), b = randoms(C);
  pos = calloc(MAX_ROWS, sizeof *pos);
  cs = floats(MAX_ROWS * 38);
  for (int i = 0; i < MAX_ROWS; i++) pos[i] = (i * 7) % MAX_ROWS;
  for (int i = 0; i < MAX_ROWS * 19; i++) {
    cs[2 * i] = cosf((float)i), cs[2 * i + 1] = sinf((float)i);
  }
}

/* ---- references in double ---- */
typedef struct Norm {
  double y[C], dx[C], mean, rstd;
} Norm;

static Norm norm(const float *xr, const float *g, bool layer, double eps) {
  Norm n = {{0}, {0}, 0, 0};
  double var = 0, sg = 0, sgn = 0;
  for (int i = 0; i < C && layer; i++) n.mean += (double)xr[i] / C;
  for (int i = 0; i < C; i++) var += ((double)xr[i] - n.mean) * ((double)xr[i] - n.mean) / C;
  n.rstd = 1 / sqrt(var + eps);
  for (int i = 0; i < C; i++) {
    const double h = ((double)xr[i] - n.mean) * n.rstd, gi = (double)g[i] * (double)w[i];
    n.y[i] = h * (double)w[i] + (layer ? (double)b[i] : 0);
    sg += gi / C, sgn += gi * h / C;
  }
  for (int i = 0; i < C; i++) {
    const double h = ((double)xr[i] - n.mean) * n.rstd, gi = (double)g[i] * (double)w[i];
    n.dx[i] = n.rstd * (gi - (layer ? sg : 0) - h * sgn);
  }
  return n;
}

TEST(norms_agree_with_double) {
  const int rows = 150;
  for (int p = 0; p < NPATHS; p++)
    for (int layer = 0; layer < 2 && use_path(p); layer++) {
      Ctx cx = {.arena = &arena};
      float *y = floats(rows * C), *dx = floats(rows * C), mean[150], rstd[150];
      float dw[C] = {0}, db[C] = {0};
      double wdw[C] = {0}, wdb[C] = {0};
      if (layer) {
        layernorm_forward(&cx, rows, C, x, w, b, 0, 1e-5, y, mean, rstd);
        CHECK(!layernorm_backward(&cx, rows, C, x, w, 0, mean, rstd, dy, dx, false, dw, db));
      } else {
        rmsnorm_forward(&cx, rows, C, x, w, 0, 1e-5, y, rstd);
        CHECK(!rmsnorm_backward(&cx, rows, C, x, w, 0, rstd, dy, dx, false, dw));
      }
      for (int r = 0; r < rows; r++) {
        Norm n = norm(x + r * C, dy + r * C, layer, 1e-5);
        CHECK_NEAR(distance(y + r * C, n.y, C), 0, 3e-6);
        CHECK_NEAR(distance(dx + r * C, n.dx, C), 0, 5e-6);
        CHECK_NEAR(rstd[r], n.rstd, 1e-6);
        for (int i = 0; i < C; i++) {
          wdw[i] += (double)dy[r * C + i] * ((double)x[r * C + i] - n.mean) * n.rstd;
          wdb[i] += (double)dy[r * C + i];
        }
      }
      CHECK_NEAR(distance(dw, wdw, C), 0, 3e-5);
      if (layer) CHECK_NEAR(distance(db, wdb, C), 0, 3e-5);
      free(y), free(dx);
    }
  kern_select(NULL);
}

TEST(norms_keep_their_head_on_strange_rows) {
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    float in[C] = {0}, y[C], mean, rstd;
    rmsnorm_forward(&cx, 1, C, in, w, 0, 1e-6, y, &rstd);
    CHECK(y[0] == 0 && y[C - 1] == 0);
    CHECK_NEAR(rstd, 1000, 0.01);
    for (int i = 0; i < C; i++) in[i] = 1e15f;
    rmsnorm_forward(&cx, 1, C, in, w, 0, 1e-6, y, &rstd);
    CHECK_NEAR(y[C - 1], w[C - 1], 1e-5);
    for (int i = 0; i < C; i++) in[i] = 1e15f * x[i];
    layernorm_forward(&cx, 1, C, in, w, b, 0, 1e-5, y, &mean, &rstd);
    CHECK_NEAR(distance(y, norm(x, dy, true, 0).y, C), 0, 5e-6);
    for (int i = 0; i < C; i++) in[i] = 1e-42f;
    rmsnorm_forward(&cx, 1, C, in, w, 0, 1e-6, y, &rstd);
    CHECK_NEAR(y[0], 1e-39 * (double)w[0], 1e-41);
  }
  kern_select(NULL);
}

TEST(rope_rotates_and_its_inverse_undoes_it) {
  enum { H = 3, D = 38, ROWS = 9 };
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    float y[ROWS * H * D], z[ROWS * H * D];
    rope_apply(&cx, ROWS, H, D, D, false, x, H * D, pos, cs, false, y, H * D, false);
    for (int r = 0; r < ROWS; r++)
      for (int h = 0; h < H; h++)
        for (int i = 0; i < D / 2; i++) {
          const int at = r * H * D + h * D + i;
          const double c = (double)cs[(pos[r] * 19 + i) * 2];
          const double s = (double)cs[(pos[r] * 19 + i) * 2 + 1];
          CHECK_NEAR(y[at], (double)x[at] * c - (double)x[at + 19] * s, 1e-6);
          CHECK_NEAR(y[at + 19], (double)x[at + 19] * c + (double)x[at] * s, 1e-6);
        }
    memcpy(z, x, sizeof z);
    rope_apply(&cx, ROWS, H, D, D, false, y, H * D, pos, cs, true, z, H * D, true);
    for (int i = 0; i < ROWS * H * D; i++) CHECK_NEAR(z[i], 2 * x[i], 3e-6);
    rope_apply(&cx, ROWS, H, D, D, false, y, H * D, pos, cs, true, y, H * D, false); /* in place */
    for (int i = 0; i < ROWS * H * D; i++) CHECK_NEAR(y[i], x[i], 3e-6);
  }
  kern_select(NULL);
}

TEST(exp_is_within_its_stated_error) {
  enum { M = 200003 };
  float *in = floats(M), *out = floats(M);
  for (int i = 0; i < M; i++) in[i] = -87.33f + 176.0f * (float)i / M;
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    double worst = 0;
    kernels(NULL)->exp(M, in, out);
    for (int i = 0; i < M; i++) {
      const double want = exp((double)in[i]);
      if (want < (double)FLT_MAX) worst = fmax(worst, fabs((double)out[i] / want - 1));
    }
    CHECK_NEAR(worst, 0, 2e-7);
    const float edge[9] = {-INFINITY, INFINITY, NAN, 0, -0.0f, 89, -1000, 1e-40f, 88.722f};
    float e[9];
    kernels(NULL)->exp(9, edge, e);
    CHECK(e[0] == 0 && isinf(e[1]) && isnan(e[2]) && e[3] == 1 && e[4] == 1 && isinf(e[5]));
    CHECK(e[6] == 0 && e[7] == 1 && isfinite(e[8]));
  }
  free(in), free(out);
  kern_select(NULL);
}

static double gelu_d(double v) {
  return 0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
}
static double silu_d(double v) { return v / (1 + exp(-v)); }

TEST(activations_agree_with_double) {
  enum { M = 1003 };
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    float in[M], y[M], dg[M], du[M];
    for (int i = 0; i < M; i++) in[i] = 3 * x[i];
    in[0] = 0, in[1] = 1e30f, in[2] = -1e30f, in[3] = 1e-40f, in[4] = 40, in[5] = -40;
    gelu_forward(&cx, M, in, y);
    gelu_backward(&cx, M, in, dy, dg, false);
    for (int i = 0; i < M; i++) {
      const double v = (double)in[i], h = 1e-5;
      const double want = v > 100 ? v : v < -100 ? 0 : gelu_d(v);
      CHECK_NEAR(y[i], want, 1e-6 * (1 + fabs(want)));
      const double slope = v > 100 ? 1 : v < -100 ? 0 : (gelu_d(v + h) - gelu_d(v - h)) / (2 * h);
      CHECK_NEAR(dg[i], (double)dy[i] * slope, 3e-6 * (1 + fabs((double)dy[i])));
    }
    gated_forward(&cx, GATE_SILU, M, in, up, y);
    gated_backward(&cx, GATE_SILU, M, in, up, dy, dg, false, du, false);
    for (int i = 0; i < M; i++) {
      const double v = (double)in[i], u = (double)up[i], h = 1e-5, want = silu_d(v);
      CHECK_NEAR(y[i], want * u, 1e-6 * (1 + fabs(want * u)));
      CHECK_NEAR(du[i], want * (double)dy[i], 1e-6 * (1 + fabs(want * (double)dy[i])));
      const double slope = v > 100 ? 1 : v < -100 ? 0 : (silu_d(v + h) - silu_d(v - h)) / (2 * h);
      CHECK_NEAR(dg[i], (double)dy[i] * u * slope, 3e-6 * (1 + fabs((double)dy[i] * u)));
    }
    gated_backward(&cx, GATE_SILU, M, in, up, dy, dg, true, NULL, false);
    CHECK_NEAR(dg[10],
               2 * (double)dy[10] * (double)up[10] *
                   (silu_d((double)in[10] + 1e-5) - silu_d((double)in[10] - 1e-5)) / 2e-5,
               3e-5);
  }
  kern_select(NULL);
}

TEST(geglu_agrees_with_double) {
  enum { M = 1003 };
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    float in[M], y[M], dg[M], du[M];
    for (int i = 0; i < M; i++) in[i] = 3 * x[i];
    gated_forward(&cx, GATE_GELU, M, in, up, y);
    gated_backward(&cx, GATE_GELU, M, in, up, dy, dg, false, du, false);
    for (int i = 0; i < M; i++) {
      const double v = (double)in[i], u = (double)up[i], h = 1e-5, d = (double)dy[i];
      const double want = gelu_d(v), slope = (gelu_d(v + h) - gelu_d(v - h)) / (2 * h);
      CHECK_NEAR(y[i], want * u, 1e-6 * (1 + fabs(want * u)));
      CHECK_NEAR(du[i], want * d, 1e-6 * (1 + fabs(want * d)));
      CHECK_NEAR(dg[i], d * u * slope, 3e-6 * (1 + fabs(d * u)));
    }
  }
  kern_select(NULL);
}

/* Relative to the value: small scores must not drown in what tanh loses near 1. */
TEST(softcap_agrees_with_double) {
  enum { M = 1003 };
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    float in[M], y[M], dx[M];
    for (int i = 0; i < M; i++) in[i] = 100 * x[i] * x[i] * x[i];
    in[0] = 0, in[1] = 1e30f, in[2] = -1e30f, in[3] = 1e-30f, in[4] = 18.7f, in[5] = -18.8f;
    softcap_forward(&cx, M, 30, in, y);
    softcap_backward(&cx, M, 30, y, dy, dx, false);
    for (int i = 0; i < M; i++) {
      const double t = tanh((double)in[i] / 30);
      CHECK_NEAR(y[i], 30 * t, 4e-7 * fabs(30 * t));
      CHECK_NEAR(dx[i], (double)dy[i] * (1 - t * t), 1e-6 * (1 + fabs((double)dy[i])));
    }
  }
  kern_select(NULL);
}

/* Each in turn: rows [at, at + rows) of what the file's data give. */
static void run_rows(const Ctx *cx, int kind, int at, int rows, float *y) {
  float t[MAX_ROWS], u[MAX_ROWS];
  const float *xr = x + at * C;
  const size_t n = (size_t)(rows * C);
  if (kind == 0) rmsnorm_forward(cx, rows, C, xr, w, 0, 1e-5, y, t);
  if (kind == 1) layernorm_forward(cx, rows, C, xr, w, b, 0, 1e-5, y, t, u);
  if (kind == 2) rope_apply(cx, rows, 2, 38, 38, false, xr, C, pos + at, cs, false, y, C, false);
  if (kind == 3) gated_forward(cx, GATE_SILU, n, xr, up + at * C, y);
  if (kind == 4) gelu_forward(cx, n, xr, y);
  if (kind == 5) kernels(NULL)->exp(n, xr, y);
  if (kind == 6) gelu_backward(cx, n, xr, dy + at * C, y, false);
  if (kind == 7) rmsnorm_forward(cx, rows, C, xr, w, 1, 1e-5, y, t);
  if (kind == 8) rope_apply(cx, rows, 2, 38, 12, false, xr, C, pos + at, cs, false, y, C, false);
  if (kind == 9) gated_forward(cx, GATE_GELU, n, xr, up + at * C, y);
  if (kind == 10) softcap_forward(cx, n, 1.5f, xr, y);
  if (kind == 11) vec_add(cx, n, xr, dy + at * C, y);
}
enum { KINDS = 12 };

TEST(rows_do_not_depend_on_where_they_stand) {
  float *all = floats(MAX_ROWS * C), *some = floats(MAX_ROWS * C);
  Ctx cx = {.arena = &arena};
  for (int p = 0; p < NPATHS; p++)
    for (int kind = 0; kind < KINDS && use_path(p); kind++) {
      run_rows(&cx, kind, 0, MAX_ROWS, all);
      for (int i = 0; i < NCOUNTS; i++) {
        const int m = row_counts[i], at = (MAX_ROWS - m) / 3;
        if (kind == 2 || kind == 8) memcpy(some, all + at * C, (size_t)(m * C) * sizeof(float));
        run_rows(&cx, kind, at, m, some);
        CHECK(same_bits(some, all + at * C, (size_t)(m * C)));
      }
    }
  free(all), free(some);
  kern_select(NULL);
}

static void every_kind(const Ctx *cx, float *out, void *arg) {
  run_rows(cx, *(int *)arg, 0, MAX_ROWS, out);
}
static void backwards(const Ctx *cx, float *out, void *arg) {
  (void)arg;
  float mean[MAX_ROWS], rstd[MAX_ROWS], *dw = out + 2 * MAX_ROWS * C;
  layernorm_forward(cx, MAX_ROWS, C, x, w, b, 0, 1e-5, out, mean, rstd);
  CHECK(!layernorm_backward(cx, MAX_ROWS, C, x, w, 0, mean, rstd, dy, out, false, dw, dw + C));
  CHECK(
      !rmsnorm_backward(cx, MAX_ROWS, C, x, w, 0, rstd, dy, out + MAX_ROWS * C, false, dw + 2 * C));
}

TEST(rows_do_not_depend_on_the_number_of_threads) {
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    for (int kind = 0; kind < KINDS; kind++) CHECK(threads_agree(every_kind, MAX_ROWS * C, &kind));
    CHECK(threads_agree(backwards, 2 * MAX_ROWS * C + 3 * C, NULL));
  }
  kern_select(NULL);
}

static void optimize(const Ctx *cx, float *out, void *arg) {
  const AdamW *o = arg;
  float *p = out, *m = out + N, *v = out + 2 * N;
  memcpy(p, x, N * sizeof(float));
  for (int i = 0; i < 2 * N; i++) m[i] = 0.25f;
  adamw_step(cx, N, p, dy, m, v, o);
  vec_acc(cx, N, up, p);
  vec_lerp(cx, N, dy, 0.3f, p);
  out[3 * N] = (float)vec_sumsq(cx, N, p);
}

TEST(adamw_agrees_with_double_and_ignores_threads) {
  const AdamW o = {1e-2, 0.9, 0.999, 1e-8, 0.1, 1 - 0.9 * 0.9, 1 - 0.999 * 0.999, 0.5};
  float *out = floats(3 * N + 1);
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    double sum = 0;
    optimize(&cx, out, (void *)&o);
    for (int i = 0; i < N; i++) {
      const double g = 0.5 * (double)dy[i], m = 0.9 * 0.25 + 0.1 * g;
      const double v = 0.999 * 0.25 + 0.001 * g * g;
      double want = (double)x[i] * (1 - 1e-3);
      want -= 1e-2 * (m / o.bias1) / (sqrt(v / o.bias2) + 1e-8);
      want = 0.3 * (double)dy[i] + 0.7 * (want + (double)up[i]);
      CHECK_NEAR(out[N + i], m, 1e-7 + 1e-6 * fabs(m));
      CHECK_NEAR(out[2 * N + i], v, 1e-6 * fabs(v));
      CHECK_NEAR(out[i], want, 1e-6);
      sum += (double)out[i] * (double)out[i];
    }
    CHECK_NEAR(out[3 * N], sum, 1e-6 * sum);
    CHECK(threads_agree(optimize, 3 * N + 1, (void *)&o));
  }
  free(out);
  kern_select(NULL);
}

TEST(warm_rows_never_allocate) {
  Ctx cx = {.arena = &arena};
  float *out = floats(2 * MAX_ROWS * C + 3 * C);
  uint64_t before = 0;
  for (int i = 0; i < 3; i++) {
    if (i == 1) before = mem_allocations();
    for (int kind = 0; kind < KINDS; kind++) run_rows(&cx, kind, 0, MAX_ROWS, out);
    backwards(&cx, out, NULL);
  }
  CHECK(mem_allocations() == before);
  free(out);
}
