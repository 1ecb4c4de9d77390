/* Products on every path: against sums in double, invariance of rows, threads. */
#include "kern/blas.h"
#include "kern/gemm.h"
#include "kern/gemm_dw.h"
#include "kern_test.h"

typedef struct Case {
  int m, n, k;
  bool in_out;
  float *x, *w, *bias, *dy, *packed;
} Case;

static Case make_case(int m, int n, int k, bool in_out) {
  Case c = {m,
            n,
            k,
            in_out,
            randoms((size_t)(m * k)),
            randoms((size_t)(n * k)),
            randoms((size_t)n),
            randoms((size_t)(m * n)),
            floats(gemm_packed_size(n, k))};
  return c;
}
static void free_case(Case *c) {
  free(c->x), free(c->w), free(c->bias), free(c->dy), free(c->packed);
}
static double weight(const Case *c, int j, int p) {
  return (double)(c->in_out ? c->w[p * c->n + j] : c->w[j * c->k + p]);
}

static void forward(const Ctx *cx, float *y, void *arg) {
  Case *c = arg;
  gemm_pack(cx, c->n, c->k, c->w, c->in_out, c->packed);
  gemm_forward(cx, c->m, c->n, c->k, c->x, c->k, c->packed, c->bias, y, c->n);
}
static void dx(const Ctx *cx, float *y, void *arg) {
  Case *c = arg;
  CHECK(!gemm_dx(cx, c->m, c->n, c->k, c->dy, c->n, c->w, c->in_out, y, c->k, false));
}
static void dw(const Ctx *cx, float *y, void *arg) {
  Case *c = arg;
  CHECK(!gemm_dw(cx, c->m, c->n, c->k, c->dy, c->n, c->x, c->k, c->in_out, y, false));
}
static void db(const Ctx *cx, float *y, void *arg) {
  Case *c = arg;
  CHECK(!gemm_db(cx, c->m, c->n, c->dy, c->n, y, false));
}

static void check_values(Case *c) {
  Ctx cx = {.arena = &arena};
  const int m = c->m, n = c->n, k = c->k;
  double *want = calloc((size_t)(m * n + m * k + n * k + n), sizeof *want);
  double *wdx = want + m * n, *wdw = wdx + m * k, *wdb = wdw + n * k;
  float *y = floats((size_t)(m * n)), *gx = floats((size_t)(m * k)), *gw = floats((size_t)(n * k));
  float *gb = floats((size_t)n);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      const double d = (double)c->dy[i * n + j];
      double s = (double)c->bias[j];
      for (int p = 0; p < k; p++) {
        s += (double)c->x[i * k + p] * weight(c, j, p);
        wdx[i * k + p] += d * weight(c, j, p);
        wdw[c->in_out ? p * n + j : j * k + p] += d * (double)c->x[i * k + p];
      }
      want[i * n + j] = s;
      wdb[j] += d;
    }
  const double tol = 4e-6;
  forward(&cx, y, c), dx(&cx, gx, c), dw(&cx, gw, c), db(&cx, gb, c);
  CHECK_NEAR(distance(y, want, (size_t)(m * n)), 0, tol * (sqrt(k) + 1) * 3);
  CHECK_NEAR(distance(gx, wdx, (size_t)(m * k)), 0, tol * (sqrt(n) + 1) * 3);
  CHECK_NEAR(distance(gw, wdw, (size_t)(n * k)), 0, tol * (sqrt(m) + 1) * 3);
  CHECK_NEAR(distance(gb, wdb, (size_t)n), 0, tol * (sqrt(m) + 1) * 3);
  /* add: the same again on top */
  forward(&cx, y, c);
  gemm_forward_add(&cx, m, n, k, c->x, k, c->packed, y, n);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) want[i * n + j] += want[i * n + j] - (double)c->bias[j];
  CHECK_NEAR(distance(y, want, (size_t)(m * n)), 0, tol * (sqrt(k) + 1) * 6);
  CHECK(!gemm_dx(&cx, m, n, k, c->dy, n, c->w, c->in_out, gx, k, true));
  CHECK(!gemm_dw(&cx, m, n, k, c->dy, n, c->x, k, c->in_out, gw, true));
  CHECK(!gemm_db(&cx, m, n, c->dy, n, gb, true));
  for (int i = 0; i < m * k + n * k + n; i++) wdx[i] *= 2;
  CHECK_NEAR(distance(gx, wdx, (size_t)(m * k)), 0, tol * (sqrt(n) + 1) * 6);
  CHECK_NEAR(distance(gw, wdw, (size_t)(n * k)), 0, tol * (sqrt(m) + 1) * 6);
  CHECK_NEAR(distance(gb, wdb, (size_t)n), 0, tol * (sqrt(m) + 1) * 6);
  free(want), free(y), free(gx), free(gw), free(gb);
}

TEST(products_agree_with_sums_in_double) {
  static const int sizes[][3] = {{1, 1, 1},     {1, 48, 5},      {3, 17, 33},   {8, 64, 64},
                                 {9, 65, 7},    {13, 100, 600},  {70, 33, 47},  {300, 70, 20},
                                 {5, 16, 513},  {2, 112, 1030},  {600, 3, 2},   {17, 200, 1},
                                 {290, 64, 96}, {7, 1100, 1024}, {31, 1550, 70}};
  for (int p = 0; p < NPATHS; p++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
      for (int in_out = 0; in_out < 2 && use_path(p); in_out++) {
        Case c = make_case(sizes[i][0], sizes[i][1], sizes[i][2], in_out);
        check_values(&c);
        free_case(&c);
      }
  kern_select(NULL);
}

TEST(product_rows_do_not_depend_on_the_number_of_rows) {
  for (int p = 0; p < NPATHS; p++)
    for (int in_out = 0; in_out < 2 && use_path(p); in_out++) {
      Case c = make_case(MAX_ROWS, 130, 700, in_out);
      check_rows(forward, dx, &c, c.n, c.k, &c.m, &c.x, &c.dy);
      free_case(&c);
    }
  kern_select(NULL);
}

TEST(products_do_not_depend_on_the_number_of_threads) {
  for (int p = 0; p < NPATHS; p++)
    for (int in_out = 0; in_out < 2 && use_path(p); in_out++) {
      Case c = make_case(300, 150, 530, in_out);
      CHECK(threads_agree(dw, 150 * 530, &c));
      CHECK(threads_agree(db, 150, &c));
      check_threads(forward, dx, &c, c.n, c.k, &c.m);
      free_case(&c);
    }
  kern_select(NULL);
}

/* The class `blas` adds blocks of rows to dW, the others row after row. */
static bool adds_rows(void) { return strcmp(kern_name(NULL), "blas") != 0; }

/* dW has one order of sums, whether operands are read in place or packed, in one call or two. */
TEST(weight_gradients_do_not_depend_on_strides_or_on_how_rows_are_cut) {
  enum { M = 350, N = 75, K = 112, WIDE = 1 << 14 };
  float *wide = calloc((size_t)M * WIDE, sizeof *wide);
  float *want = floats(N * K), *got = floats(N * K);
  for (int p = 0; p < NPATHS; p++)
    for (int in_out = 0; in_out < 2 && use_path(p); in_out++) {
      Ctx cx = {.arena = &arena};
      Case c = make_case(M, N, K, in_out);
      for (int i = 0; i < M; i++) memcpy(wide + (size_t)i * WIDE, c.x + i * K, K * sizeof(float));
      dw(&cx, want, &c);
      CHECK(!gemm_dw(&cx, M, N, K, c.dy, N, wide, WIDE, in_out, got, false));
      CHECK(same_bits(got, want, N * K));
      CHECK(!gemm_dw(&cx, 123, N, K, c.dy, N, c.x, K, in_out, got, false));
      CHECK(!gemm_dw(&cx, M - 123, N, K, c.dy + 123 * N, N, c.x + 123 * K, K, in_out, got, true));
      if (adds_rows()) CHECK(same_bits(got, want, N * K));
      free_case(&c);
    }
  free(wide), free(want), free(got);
  kern_select(NULL);
}

/* The first `few` outputs of a weight of n: alone they take another way, to the same bits. */
static void check_few_outputs(const Ctx *cx, Case *c, const float *y, const float *gw, int few) {
  const int m = c->m, n = c->n, k = c->k;
  float *packed = floats(gemm_packed_size(few, k)), *y1 = randoms((size_t)(m * few));
  float *gt = randoms((size_t)(k * few)), *gt1 = copy_of(gt, (size_t)(k * few));
  float *x1 = floats((size_t)(m * few));
  gemm_pack(cx, few, k, c->w, false, packed);
  gemm_forward(cx, m, few, k, c->x, k, packed, NULL, y1, few);
  for (int i = 0; i < m; i++) CHECK(same_bits(y1 + i * few, y + i * n, (size_t)few));
  /* dw [few, k], and the same transposed, of which all is added to: [k, few] */
  CHECK(!gemm_dw(cx, m, few, k, c->dy, n, c->x, k, false, packed, false));
  CHECK(same_bits(packed, gw, (size_t)(few * k)));
  for (int i = 0; i < m; i++) memcpy(x1 + i * few, c->dy + i * n, sizeof *x1 * (size_t)few);
  CHECK(!gemm_dw(cx, m, k, few, c->x, k, x1, few, false, gt, false));
  for (int j = 0; j < few; j++)
    for (int i = 0; i < k; i++) CHECK(same_bits(&gt[i * few + j], &gw[j * k + i], 1));
  CHECK(!gemm_dw(cx, m / 2, k, few, c->x, k, x1, few, false, gt1, false));
  CHECK(!gemm_dw(cx, m - m / 2, k, few, c->x + m / 2 * k, k, x1 + m / 2 * few, few, false, gt1,
                 true));
  if (adds_rows()) CHECK(same_bits(gt1, gt, (size_t)(k * few)));
  free(packed), free(y1), free(gt), free(gt1), free(x1);
}

TEST(few_outputs_have_the_bits_of_many) {
  static const int rows[] = {16, 31, 32, 49, 300};
  Ctx cx = {.arena = &arena};
  CHECK(!pool_new(&cx.pool, 2));
  for (int p = 0; p < NPATHS && use_path(p); p++)
    for (int i = 0; i < 5; i++) {
      Case c = make_case(rows[i], 50, (int[]){700, 203, 64}[i % 3], false);
      float *y = floats((size_t)(c.m * c.n)), *gw = floats((size_t)(c.n * c.k));
      gemm_pack(&cx, c.n, c.k, c.w, false, c.packed);
      gemm_forward(&cx, c.m, c.n, c.k, c.x, c.k, c.packed, NULL, y, c.n);
      dw(&cx, gw, &c);
      static const int few[] = {1, 3, 8, 9, 13, 16};
      for (int f = 0; f < 6; f++) check_few_outputs(&cx, &c, y, gw, few[f]);
      free(y), free(gw), free_case(&c);
    }
  kern_select(NULL);
  pool_free(cx.pool);
}

TEST(strides_leave_other_columns_alone) {
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    Case c = make_case(10, 20, 30, false);
    float *wide = randoms(10 * 50), *y = floats(10 * 20), *out = floats(10 * 37);
    for (int i = 0; i < 10; i++) memcpy(wide + i * 50 + 7, c.x + i * 30, 30 * sizeof(float));
    for (int i = 0; i < 370; i++) out[i] = 9;
    forward(&cx, y, &c);
    gemm_forward(&cx, 10, 20, 30, wide + 7, 50, c.packed, c.bias, out + 5, 37);
    for (int i = 0; i < 10; i++) {
      CHECK(same_bits(out + i * 37 + 5, y + i * 20, 20));
      CHECK(out[i * 37 + 4] == 9 && out[i * 37 + 25] == 9);
    }
    free(wide), free(y), free(out), free_case(&c);
  }
  kern_select(NULL);
}

TEST(plain_products_take_every_orientation) {
  const int m = 19, n = 37, k = 150;
  for (int p = 0; p < NPATHS && use_path(p); p++)
    for (int t = 0; t < 4; t++) {
      const bool ta = t & 1, tb = t & 2;
      Ctx cx = {.arena = &arena};
      float *a = randoms((size_t)(m * k)), *b = randoms((size_t)(k * n)), *c = floats(19 * 37);
      double *want = calloc(19 * 37, sizeof *want);
      for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
          for (int q = 0; q < k; q++)
            want[i * n + j] +=
                (double)a[ta ? q * m + i : i * k + q] * (double)b[tb ? j * k + q : q * n + j];
      gemm_plain(&cx, m, n, k, a, ta, b, tb, c, false);
      CHECK_NEAR(distance(c, want, 19 * 37), 0, 1e-4);
      free(a), free(b), free(c), free(want);
    }
  kern_select(NULL);
}

TEST(products_carry_infinities_and_tiny_numbers) {
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    Case c = make_case(2, 3, 4, false);
    float y[6];
    memset(c.bias, 0, 3 * sizeof(float));
    for (int i = 0; i < 12; i++) c.w[i] = 1;
    const float x[8] = {1e-40f, 2e-40f, 0, 0, 3e38f, 3e38f, 0, 0};
    memcpy(c.x, x, sizeof x);
    forward(&cx, y, &c);
    CHECK_NEAR(y[0], 3e-40, 2e-45);
    CHECK(isinf(y[3]));
    free_case(&c);
  }
  kern_select(NULL);
}

TEST(a_warm_product_never_allocates) {
  Ctx cx = {.arena = &arena};
  Case c = make_case(40, 50, 60, false);
  float *y = floats(50 * 60);
  uint64_t before = 0;
  for (int i = 0; i < 3; i++) {
    if (i == 1) before = mem_allocations();
    forward(&cx, y, &c), dx(&cx, y, &c), dw(&cx, y, &c), db(&cx, y, &c);
  }
  CHECK(mem_allocations() == before);
  free(y), free_case(&c);
}

TEST(a_path_that_is_not_known_is_refused) {
  CHECK(kern_select("avx1024") == GRPO_EARG);
  CHECK(strstr(err_message(), "want generic") && strstr(err_message(), " or "));
  CHECK_STR(kern_path(0), "generic");
  CHECK(kern_select("generic") == GRPO_OK);
  CHECK_STR(kern_name(NULL), "generic");
  CHECK(kern_select(NULL) == GRPO_OK);
  CHECK(blas_core_name() != NULL);
}
