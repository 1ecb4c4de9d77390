/* check_value.c - the value head, and its clipped loss on both sides of every bound. */
#include "check.h"

void check_value_head(void) {
  static const int32_t rows[] = {1, 1, 0, 3, 1, 4, 4};
  const ValueHeadAttr attr = {7, rows};
  Tensor *hidden = LEAF(-1, 1, 5, 4), *w = LEAF(-1, 1, 1, 4);
  CHECK_GRADIENTS(OP_value_head, ((Tensor *[]){hidden, w}), (&(Attr){.p = &attr}));
  CHECK_GRADIENTS(OP_value_head, ((Tensor *[]){hidden, check_constant(w)}), (&(Attr){.p = &attr}));
  CHECK_GRADIENTS(OP_value_head, ((Tensor *[]){check_constant(hidden), LEAF(-1, 1, 1, 4)}),
                  (&(Attr){.p = &attr}));
}

void check_value_loss(void) {
  enum { N = 40 };
  real *a = check_alloc(3 * N * sizeof *a);
  double clipped = 0;
  for (int i = 0; i < 2 * N; i++) a[i] = (real)check_random(-1, 1);
  for (int i = 0; i < N; i++) a[2 * N + i] = i % 5 != 2;
  ValueLossAttr attr = {.old = a, .returns = a + N, .clip = 0.3, .count = 32, .clipped = &clipped};
  CHECK_GRADIENTS(OP_value_loss, ((Tensor *[]){LEAF(-1, 1, N)}), (&(Attr){.p = &attr}));
  CHECK(clipped > 0);
  attr.mask = a + 2 * N;
  attr.clip = 0.8;
  CHECK_GRADIENTS(OP_value_loss, ((Tensor *[]){LEAF(-1, 1, N)}), (&(Attr){.p = &attr}));
}
