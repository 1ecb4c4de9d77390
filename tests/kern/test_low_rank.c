/* An adapter's product gives the same bits when it is added in the tile or afterwards. */
#include "kern_test.h"

#include "kern/gemm_bf16.h"
#include "kern/gemm_quant.h"

typedef struct Case {
  int m, n, k, rank;
  float *x, *w, *bias, *low, *up; /* x [m,k], w [n,k] */
  float *dy, *d, *down;           /* dy [m,n]; d [m,rank] and its panels, for dx */
} Case;

static float *panels(int n, int k) {
  Ctx cx = {.arena = &arena};
  float *w = randoms((size_t)(n * k)), *p = floats(gemm_packed_size(n, k));
  gemm_pack(&cx, n, k, w, false, p);
  free(w);
  return p;
}

static Case make_case(int m, int n, int k, int rank) {
  return (Case){.m = m,
                .n = n,
                .k = k,
                .rank = rank,
                .x = randoms((size_t)(m * k)),
                .w = randoms((size_t)(n * k)),
                .bias = randoms((size_t)n),
                .low = randoms((size_t)(m * rank)),
                .up = panels(n, rank),
                .dy = randoms((size_t)(m * n)),
                .d = randoms((size_t)(m * rank)),
                .down = panels(k, rank)};
}

static void free_case(Case *c) {
  free(c->x), free(c->w), free(c->bias), free(c->low), free(c->up);
  free(c->dy), free(c->d), free(c->down);
}

/* A product of n columns, without the low rank in `apart`, with it in `together`. */
static bool same(const Ctx *cx, const Case *c, const LowRank *l, int n, float *apart,
                 float *together) {
  gemm_forward_add(cx, c->m, n, c->rank, l->low, c->rank, l->up, apart, n);
  const bool yes = same_bits(apart, together, (size_t)(c->m * n));
  free(apart), free(together);
  return yes;
}

static void check_weight(const Ctx *cx, const Case *c, bool in_out) {
  const int m = c->m, n = c->n, k = c->k;
  const LowRank up = {c->rank, c->low, c->up}, down = {c->rank, c->d, c->down};
  float *packed = floats(gemm_packed_size(n, k));
  uint16_t *packed_bf16 = calloc(gemm_bf16_packed_size(n, k), sizeof *packed_bf16);
  gemm_pack(cx, n, k, c->w, in_out, packed);
  gemm_bf16_pack(cx, n, k, c->w, in_out, packed_bf16);
  float *y[4], *dx[4];
  for (int i = 0; i < 4; i++) y[i] = floats((size_t)(m * n)), dx[i] = randoms((size_t)(m * k));
  gemm_forward(cx, m, n, k, c->x, k, packed, c->bias, y[0], n);
  gemm_forward_low(cx, m, n, k, c->x, k, packed, c->bias, &up, y[1], n);
  CHECK(same(cx, c, &up, n, y[0], y[1]));
  CHECK(!gemm_bf16_forward(cx, m, n, k, c->x, k, packed_bf16, NULL, y[2], n));
  CHECK(!gemm_bf16_forward_low(cx, m, n, k, c->x, k, packed_bf16, NULL, &up, y[3], n));
  CHECK(same(cx, c, &up, n, y[2], y[3]));
  memcpy(dx[1], dx[0], sizeof(float) * (size_t)(m * k));
  CHECK(!gemm_dx(cx, m, n, k, c->dy, n, c->w, in_out, dx[0], k, true));
  CHECK(!gemm_dx_low(cx, m, n, k, c->dy, n, c->w, in_out, &down, dx[1], k, true));
  CHECK(same(cx, c, &down, k, dx[0], dx[1]));
  CHECK(!gemm_bf16_dx(cx, m, n, k, c->dy, n, packed_bf16, dx[2], k, false));
  CHECK(!gemm_bf16_dx_low(cx, m, n, k, c->dy, n, packed_bf16, &down, dx[3], k, false));
  CHECK(same(cx, c, &down, k, dx[2], dx[3]));
  free(packed), free(packed_bf16);
}

static void check_matrix(const Ctx *cx, const Case *c, QuantType type) {
  const int m = c->m, n = c->n, k = c->k;
  const LowRank up = {c->rank, c->low, c->up}, down = {c->rank, c->d, c->down};
  QuantWeight *w = NULL;
  CHECK(!quant_new(&w, type, n, k));
  CHECK(!quant_put(cx, w, 0, n, c->w));
  CHECK(!quant_done(cx, w));
  for (Compute compute = COMPUTE_F32; compute <= COMPUTE_BF16; compute++) {
    const Ctx in = {.pool = cx->pool, .arena = cx->arena, .compute = compute};
    float *y[2], *dx[2];
    for (int i = 0; i < 2; i++) y[i] = floats((size_t)(m * n)), dx[i] = floats((size_t)(m * k));
    CHECK(!quant_forward(&in, m, w, c->x, k, c->bias, y[0], n));
    CHECK(!quant_forward_low(&in, m, w, c->x, k, c->bias, &up, y[1], n));
    CHECK(same(cx, c, &up, n, y[0], y[1]));
    CHECK(!quant_dx(&in, m, w, c->dy, n, dx[0], k, false));
    CHECK(!quant_dx_low(&in, m, w, c->dy, n, &down, dx[1], k, false));
    CHECK(same(cx, c, &down, k, dx[0], dx[1]));
  }
  quant_free(w);
}

TEST(a_low_rank_within_a_product_has_the_bits_of_one_afterwards) {
  static const int sizes[][4] = {{1, 1, 1, 1},       {1, 112, 70, 8},    {3, 130, 64, 13},
                                 {9, 65, 33, 1},     {16, 200, 192, 8},  {70, 49, 47, 64},
                                 {130, 100, 600, 8}, {300, 97, 130, 13}, {7, 1100, 1024, 8}};
  Ctx cx = {.arena = &arena};
  CHECK(!pool_new(&cx.pool, 2));
  for (int p = 0; p < NPATHS && use_path(p); p++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      Case c = make_case(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3]);
      check_weight(&cx, &c, false);
      check_weight(&cx, &c, true);
      for (QuantType type = QUANT_F32; type <= QUANT_NF4; type++) check_matrix(&cx, &c, type);
      free_case(&c);
    }
  kern_select(NULL);
  pool_free(cx.pool);
}
