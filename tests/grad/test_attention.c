/* test_attention.c - a group packed behind one prompt trains exactly as its sequences alone. */
#include <stdlib.h>

#include "grad/attrs.h"
#include "grad/tape.h"
#include "testing.h"

enum { HEADS = 4, KV_HEADS = 2, DIM = 8, PROMPT = 21, GROUP = 3 };
static const int completion[GROUP] = {5, 18, 1};
static Tape tape;

static AttnShape shape_with(int window, double softcap) {
  return (AttnShape){HEADS,         KV_HEADS, DIM, (real)(1 / sqrt(DIM)), window,
                     (real)softcap, false,    0,   COMPUTE_F32,           NULL};
}

static double noise(void) { return (double)rand() / RAND_MAX * 2 - 1; }

/* q, k and v of some rows, filled from `from` (NULL: random) by row number */
typedef struct Rows {
  int n;
  Tensor *x[3];
} Rows;

static Rows make_rows(int n, const Rows *from, const int *row) {
  static const int heads[] = {HEADS, KV_HEADS, KV_HEADS};
  Rows r = {.n = n};
  for (int k = 0; k < 3; k++) {
    const size_t width = (size_t)heads[k] * DIM;
    CHECK(tape_tensor(&tape, 2, (const int[]){n, (int)width}, &r.x[k]) == GRPO_OK);
    r.x[k]->needs_grad = true;
    for (size_t i = 0; i < r.x[k]->n; i++)
      r.x[k]->data[i] =
          from ? from->x[k]->data[(size_t)row[i / width] * width + i % width] : (real)noise();
  }
  return r;
}

static Tensor *attend(const Rows *r, const AttentionAttr *a) {
  Tensor *out = NULL;
  if (tape_apply(&tape, OP_attention, r->x, &(Attr){.p = a}, &out) != GRPO_OK)
    test_fail(__FILE__, __LINE__, "%s", err_message());
  return out;
}

/* The rows of prompt and completion g in the packed batch. */
static int rows_of(int g, int *row) {
  int at = PROMPT, n = 0;
  for (int i = 0; i < g; i++) at += completion[i];
  for (int i = 0; i < PROMPT; i++) row[n++] = i;
  for (int i = 0; i < completion[g]; i++) row[n++] = at + i;
  return n;
}

static double distance(const real *a, const real *b, size_t n, double *scale) {
  double worst = 0;
  for (size_t i = 0; i < n; i++) {
    worst = fmax(worst, fabs((double)(a[i] - b[i])));
    *scale = fmax(*scale, fabs((double)b[i]));
  }
  return worst;
}

static void compare_packing(int window, double softcap) {
  PackSpan pack[GROUP + 1] = {{0, PROMPT, -1}};
  int total = PROMPT;
  for (int g = 0; g < GROUP; total += completion[g++])
    pack[g + 1] = (PackSpan){total, completion[g], 0};
  const AttentionAttr packed = {
      .shape = shape_with(window, softcap), .npack = GROUP + 1, .pack = pack};
  tape_reset(&tape);
  const Rows all = make_rows(total, NULL, NULL);
  Tensor *out = attend(&all, &packed), *u = NULL;
  CHECK(tape_tensor(&tape, 2, out->dim, &u) == GRPO_OK);
  for (size_t i = 0; i < u->n; i++) u->data[i] = (real)noise();
  CHECK(tape_backward_from(&tape, out, u->data) == GRPO_OK);

  real *sum[3];
  for (int k = 0; k < 3; k++) sum[k] = arena_zalloc(&tape.arena, all.x[k]->n * sizeof(real));
  for (int g = 0; g < GROUP; g++) {
    int row[PROMPT + 32];
    const int n = rows_of(g, row);
    const PackSpan one = {0, n, -1};
    const AttentionAttr alone = {.shape = shape_with(window, softcap), .npack = 1, .pack = &one};
    const Rows r = make_rows(n, &all, row);
    Tensor *o = attend(&r, &alone);
    real *seed = arena_zalloc(&tape.arena, o->n * sizeof *seed);
    const size_t width = HEADS * DIM;
    for (int i = 0; i < n; i++) { /* same numbers forward; the prompt's own outputs count once */
      CHECK(memcmp(o->data + (size_t)i * width, out->data + (size_t)row[i] * width,
                   width * sizeof(real)) == 0);
      if (i >= PROMPT || g == 0)
        memcpy(seed + (size_t)i * width, u->data + (size_t)row[i] * width, width * sizeof(real));
    }
    CHECK(tape_backward_from(&tape, o, seed) == GRPO_OK);
    for (int k = 0; k < 3; k++) {
      const size_t w = (size_t)r.x[k]->dim[1];
      for (size_t i = 0; i < r.x[k]->n; i++)
        sum[k][(size_t)row[i / w] * w + i % w] += r.x[k]->grad[i];
    }
  }
  for (int k = 0; k < 3; k++) {
    double scale = 0;
    const double worst = distance(all.x[k]->grad, sum[k], all.x[k]->n, &scale);
    CHECK(worst <= 2e-6 * scale && scale > 0);
  }
}

TEST(a_packed_group_equals_its_sequences_one_by_one) {
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  compare_packing(0, 0);
  compare_packing(7, 0);  /* reaches a little way into the prompt */
  compare_packing(30, 0); /* and past its first rows */
  compare_packing(0, 0.7);
  compare_packing(7, 2);
  tape_free(&tape);
}

static void compare_decoding(AttnShape shape) {
  enum { N = 19, CAP = 32 };
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  const PackSpan one = {0, N, -1};
  const AttentionAttr train = {.shape = shape, .npack = 1, .pack = &one};
  const Rows all = make_rows(N, NULL, NULL);
  Tensor *want = attend(&all, &train);
  const size_t size = kv_size(&shape, kv_places(&shape, CAP, 0));
  KvSeg cache = kv_segment(&shape, arena_zalloc(&tape.arena, 2 * size * sizeof(real)), CAP, 0);
  tape.off = true;
  for (int i = 0; i < N; i++) {
    const Rows r = make_rows(1, &all, &i);
    for (int k = 0; k < 3; k++) r.x[k]->needs_grad = false;
    kv_store(&shape, &cache, i, 1, r.x[1]->data, KV_HEADS * DIM, r.x[2]->data, KV_HEADS * DIM);
    cache.len = i + 1;
    const AttnSpan span = {NULL, &cache, 0, 1, i};
    const AttentionAttr decode = {.shape = shape, .nspans = 1, .spans = &span};
    Tensor *got = attend(&r, &decode);
    CHECK(memcmp(got->data, want->data + (size_t)i * HEADS * DIM, HEADS * DIM * sizeof(real)) == 0);
  }
  tape_free(&tape);
}

TEST(decoding_row_by_row_gives_the_training_bits) {
  compare_decoding(shape_with(0, 0));
  compare_decoding(shape_with(5, 0));
  compare_decoding(shape_with(0, 0.7));
  compare_decoding(shape_with(6, 3));
}

TEST(spans_that_make_no_sense_are_refused) {
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  const Rows r = make_rows(4, NULL, NULL);
  Tensor *out;
  static const PackSpan bad[][2] = {{{0, 2, -1}, {3, 1, 0}},
                                    {{0, 2, -1}, {2, 1, 0}},
                                    {{0, 2, 0}, {2, 2, 0}},
                                    {{0, 2, -1}, {2, 2, 1}}};
  for (int i = 0; i < 4; i++) {
    const AttentionAttr a = {.shape = shape_with(0, 0), .npack = 2, .pack = bad[i]};
    CHECK(tape_apply(&tape, OP_attention, r.x, &(Attr){.p = &a}, &out) == GRPO_ESHAPE);
    CHECK(tape.n == 0);
  }
  tape_free(&tape);
}
