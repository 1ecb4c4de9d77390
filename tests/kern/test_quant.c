/* Compact weights on every path: values, products against gemm.c's bits, invariance. */
#include "kern_test.h"

#include <float.h>

#include "base/half.h"
#include "kern/gemm_quant.h"
#include "kern/kernels.h"

static const QuantType types[] = {QUANT_F32, QUANT_BF16, QUANT_F16, QUANT_INT8, QUANT_NF4};
enum { NTYPES = 5 };

static QuantWeight *filled(QuantType type, int n, int k, const float *w) {
  Ctx cx = {.arena = &arena};
  QuantWeight *m = NULL;
  CHECK(!quant_new(&m, type, n, k));
  for (int i = 0; i < n; i += 64) /* as a checkpoint is read */
    CHECK(!quant_put(&cx, m, i, n - i < 64 ? n - i : 64, w + (size_t)i * (size_t)k));
  CHECK(!quant_done(&cx, m));
  return m;
}

static float *values_of(const QuantWeight *m) {
  Ctx cx = {.arena = &arena};
  float *w = floats((size_t)m->n * (size_t)m->k);
  quant_get(&cx, m, 0, m->n, w);
  return w;
}

typedef struct Case {
  int m, n, k;
  float *x, *bias, *dy, *w;
  QuantWeight *quant;
} Case;

static Case make_case(QuantType type, int m, int n, int k) {
  Case c = {.m = m, .n = n, .k = k};
  c.x = randoms((size_t)(m * k)), c.bias = randoms((size_t)n), c.dy = randoms((size_t)(m * n));
  float *w = randoms((size_t)(n * k));
  c.quant = filled(type, n, k, w);
  c.w = values_of(c.quant);
  free(w);
  return c;
}
static void free_case(Case *c) {
  free(c->x), free(c->bias), free(c->dy), free(c->w), quant_free(c->quant);
}

static void forward(const Ctx *cx, float *y, void *arg) {
  Case *c = arg;
  CHECK(!quant_forward(cx, c->m, c->quant, c->x, c->k, c->bias, y, c->n));
}
static void dx(const Ctx *cx, float *y, void *arg) {
  Case *c = arg;
  CHECK(!quant_dx(cx, c->m, c->quant, c->dy, c->n, y, c->k, false));
}

/* ---- values -------------------------------------------------------------------- */

TEST(values_are_kept_as_the_type_keeps_them) {
  enum { N = 70, K = 37 };
  float *w = randoms(N * K);
  w[3] = 1e-6f, w[5] = -0.0f, w[6] = 65000, w[7] = 3e-8f; /* subnormal halves */
  memset(w + K, 0, K * sizeof *w);
  for (int p = 0; p < NPATHS; p++)
    for (int t = 0; t < 4 && use_path(p); t++) {
      QuantWeight *m = filled(types[t], N, K, w);
      float *got = values_of(m), *want = floats(N * K);
      for (int i = 0; i < N; i++) {
        float most = 0;
        for (int j = 0; j < K; j++) most = fmaxf(most, fabsf(w[i * K + j]));
        for (int j = 0; j < K; j++) {
          const float v = w[i * K + j], scale = most / 127;
          want[i * K + j] = t == 0     ? v
                            : t == 1   ? bf16_to_f32(f32_to_bf16(v))
                            : t == 2   ? f16_to_f32(f32_to_f16(v))
                            : most > 0 ? (0 + roundf(v / scale)) * scale /* no -0 */
                                       : 0;
        }
      }
      CHECK(same_bits(got, want, N * K));
      free(got), free(want), quant_free(m);
    }
  kern_select(NULL);
  free(w);
}

TEST(a_row_of_bytes_that_is_not_finite_stays_so) {
  enum { N = 20, K = 33 };
  static const float strange[] = {NAN, INFINITY, -INFINITY};
  for (int s = 0; s < 3; s++) {
    float *w = randoms(N * K);
    w[7 * K + 5] = strange[s];
    w[8 * K] = 1e30f;
    QuantWeight *m = filled(QUANT_INT8, N, K, w);
    float *got = values_of(m);
    for (int i = 0; i < N; i++)
      for (int p = 0; p < K; p++) CHECK(i == 7 ? isnan(got[i * K + p]) : isfinite(got[i * K + p]));
    quant_free(m);
    free(w), free(got);
  }
}

/* One scale of scales serves the whole weight, so one such value would destroy all of it. */
TEST(four_bits_refuse_what_is_not_finite) {
  enum { N = 70, K = 48 };
  static const float strange[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX};
  Ctx cx = {.arena = &arena};
  for (int s = 0; s < 5; s++)
    for (int p = 0; p < NPATHS && use_path(p); p++) {
      float *w = randoms(N * K);
      QuantWeight *m = NULL;
      w[66 * K + 5] = strange[s];
      CHECK(!quant_new(&m, QUANT_NF4, N, K));
      CHECK(!quant_put(&cx, m, 0, N, w));
      CHECK(quant_done(&cx, m) == (s < 3 ? GRPO_EFORMAT : GRPO_OK));
      /* a block of 64 values begins in row 65 */
      if (s < 3)
        CHECK_STR(err_message(),
                  "a value in row 65 to 66 of 70 is not finite, and NF4 has no code for it");
      quant_free(m);
      free(w);
    }
  kern_select(NULL);
}

TEST(every_path_reads_the_same_values) {
  static const int sizes[][2] = {{48, 64}, {33, 192}, {17, 100}, {130, 33}, {1, 1}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int t = 0; t < NTYPES; t++) {
      const int n = sizes[s][0], k = sizes[s][1];
      float *w = randoms((size_t)(n * k));
      kern_select("generic");
      QuantWeight *m = filled(types[t], n, k, w);
      float *want = values_of(m);
      for (int p = 1; p < NPATHS && use_path(p); p++) {
        float *got = values_of(m);
        CHECK(same_bits(got, want, (size_t)(n * k)));
        free(got);
      }
      free(w), free(want), quant_free(m);
    }
  kern_select(NULL);
}

/* Scales like those of a checkpoint without double quantisation; k of whole blocks and not */
TEST(nf4_scales_that_are_not_quantised_are_used_as_they_are) {
  enum { N = 70, MOST = 128 };
  for (int k = 96; k <= MOST; k += 32)
    for (int p = 0; p < NPATHS && use_path(p); p++) {
      Ctx cx = {.arena = &arena};
      QuantWeight *m = NULL;
      uint8_t packed[N * MOST / 2];
      float *absmax = randoms(N * MOST / NF4_BLOCK), *x = randoms((size_t)k), y[N];
      for (int i = 0; i < N * k / 2; i++) packed[i] = (uint8_t)(i * 37 >> 2);
      CHECK(!quant_new(&m, QUANT_NF4, N, k));
      quant_nf4_import_plain(m, packed, absmax);
      float *w = values_of(m);
      for (int e = 0; e < N * k; e++)
        CHECK(w[e] == nf4_code[packed[e / 2] >> (e % 2 ? 0 : 4) & 15] * absmax[e / NF4_BLOCK]);
      CHECK(!quant_forward(&cx, 1, m, x, k, NULL, y, N));
      for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int j = 0; j < k; j++) sum += (double)x[j] * (double)w[i * k + j];
        CHECK(fabs(sum - (double)y[i]) < 1e-4);
      }
      free(absmax), free(x), free(w), quant_free(m);
    }
  kern_select(NULL);
}

/* All codes, nests that begin within a row, more blocks than a vector has, a last group that is not
 * whole */
TEST(nf4_scales_are_those_of_the_map_on_every_path) {
  enum { N = 54, BLOCKS = 20, K = BLOCKS * NF4_BLOCK, ALL = N * BLOCKS };
  static uint8_t packed[N * K / 2], absmax[ALL];
  float *nests = randoms(ALL / NF4_NEST + 1), offset = 0.125f;
  for (int i = 0; i < ALL; i++) absmax[i] = (uint8_t)(i * 77 + i / 256);
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    QuantWeight *m = NULL;
    CHECK(!quant_new(&m, QUANT_NF4, N, K));
    quant_nf4_import(m, packed, absmax, nests, offset);
    for (int group = 0; group < (N + GROUP - 1) / GROUP; group++)
      for (int at = 0; at < BLOCKS; at += 3) {
        float scale[BLOCKS][GROUP + 1];
        quant_scales(NULL, m, group, at * NF4_BLOCK, BLOCKS - at, scale[0], GROUP + 1);
        for (int b = at; b < BLOCKS; b++)
          for (int i = 0; i < GROUP; i++) {
            const int row = group * GROUP + i, block = row * BLOCKS + b;
            float want = 0;
            if (row < N) want = nf4_absmax_map[absmax[block]] * nests[block / NF4_NEST] + offset;
            CHECK(same_bits(&scale[b - at][i], &want, 1));
          }
      }
    quant_free(m);
  }
  free(nests);
  kern_select(NULL);
}

TEST(rows_are_read_from_anywhere) {
  enum { N = 90, K = 70 };
  static const int32_t ids[] = {89, 0, 17, 17, 64, 31};
  Ctx cx = {.arena = &arena};
  float *w = randoms(N * K), *got = floats(N * K);
  for (int t = 0; t < NTYPES; t++) {
    QuantWeight *m = filled(types[t], N, K, w);
    float *all = values_of(m);
    quant_get(&cx, m, 13, 40, got);
    CHECK(same_bits(got, all + 13 * K, 40 * K));
    quant_gather(&cx, m, 6, ids, got);
    for (int i = 0; i < 6; i++) CHECK(same_bits(got + i * K, all + ids[i] * K, K));
    free(all), quant_free(m);
  }
  free(w), free(got);
}

TEST(a_matrix_filled_at_once_or_in_parts_is_the_same) {
  enum { N = 200, K = 77 };
  float *w = randoms(N * K);
  Ctx cx = {.arena = &arena};
  CHECK(!pool_new(&cx.pool, 3));
  for (int t = 0; t < NTYPES; t++) {
    QuantWeight *m = filled(types[t], N, K, w), *once = NULL;
    CHECK(!quant_new(&once, types[t], N, K));
    CHECK(!quant_put(&cx, once, 0, N, w));
    CHECK(!quant_done(&cx, once));
    float *a = values_of(m), *b = values_of(once);
    CHECK(same_bits(a, b, N * K));
    CHECK(quant_put(&cx, once, 1, 64, w) == GRPO_EARG);
    CHECK(quant_put(&cx, once, 0, 63, w) == GRPO_EARG);
    CHECK(quant_put(&cx, once, 192, 64, w) == GRPO_EARG);
    free(a), free(b), quant_free(m), quant_free(once);
  }
  pool_free(cx.pool);
  free(w);
}

TEST(a_matrix_takes_the_bytes_that_it_says) {
  static const double bits[] = {32, 16, 16, 8, 4.13};
  float *w = randoms(256 * 1024);
  for (int t = 0; t < NTYPES; t++) {
    const size_t before = mem_live_bytes(), says = quant_bytes(types[t], 256, 1024);
    QuantWeight *m = filled(types[t], 256, 1024, w);
    const size_t takes = mem_live_bytes() - before;
    CHECK_NEAR((double)takes, (double)says, 4096);
    CHECK_NEAR((double)says * 8 / 256 / 1024, bits[t], bits[t] * 0.01);
    quant_free(m);
    CHECK(mem_live_bytes() == before);
  }
  free(w);
}

TEST(a_matrix_without_memory_is_refused) {
  for (uint64_t i = 1; i <= 5; i++) {
    const size_t before = mem_live_bytes();
    QuantWeight *m = NULL;
    mem_fail_after(i);
    CHECK(quant_new(&m, QUANT_NF4, 64, 64) == GRPO_ENOMEM);
    mem_fail_after(0);
    CHECK(mem_live_bytes() == before);
  }
}

/* ---- products ------------------------------------------------------------------ */

TEST(products_have_the_bits_of_the_same_values_in_float) {
  static const int sizes[][3] = {{1, 1, 1},      {1, 48, 64},   {3, 17, 33},    {8, 64, 64},
                                 {13, 100, 600}, {300, 70, 20}, {2, 112, 1030}, {17, 200, 1},
                                 {70, 130, 192}, {9, 33, 448}};
  for (int p = 0; p < NPATHS; p++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int t = 0; t < NTYPES && use_path(p); t++) {
        const int m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
        Ctx cx = {.arena = &arena};
        Case c = make_case(types[t], m, n, k);
        float *packed = floats(gemm_packed_size(n, k));
        float *y = floats((size_t)(m * n)), *want = floats((size_t)(m * n));
        float *g = randoms((size_t)(m * k)), *want_g = copy_of(g, (size_t)(m * k));
        gemm_pack(&cx, n, k, c.w, false, packed);
        gemm_forward(&cx, m, n, k, c.x, k, packed, c.bias, want, n);
        forward(&cx, y, &c);
        CHECK(same_bits(y, want, (size_t)(m * n)));
        for (int add = 1; add >= 0; add--) {
          CHECK(!gemm_dx(&cx, m, n, k, c.dy, n, c.w, false, want_g, k, add));
          CHECK(!quant_dx(&cx, m, c.quant, c.dy, n, g, k, add));
          CHECK(same_bits(g, want_g, (size_t)(m * k)));
        }
        free(packed), free(y), free(want), free(g), free(want_g), free_case(&c);
      }
  kern_select(NULL);
}

/* Laid out by one path, in place or not, multiplied by another. */
TEST(float_panels_of_one_path_serve_every_other) {
  static const int sizes[][3] = {
      {1, 1, 1}, {9, 208, 40}, {300, 209, 130}, {70, 16, 1600}, {2, 800, 17}};
  for (int from = 0; from < NPATHS; from++)
    for (int to = 0; to < NPATHS; to++)
      for (size_t s = 0; s < sizeof sizes / sizeof *sizes && use_path(from); s++) {
        const int m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
        const size_t nk = (size_t)n * (size_t)k, room = gemm_packed_size(n, k);
        Ctx cx = {.arena = &arena};
        QuantWeight *quant = NULL;
        Case c = make_case(QUANT_F32, m, n, k);
        float *w = floats(room), *packed = floats(room);
        memcpy(w, c.w, nk * sizeof *w);
        CHECK(!quant_pack_in_place(&cx, &quant, n, k, w));
        gemm_pack(&cx, n, k, c.w, false, packed);
        CHECK(same_bits(w, packed, room) && same_bits(c.quant->data, packed, room));
        float *y = floats((size_t)(m * n)), *want = floats((size_t)(m * n));
        float *g = randoms((size_t)(m * k)), *want_g = copy_of(g, (size_t)(m * k));
        if (use_path(to)) {
          gemm_pack(&cx, n, k, c.w, false, packed);
          gemm_forward(&cx, m, n, k, c.x, k, packed, c.bias, want, n);
          CHECK(!quant_forward(&cx, m, quant, c.x, k, c.bias, y, n));
          CHECK(same_bits(y, want, (size_t)(m * n)));
          CHECK(!gemm_dx(&cx, m, n, k, c.dy, n, c.w, false, want_g, k, true));
          CHECK(!quant_dx(&cx, m, quant, c.dy, n, g, k, true));
          CHECK(same_bits(g, want_g, (size_t)(m * k)));
        }
        CHECK(!quant_unpack_in_place(&cx, quant));
        CHECK(same_bits(w, c.w, nk));
        free(y), free(want), free(g), free(want_g), free(w), free(packed), free_case(&c);
      }
  kern_select(NULL);
}

TEST(any_number_of_rows_has_the_bits_of_float) {
  enum { MOST = 70, N = 150, K = 1088 };
  for (int p = 0; p < NPATHS; p++)
    for (int t = 1; t < NTYPES && use_path(p); t++) {
      Ctx cx = {.arena = &arena};
      Case c = make_case(types[t], MOST, N, K);
      float *packed = floats(gemm_packed_size(N, K)), *y = floats(MOST * N);
      float *want = floats(MOST * N);
      gemm_pack(&cx, N, K, c.w, false, packed);
      gemm_forward(&cx, MOST, N, K, c.x, K, packed, NULL, want, N);
      for (int m = 1; m <= MOST; m += m < 17 ? 1 : 13) {
        memset(y, 0, MOST * N * sizeof *y);
        CHECK(!quant_forward(&cx, m, c.quant, c.x, K, NULL, y, N));
        CHECK(same_bits(y, want, (size_t)(m * N)));
        for (int i = m * N; i < MOST * N; i++) CHECK(y[i] == 0);
      }
      free(packed), free(y), free(want), free_case(&c);
    }
  kern_select(NULL);
}

/* Values of the outputs from `strange` on are rounded to subnormal numbers, are huge or zero. */
static QuantWeight *strange_weights(QuantType type, int n, int k, int strange) {
  static const float scale[] = {1, 1e-38f, 1e33f, 0, 1e-42f, -1};
  float *w = randoms((size_t)(n * k));
  for (int i = strange; i < n; i++)
    for (int p = 0; p < k; p++) w[i * k + p] *= scale[i % 6];
  QuantWeight *m = filled(type, n, k, w);
  free(w);
  return m;
}

TEST(any_number_of_rows_has_the_bits_of_rounded_values) {
  enum { MOST = 70, N = 150, K = 1088 };
  for (int p = 0; p < NPATHS; p++)
    for (int t = 1; t < NTYPES && use_path(p); t++) {
      if (kernels_bf16(NULL)) continue; /* tested in test_gemm_bf16.c */
      Ctx cx = {.arena = &arena}, cx16 = {.arena = &arena, .compute = COMPUTE_BF16};
      float *x = randoms(MOST * K), *packed = floats(gemm_packed_size(N, K));
      float *y = floats(MOST * N), *want = floats(MOST * N);
      QuantWeight *m = strange_weights(types[t], N, K, 100);
      float *w = values_of(m);
      kernels(NULL)->round_bf16(N * K, w, w);
      gemm_pack(&cx, N, K, w, false, packed);
      kernels(NULL)->round_bf16(MOST * K, x, w);
      gemm_forward(&cx, MOST, N, K, w, K, packed, NULL, want, N);
      for (int rows = 1; rows <= MOST; rows += rows < 18 ? 1 : 13) {
        CHECK(!quant_forward(&cx16, rows, m, x, K, NULL, y, N));
        CHECK(same_bits(y, want, (size_t)(rows * N)));
      }
      free(x), free(packed), free(y), free(want), free(w), quant_free(m);
    }
  kern_select(NULL);
}

TEST(product_rows_do_not_depend_on_the_number_of_rows) {
  for (int p = 0; p < NPATHS; p++)
    for (int t = 0; t < NTYPES && use_path(p); t++) {
      Case c = make_case(types[t], MAX_ROWS, 130, 320);
      check_rows(forward, dx, &c, c.n, c.k, &c.m, &c.x, &c.dy);
      free_case(&c);
    }
  kern_select(NULL);
}

TEST(products_do_not_depend_on_the_number_of_threads) {
  for (int p = 0; p < NPATHS; p++)
    for (int t = 0; t < NTYPES && use_path(p); t++) {
      Case c = make_case(types[t], 300, 150, 530);
      check_threads(forward, dx, &c, c.n, c.k, &c.m);
      free_case(&c);
    }
  kern_select(NULL);
}

TEST(strides_leave_other_columns_alone) {
  for (int p = 0; p < NPATHS && use_path(p); p++) {
    Ctx cx = {.arena = &arena};
    Case c = make_case(QUANT_NF4, 10, 20, 30);
    float *wide = randoms(10 * 50), *y = floats(10 * 20), *out = floats(10 * 37);
    for (int i = 0; i < 10; i++) memcpy(wide + i * 50 + 7, c.x + i * 30, 30 * sizeof(float));
    for (int i = 0; i < 370; i++) out[i] = 9;
    forward(&cx, y, &c);
    CHECK(!quant_forward(&cx, 10, c.quant, wide + 7, 50, c.bias, out + 5, 37));
    for (int i = 0; i < 10; i++) {
      CHECK(same_bits(out + i * 37 + 5, y + i * 20, 20));
      CHECK(out[i * 37 + 4] == 9 && out[i * 37 + 25] == 9);
    }
    free(wide), free(y), free(out), free_case(&c);
  }
  kern_select(NULL);
}

TEST(a_warm_product_never_allocates) {
  Ctx cx = {.arena = &arena};
  Case c = make_case(QUANT_NF4, 40, 50, 64);
  float *y = floats(40 * 64);
  uint64_t before = 0;
  for (int i = 0; i < 3; i++) {
    if (i == 1) before = mem_allocations();
    forward(&cx, y, &c), dx(&cx, y, &c);
  }
  CHECK(mem_allocations() == before);
  free(y), free_case(&c);
}

TEST(transposition_takes_every_shape) {
  static const int sizes[][2] = {{1, 1}, {16, 16}, {48, 16}, {17, 35}, {7, 64}, {33, 8}};
  for (int p = 0; p < NPATHS; p++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes && use_path(p); s++) {
      const int r = sizes[s][0], c = sizes[s][1], ldx = c + 3, ldy = r + 5;
      float *x = randoms((size_t)(r * ldx)), *y = floats((size_t)(c * ldy));
      kernels(NULL)->transpose(r, c, x, ldx, y, ldy);
      for (int i = 0; i < r; i++)
        for (int j = 0; j < c; j++) CHECK(y[j * ldy + i] == x[i * ldx + j]);
      for (int j = 0; j < c; j++)
        for (int i = r; i < ldy; i++) CHECK(y[j * ldy + i] == 0);
      free(x), free(y);
    }
  kern_select(NULL);
}
