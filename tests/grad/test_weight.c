/* test_weight.c - operations on quantised weights give the bits of the same values in float. */
#include <math.h>
#include <stdlib.h>

#include "grad/attrs.h"
#include "grad/tape.h"
#include "grad/weight.h"
#include "kern/quant.h"
#include "testing.h"

static Tape tape;
enum { N = 50, K = 70, M = 9 };

/* The same weight twice: *w quantised, *plain its values. */
static QuantWeight *make(QuantType type, Tensor **w, Tensor **plain) {
  QuantWeight *m = NULL;
  CHECK(!tape_tensor(&tape, 2, (const int[]){N, K}, plain));
  for (size_t i = 0; i < N * K; i++) (*plain)->data[i] = (real)(i * 2654435761u % 1000) / 500 - 1;
  CHECK(!quant_new(&m, type, N, K));
  CHECK(!quant_put(&tape.cx, m, 0, N, (*plain)->data));
  CHECK(!quant_done(&tape.cx, m));
  quant_get(&tape.cx, m, 0, N, (*plain)->data);
  CHECK(!tape_tensor(&tape, 2, (const int[]){N, K}, w));
  (*w)->data = NULL;
  (*w)->quant = m;
  return m;
}

static Tensor *leaf(int rows, int columns) {
  Tensor *t = NULL;
  CHECK(!tape_tensor(&tape, 2, (const int[]){rows, columns}, &t));
  for (size_t i = 0; i < t->n; i++) t->data[i] = (real)(i * 40503u % 997) / 500 - 1;
  t->needs_grad = true;
  return t;
}

/* out and the first input's gradient are the same whichever weight is at `slot` */
static void compare(OpId op, Tensor *x, Tensor *other, int slot, Tensor *w, Tensor *plain,
                    const Attr *attr) {
  Tensor *out[2] = {NULL, NULL}, *xs[2] = {x, leaf(M, K)};
  for (int i = 0; i < 2; i++) {
    Tensor *in[OP_MAX_IN] = {xs[i], other, NULL};
    in[slot] = i ? plain : w;
    if (tape_apply(&tape, op, in, attr, &out[i]))
      test_fail(__FILE__, __LINE__, "%s", err_message());
  }
  CHECK(memcmp(out[0]->data, out[1]->data, out[0]->n * sizeof(real)) == 0);
  if (!slot) return;
  for (int i = 0; i < 2; i++) {
    real *seed = calloc(out[i]->n, sizeof *seed);
    for (size_t j = 0; j < out[i]->n; j++) seed[j] = (real)(j % 7) - 3;
    CHECK(!tape_backward_from(&tape, out[i], seed));
    free(seed);
  }
  CHECK(memcmp(xs[0]->grad, xs[1]->grad, x->n * sizeof(real)) == 0);
}

TEST(operations_on_quantised_weights_have_the_bits_of_their_values) {
  static const int32_t ids[] = {3, 49, 0, 17, 17, 20, 1, 2, 33},
                       rows[] = {0, 1, 2, 3, 4, 5, 6, 8, 8};
  CHECK(!tape_init(&tape, NULL));
  for (QuantType type = QUANT_F32; type <= QUANT_NF4; type++) {
    Tensor *w, *plain;
    QuantWeight *m = make(type, &w, &plain);
    compare(OP_linear, leaf(M, K), NULL, 1, w, plain, NULL);
    EmbeddingAttr e = {.tokens = M, .ids = ids, .pos = ids};
    compare(OP_embedding, leaf(M, K), NULL, 0, w, plain, &(Attr){.p = &e});
    LogheadAttr h = {.n = M, .rows = rows, .targets = ids, .inv_temp = 1};
    compare(OP_loghead, leaf(M, K), NULL, 1, w, plain, &(Attr){.p = &h});
    tape_reset(&tape);
    quant_free(m);
  }
  tape_free(&tape);
}

TEST(a_full_kl_is_the_same_from_a_quantised_reference) {
  static const int32_t ids[] = {3, 49, 0, 17, 17, 20, 1, 2, 33},
                       rows[] = {0, 1, 2, 3, 4, 5, 6, 8, 8};
  CHECK(!tape_init(&tape, NULL));
  Tensor *w, *plain, *out[2];
  QuantWeight *m = make(QUANT_NF4, &w, &plain);
  for (int i = 0; i < 2; i++) {
    LogheadAttr h = {.n = M, .rows = rows, .targets = ids, .inv_temp = 1};
    h.ref_hidden = leaf(M, K)->data;
    h.ref_head = i ? plain : w;
    CHECK(!tape_apply(&tape, OP_loghead, (Tensor *[]){leaf(M, K), leaf(N, K), NULL},
                      &(Attr){.p = &h}, &out[i]));
  }
  CHECK(memcmp(out[0]->data, out[1]->data, out[0]->n * sizeof(real)) == 0);
  tape_free(&tape);
  quant_free(m);
}

TEST(other_operations_refuse_a_quantised_weight) {
  CHECK(!tape_init(&tape, NULL));
  Tensor *w, *plain, *out = NULL;
  QuantWeight *m = make(QUANT_BF16, &w, &plain);
  CHECK(tape_apply(&tape, OP_add, (Tensor *[]){plain, w}, NULL, &out) == GRPO_EARG);
  CHECK(strstr(err_message(), "load the model with dtype") != NULL);
  CHECK(tape_apply(&tape, OP_linear, (Tensor *[]){w, plain, NULL}, NULL, &out) == GRPO_EARG);
  tape_free(&tape);
  quant_free(m);
}

/* A product with the same weight: quantised, in float and packed for the call, and packed
 * before. */
TEST(a_weight_says_that_it_is_multiplied_in_bf16) {
  CHECK(!tape_init(&tape, NULL));
  Tensor *w, *plain, *kept, *out[4], *x[4];
  QuantWeight *m = make(QUANT_BF16, &w, &plain);
  w->compute = plain->compute = COMPUTE_BF16;
  CHECK(!tape_tensor(&tape, 2, plain->dim, &kept));
  CHECK(!weight_ready(&tape.cx, plain, false, kept) && kept->prepared && !plain->prepared);
  kept->needs_grad = true;
  Tensor *full = leaf(N, K), *weights[4] = {w, plain, kept, full};
  memcpy(full->data, plain->data, plain->n * sizeof(real));
  for (int i = 0; i < 4; i++) {
    x[i] = leaf(M, K);
    CHECK(!tape_apply(&tape, OP_linear, (Tensor *[]){x[i], weights[i], NULL}, NULL, &out[i]));
    CHECK(!tape_backward_from(&tape, out[i], out[0]->data));
  }
  for (int i = 1; i < 3; i++) {
    CHECK(memcmp(out[0]->data, out[i]->data, out[0]->n * sizeof(real)) == 0);
    CHECK(memcmp(x[0]->grad, x[i]->grad, x[0]->n * sizeof(real)) == 0);
  }
  CHECK(memcmp(out[0]->data, out[3]->data, out[0]->n * sizeof(real)) != 0);
  CHECK(memcmp(x[0]->grad, x[3]->grad, x[0]->n * sizeof(real)) != 0);
  double worst = 0, largest = 0;
  for (size_t i = 0; i < full->n; i++) {
    worst = fmax(worst, fabs((double)kept->grad[i] - (double)full->grad[i]));
    largest = fmax(largest, fabs((double)full->grad[i]));
  }
  CHECK(worst > 0 && worst < 1e-2 * largest);
  tape_free(&tape);
  quant_free(m);
}
