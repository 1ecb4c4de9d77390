/* Products in bf16 on every path: against sums in double of operands rounded here, invariance of
 * rows, threads, and compact weights against packed ones. */
#include "kern_test.h"

#include "base/half.h"
#include "kern/gemm_bf16.h"
#include "kern/gemm_quant.h"

typedef struct Case {
  int m, n, k;
  bool in_out;
  float *x, *w, *bias, *dy;
  uint16_t *packed;
} Case;

static uint16_t *pairs(int n, int k) {
  return calloc(gemm_bf16_packed_size(n, k), sizeof(uint16_t));
}

static Case make_case(int m, int n, int k, bool in_out) {
  Case c = {.m = m, .n = n, .k = k, .in_out = in_out};
  c.x = randoms((size_t)(m * k)), c.w = randoms((size_t)(n * k)), c.bias = randoms((size_t)n);
  c.dy = randoms((size_t)(m * n)), c.packed = pairs(n, k);
  return c;
}
static void free_case(Case *c) {
  free(c->x), free(c->w), free(c->bias), free(c->dy), free(c->packed);
}
static double rounded(float x) { return (double)bf16_to_f32(f32_to_bf16(x)); }
static float weight(const Case *c, int j, int p) {
  return c->in_out ? c->w[p * c->n + j] : c->w[j * c->k + p];
}

static void forward(const Ctx *cx, float *y, void *arg) {
  Case *c = arg;
  gemm_bf16_pack(cx, c->n, c->k, c->w, c->in_out, c->packed);
  CHECK(!gemm_bf16_forward(cx, c->m, c->n, c->k, c->x, c->k, c->packed, c->bias, y, c->n));
}
static void dx(const Ctx *cx, float *y, void *arg) {
  Case *c = arg;
  CHECK(!gemm_bf16_dx(cx, c->m, c->n, c->k, c->dy, c->n, c->packed, y, c->k, false));
}
static void dw(const Ctx *cx, float *y, void *arg) {
  Case *c = arg;
  CHECK(!gemm_bf16_dw(cx, c->m, c->n, c->k, c->dy, c->n, c->x, c->k, c->in_out, y, false));
}

/* ---- values -------------------------------------------------------------------- */

/* Products of bf16 are exact in float: only the sums differ from double. */
static void check_values(Case *c) {
  Ctx cx = {.arena = &arena};
  const int m = c->m, n = c->n, k = c->k;
  double *want = calloc((size_t)(m * n + m * k + n * k), sizeof *want);
  double *wdx = want + m * n, *wdw = wdx + m * k;
  float *y = floats((size_t)(m * n)), *gx = floats((size_t)(m * k)), *gw = floats((size_t)(n * k));
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      const double d = rounded(c->dy[i * n + j]);
      double s = (double)c->bias[j];
      for (int p = 0; p < k; p++) {
        const double w = rounded(weight(c, j, p)), x = rounded(c->x[i * k + p]);
        s += x * w;
        wdx[i * k + p] += d * w;
        wdw[c->in_out ? p * n + j : j * k + p] += d * x;
      }
      want[i * n + j] = s;
    }
  forward(&cx, y, c), dx(&cx, gx, c), dw(&cx, gw, c);
  const double tol = 8e-7;
  CHECK_NEAR(distance(y, want, (size_t)(m * n)), 0, tol * (sqrt(k) + 1) * 6);
  CHECK(!gemm_bf16_dx(&cx, m, n, k, c->dy, n, c->packed, gx, k, true));
  CHECK(!gemm_bf16_dw(&cx, m, n, k, c->dy, n, c->x, k, c->in_out, gw, true));
  for (int i = 0; i < m * k + n * k; i++) wdx[i] *= 2;
  CHECK_NEAR(distance(gx, wdx, (size_t)(m * k)), 0, tol * (sqrt(n) + 1) * 12);
  CHECK_NEAR(distance(gw, wdw, (size_t)(n * k)), 0, tol * (sqrt(m) + 1) * 12);
  free(want), free(y), free(gx), free(gw);
}

TEST(products_agree_with_sums_in_double_of_rounded_operands) {
  static const int sizes[][3] = {{1, 1, 1},     {1, 48, 5},     {3, 17, 33},  {8, 64, 64},
                                 {9, 65, 7},    {13, 100, 600}, {70, 33, 47}, {300, 70, 20},
                                 {5, 16, 513},  {2, 112, 1030}, {600, 3, 2},  {17, 200, 1},
                                 {24, 300, 96}, {401, 49, 131}, {1, 5, 16},   {16, 97, 200}};
  for (int p = 0; p < NPATHS; p++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
      for (int in_out = 0; in_out < 2 && use_path(p); in_out++) {
        Case c = make_case(sizes[i][0], sizes[i][1], sizes[i][2], in_out);
        check_values(&c);
        free_case(&c);
      }
  kern_select(NULL);
}

TEST(weights_are_packed_in_pairs_of_inner_steps) {
  enum { N = 35, K = 131 };
  Ctx cx = {.arena = &arena};
  for (int p = 0; p < NPATHS; p++)
    for (int in_out = 0; in_out < 2 && use_path(p); in_out++) {
      Case c = make_case(1, N, K, in_out);
      QuantWeight *m = NULL;
      float *w = floats(N * K);
      uint16_t *want = pairs(N, K);
      memset(c.packed, 0xff, gemm_bf16_packed_size(N, K) * sizeof(uint16_t));
      c.w[3] = NAN, c.w[4] = INFINITY, c.w[5] = -0.0f, c.w[6] = 3.4e38f, c.w[7] = 1e-40f;
      c.w[8] = 1.00390625f, c.w[9] = 1.01171875f; /* ties */
      for (int i = 0; i < N; i++)
        for (int q = 0; q < K; q++) {
          w[i * K + q] = weight(&c, i, q);
          want[((i / 16 * ((K + 1) / 2) + q / 2) * 16 + i % 16) * 2 + q % 2] =
              f32_to_bf16(w[i * K + q]);
        }
      gemm_bf16_pack(&cx, N, K, c.w, in_out, c.packed);
      CHECK(memcmp(c.packed, want, gemm_bf16_packed_size(N, K) * sizeof(uint16_t)) == 0);
      CHECK(!quant_new(&m, QUANT_BF16, N, K) && !quant_put(&cx, m, 0, N, w));
      CHECK(memcmp(m->data, want, gemm_bf16_packed_size(N, K) * sizeof(uint16_t)) == 0);
      free(w), free(want), quant_free(m), free_case(&c);
    }
  kern_select(NULL);
}

TEST(extreme_numbers_come_through) {
  static const float x[] = {1e-40f, 2e-40f, 0,     3e38f, 3e38f,  0, INFINITY, 1,        0, NAN, 1,
                            0,      -0.0f,  -0.0f, 0,     1e-30f, 0, 0,        INFINITY, 0, 0};
  enum { M = 7, N = 18, K = 3 };
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    Case c = make_case(M, N, K, false);
    float y[M * N];
    memset(c.bias, 0, N * sizeof(float));
    memcpy(c.x, x, sizeof x);
    for (int i = 0; i < N * K; i++) c.w[i] = i < N * K - K ? 1 : -1; /* the last output: -1 */
    forward(&cx, y, &c);
    for (int j = 0; j < N; j++) {
      const float sign = j < N - 1 ? 1 : -1;
      CHECK(y[j] == 0 || fabsf(y[j] * sign - 3e-40f) < 1e-40f); /* some CPUs take them as zeros */
      CHECK(isinf(y[N + j]) && y[N + j] * sign > 0);
      CHECK(isinf(y[2 * N + j]) && y[2 * N + j] * sign > 0);
      CHECK(isnan(y[3 * N + j]));
      CHECK(y[4 * N + j] == 0);
      CHECK_NEAR((double)(y[5 * N + j] * sign), 1e-30, 1e-32);
      CHECK(isinf(y[6 * N + j])); /* infinity beside zeros only: 0 * 1 */
    }
    for (int i = 0; i < N * K; i++) c.w[i] = 0;
    forward(&cx, y, &c);
    for (int j = 0; j < N; j++) CHECK(isnan(y[2 * N + j]) && y[N + j] == 0);
    free_case(&c);
  }
  kern_select(NULL);
}

/* ---- what never changes a bit ---------------------------------------------------- */

TEST(product_rows_do_not_depend_on_the_number_of_rows) {
  static const int sizes[][2] = {{130, 701}, {47, 96}, {400, 1300}};
  for (int p = 0; p < NPATHS; p++)
    for (int s = 0; s < 3 && use_path(p); s++) {
      Case c = make_case(MAX_ROWS, sizes[s][0], sizes[s][1], s & 1);
      check_rows(forward, dx, &c, c.n, c.k, &c.m, &c.x, &c.dy);
      free_case(&c);
    }
  kern_select(NULL);
}

TEST(products_do_not_depend_on_the_number_of_threads) {
  for (int p = 0; p < NPATHS; p++)
    for (int in_out = 0; in_out < 2 && use_path(p); in_out++) {
      Case c = make_case(300, 150, 531, in_out);
      CHECK(threads_agree(dw, 150 * 531, &c));
      check_threads(forward, dx, &c, c.n, c.k, &c.m);
      free_case(&c);
    }
  kern_select(NULL);
}

TEST(compact_weights_have_the_bits_of_packed_ones) {
  static const int sizes[][3] = {{1, 1, 1},     {3, 17, 33},    {8, 64, 64},   {13, 100, 600},
                                 {300, 70, 20}, {2, 112, 1030}, {17, 200, 1},  {70, 130, 192},
                                 {9, 33, 448},  {1, 97, 640},   {4, 96, 2048}, {6, 40, 77}};
  for (int p = 0; p < NPATHS; p++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int t = 0; t < QUANT_TYPES && use_path(p); t++) {
        const int m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
        Ctx cx = {.arena = &arena, .compute = COMPUTE_BF16};
        Case c = make_case(m, n, k, false);
        QuantWeight *quant = NULL;
        float *y = floats((size_t)(m * n)), *want = floats((size_t)(m * n));
        float *g = randoms((size_t)(m * k)), *want_g = copy_of(g, (size_t)(m * k));
        CHECK(!quant_new(&quant, (QuantType)t, n, k) && !quant_put(&cx, quant, 0, n, c.w));
        CHECK(!quant_done(&cx, quant));
        quant_get(&cx, quant, 0, n, c.w);
        forward(&cx, want, &c);
        CHECK(!quant_forward(&cx, m, quant, c.x, k, c.bias, y, n));
        CHECK(same_bits(y, want, (size_t)(m * n)));
        for (int add = 1; add >= 0; add--) {
          CHECK(!gemm_bf16_dx(&cx, m, n, k, c.dy, n, c.packed, want_g, k, add));
          CHECK(!quant_dx(&cx, m, quant, c.dy, n, g, k, add));
          CHECK(same_bits(g, want_g, (size_t)(m * k)));
        }
        free(y), free(want), free(g), free(want_g), quant_free(quant), free_case(&c);
      }
  kern_select(NULL);
}

/* The last outputs have values that are rounded to zero or are huge, zero or subnormal. */
TEST(any_number_of_rows_has_the_bits_of_many) {
  enum { MOST = 40, N = 150, K = 1089, STRANGE = 100 };
  static const float scale[] = {1, 1e-38f, 1e33f, 0, 1e-42f, -1};
  for (int p = 0; p < NPATHS; p++)
    for (int t = 0; t < QUANT_TYPES && use_path(p); t++) {
      Ctx cx = {.arena = &arena, .compute = COMPUTE_BF16};
      const int k = t == QUANT_NF4 ? K - 1 : K; /* whole blocks: the way of few rows */
      Case c = make_case(MOST, N, k, false);
      QuantWeight *quant = NULL;
      float *y = floats(MOST * N), *want = floats(MOST * N);
      for (int i = STRANGE * k; i < N * k; i++) c.w[i] *= scale[i / k % 6];
      CHECK(!quant_new(&quant, (QuantType)t, N, k) && !quant_put(&cx, quant, 0, N, c.w));
      CHECK(!quant_done(&cx, quant));
      CHECK(!quant_forward(&cx, MOST, quant, c.x, k, c.bias, want, N));
      for (int m = 1; m < MOST; m += m < 17 ? 1 : 7) {
        memset(y, 0, MOST * N * sizeof *y);
        CHECK(!quant_forward(&cx, m, quant, c.x, k, c.bias, y, N));
        CHECK(same_bits(y, want, (size_t)(m * N)));
        for (int i = m * N; i < MOST * N; i++) CHECK(y[i] == 0);
      }
      free(y), free(want), quant_free(quant), free_case(&c);
    }
  kern_select(NULL);
}

TEST(strides_leave_other_columns_alone) {
  enum { M = 11, N = 20, K = 31 };
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    Case c = make_case(M, N, K, false);
    float *wide = randoms(M * 50), *y = floats(M * N), *g = floats(M * K), *out = floats(M * 37);
    float *gw = floats(N * K), *gw1 = floats(N * K);
    for (int i = 0; i < M; i++) memcpy(wide + i * 50 + 7, c.x + i * K, K * sizeof(float));
    for (int i = 0; i < M * 37; i++) out[i] = 9;
    forward(&cx, y, &c), dx(&cx, g, &c), dw(&cx, gw, &c);
    CHECK(!gemm_bf16_forward(&cx, M, N, K, wide + 7, 50, c.packed, c.bias, out + 5, 37));
    for (int i = 0; i < M; i++) {
      CHECK(same_bits(out + i * 37 + 5, y + i * N, N));
      CHECK(out[i * 37 + 4] == 9 && out[i * 37 + 25] == 9);
    }
    CHECK(!gemm_bf16_dw(&cx, M, N, K, c.dy, N, wide + 7, 50, false, gw1, false));
    CHECK(same_bits(gw, gw1, N * K));
    for (int i = 0; i < M; i++) memcpy(wide + i * 50 + 7, c.dy + i * N, N * sizeof(float));
    for (int i = 0; i < M * 37; i++) out[i] = 9;
    CHECK(!gemm_bf16_dx(&cx, M, N, K, wide + 7, 50, c.packed, out + 5, 37, false));
    for (int i = 0; i < M; i++) {
      CHECK(same_bits(out + i * 37 + 5, g + i * K, K));
      CHECK(out[i * 37 + 4] == 9 && out[i * 37 + 36] == 9);
    }
    free(wide), free(y), free(g), free(out), free(gw), free(gw1), free_case(&c);
  }
  kern_select(NULL);
}

/* ---- error, memory ---------------------------------------------------------------- */

/* Rounding both operands costs little more than 2^-8, relative to sum |x| |w|. */
TEST(the_error_against_float_is_that_of_rounding) {
  enum { M = 16, N = 64, K = 1024 };
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    Case c = make_case(M, N, K, false);
    float *y = floats(M * N);
    double worst = 0;
    memset(c.bias, 0, N * sizeof(float));
    forward(&cx, y, &c);
    for (int i = 0; i < M; i++)
      for (int j = 0; j < N; j++) {
        double s = 0, size = 0;
        for (int q = 0; q < K; q++) {
          const double v = (double)c.x[i * K + q] * (double)c.w[j * K + q];
          s += v, size += fabs(v);
        }
        worst = fmax(worst, fabs((double)y[i * N + j] - s) / size);
      }
    CHECK(worst > 0 && worst < 4.0 / 1024); /* 2^-8; errors of random operands all but cancel */
    CHECK(worst < 6e-4);
    free(y), free_case(&c);
  }
  kern_select(NULL);
}

TEST(a_warm_product_never_allocates) {
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    Case c = make_case(40, 50, 60, false);
    float *y = floats(50 * 60);
    uint64_t before = 0;
    for (int i = 0; i < 3; i++) {
      if (i == 1) before = mem_allocations();
      forward(&cx, y, &c), dx(&cx, y, &c), dw(&cx, y, &c);
    }
    CHECK(mem_allocations() == before);
    free(y), free_case(&c);
  }
  kern_select(NULL);
}

TEST(a_product_without_memory_says_so) {
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Arena none = {0};
    Ctx cx = {.arena = &none};
    Case c = make_case(40, 50, 60, false);
    float *y = floats(50 * 60);
    gemm_bf16_pack(&cx, c.n, c.k, c.w, false, c.packed);
    for (int what = 0; what < 3; what++) {
      mem_fail_after(1);
      const Status s =
          what == 0   ? gemm_bf16_forward(&cx, 40, 50, 60, c.x, 60, c.packed, NULL, y, 50)
          : what == 1 ? gemm_bf16_dx(&cx, 40, 50, 60, c.dy, 50, c.packed, y, 60, false)
                      : gemm_bf16_dw(&cx, 40, 50, 60, c.dy, 50, c.x, 60, false, y, false);
      mem_fail_after(0);
      CHECK(s == GRPO_ENOMEM);
      arena_free(&none);
      none = (Arena){0};
    }
    free(y), free_case(&c);
  }
  kern_select(NULL);
}

TEST(no_rows_give_a_zero_gradient) {
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    Case c = make_case(4, 5, 6, false);
    float *gw = randoms(30);
    CHECK(!gemm_bf16_dw(&cx, 0, 5, 6, c.dy, 5, c.x, 6, false, gw, false));
    for (int i = 0; i < 30; i++) CHECK(gw[i] == 0);
    CHECK(!gemm_bf16_forward(&cx, 0, 5, 6, c.x, 6, c.packed, NULL, gw, 5));
    CHECK(!gemm_bf16_dx(&cx, 0, 5, 6, c.dy, 5, c.packed, gw, 6, false));
    free(gw), free_case(&c);
  }
  kern_select(NULL);
}
