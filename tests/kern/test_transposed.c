/* dX from panels of the transposed weight: the bits of dX from the weight itself. */
#include "kern/gemm_bf16.h"
#include "kern_test.h"

typedef struct Case {
  int m, n, k;
  bool in_out, add;
  float *dy, *w, *dx, *d, *down; /* dy [m,n]; dx [m,k]; a low rank of 5: d [m,5], panels of [k,5] */
} Case;

enum { RANK = 5 };

static Case make_case(const int size[3], int variant) {
  Case c = {size[0], size[1], size[2], variant & 1, variant & 2, NULL, NULL, NULL, NULL, NULL};
  float *up = randoms((size_t)(c.k * RANK));
  Ctx cx = {.arena = &arena};
  c.dy = randoms((size_t)(c.m * c.n)), c.w = randoms((size_t)(c.n * c.k));
  c.dx = randoms((size_t)(c.m * c.k)), c.d = randoms((size_t)(c.m * RANK));
  c.down = floats(gemm_packed_size(c.k, RANK));
  gemm_pack(&cx, c.k, RANK, up, false, c.down);
  free(up);
  return c;
}

static void free_case(Case *c) { free(c->dy), free(c->w), free(c->dx), free(c->d), free(c->down); }

static void check_f32(const Ctx *cx, const Case *c, const LowRank *low) {
  const size_t size = (size_t)(c->m * c->k);
  float *transposed = floats(gemm_packed_size(c->k, c->n));
  float *want = copy_of(c->dx, size), *got = copy_of(c->dx, size);
  gemm_pack(cx, c->k, c->n, c->w, !c->in_out, transposed);
  CHECK(!gemm_dx_low(cx, c->m, c->n, c->k, c->dy, c->n, c->w, c->in_out, low, want, c->k, c->add));
  gemm_dx_transposed(cx, c->m, c->n, c->k, c->dy, c->n, transposed, low, got, c->k, c->add);
  CHECK(same_bits(want, got, size));
  free(transposed), free(want), free(got);
}

static void check_bf16(const Ctx *cx, const Case *c, const LowRank *low) {
  const size_t size = (size_t)(c->m * c->k);
  uint16_t *packed = calloc(gemm_bf16_packed_size(c->n, c->k), sizeof *packed);
  uint16_t *transposed = calloc(gemm_bf16_packed_size(c->k, c->n), sizeof *transposed);
  float *want = copy_of(c->dx, size), *got = copy_of(c->dx, size);
  gemm_bf16_pack(cx, c->n, c->k, c->w, c->in_out, packed);
  gemm_bf16_pack(cx, c->k, c->n, c->w, !c->in_out, transposed);
  CHECK(!gemm_bf16_dx_low(cx, c->m, c->n, c->k, c->dy, c->n, packed, low, want, c->k, c->add));
  CHECK(!gemm_bf16_dx_transposed(cx, c->m, c->n, c->k, c->dy, c->n, transposed, low, got, c->k,
                                 c->add));
  CHECK(same_bits(want, got, size));
  free(packed), free(transposed), free(want), free(got);
}

TEST(turned_panels_give_the_bits_of_the_weight) {
  static const int sizes[][3] = {{1, 1, 1},     {1, 33, 17},    {8, 48, 64},    {9, 65, 33},
                                 {31, 129, 96}, {96, 384, 112}, {140, 97, 401}, {277, 600, 144}};
  Ctx cx = {.arena = &arena};
  CHECK(!pool_new(&cx.pool, 2));
  for (int p = 0; p < NPATHS && use_path(p); p++)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
      for (int variant = 0; variant < 4; variant++) {
        Case c = make_case(sizes[i], variant);
        const LowRank low = {RANK, c.d, c.down};
        check_f32(&cx, &c, NULL);
        check_f32(&cx, &c, &low);
        if (kern_bf16(NULL)) check_bf16(&cx, &c, NULL);
        if (kern_bf16(NULL)) check_bf16(&cx, &c, &low);
        free_case(&c);
      }
  kern_select(NULL);
  pool_free(cx.pool);
}
