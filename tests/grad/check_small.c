/* check_small.c - the element by element operations: broadcasting, and values away from kinks. */
#include "check.h"

/* Two inputs of one range each, in every way shapes can meet. */
static void broadcasts(OpId op, double low, double high, double low2, double high2) {
  static const int shapes[][2][5] = {
      {{3, 4, -1}, {3, 4, -1}},
      {{3, 4, -1}, {4, -1}},
      {{4, -1}, {3, 4, -1}},
      {{3, 4, -1}, {3, 1, -1}},
      {{3, 1, -1}, {1, 4, -1}},
      {{-1}, {2, 3, -1}},
      {{2, 3, -1}, {-1}},
      {{2, 1, 3, -1}, {4, 1, -1}},
      {{-1}, {-1}},
      {{2, 3, 1, 2, -1}, {3, 4, 1, -1}},
      {{1, -1}, {5, -1}},
      {{1, 1, -1}, {1, -1}},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    Tensor *in[] = {check_leaf(low, high, shapes[i][0]), check_leaf(low2, high2, shapes[i][1])};
    CHECK_GRADIENTS(op, in, NULL);
  }
  Tensor *a = LEAF(low, high, 5), *b = LEAF(low2, high2, 5); /* one side constant */
  CHECK_GRADIENTS(op, ((Tensor *[]){check_constant(a), b}), NULL);
  CHECK_GRADIENTS(op, ((Tensor *[]){LEAF(low, high, 5), check_constant(b)}), NULL);
}

void check_add(void) { broadcasts(OP_add, -2, 2, -2, 2); }
void check_sub(void) { broadcasts(OP_sub, -2, 2, -2, 2); }
void check_mul(void) { broadcasts(OP_mul, -2, 2, -2, 2); }
void check_div(void) { broadcasts(OP_div, -2, 2, .5, 2); }
void check_pow(void) {
  broadcasts(OP_pow, .5, 2, -2, 2);
  Tensor *base = LEAF(-2, 2, 6), *two = check_constant(LEAF(2, 2, 1)); /* negative bases */
  CHECK_GRADIENTS(OP_pow, ((Tensor *[]){base, two}), NULL);
}
void check_minimum(void) { broadcasts(OP_minimum, -2, 2, -2, 2); }
void check_maximum(void) { broadcasts(OP_maximum, -2, 2, -2, 2); }

/* Two ranges, to stay clear of a kink between them. */
static void unary(OpId op, double low, double high, double low2, double high2, const Attr *attr) {
  CHECK_GRADIENTS(op, (Tensor *[]){LEAF(low, high, 3, 5)}, attr);
  CHECK_GRADIENTS(op, (Tensor *[]){LEAF(low2, high2, 7)}, attr);
  CHECK_GRADIENTS(op, (Tensor *[]){check_leaf(low, high, (const int[]){-1})}, attr);
}

void check_neg(void) { unary(OP_neg, -2, 2, -2, 2, NULL); }
void check_exp(void) { unary(OP_exp, -2, 2, -2, 2, NULL); }
void check_log(void) { unary(OP_log, .5, 3, .1, .2, NULL); }
void check_sqrt(void) { unary(OP_sqrt, .5, 3, .1, .2, NULL); }
void check_abs(void) { unary(OP_abs, -2, -.1, .1, 2, NULL); }
void check_relu(void) { unary(OP_relu, -2, -.1, .1, 2, NULL); }
void check_gelu(void) { unary(OP_gelu, -3, 3, -.1, .1, NULL); }
void check_silu(void) { unary(OP_silu, -3, 3, -30, 30, NULL); }
void check_sigmoid(void) { unary(OP_sigmoid, -3, 3, -30, 30, NULL); }
void check_tanh(void) { unary(OP_tanh, -3, 3, -.1, .1, NULL); }
void check_clamp(void) {
  const Attr attr = {.f = {-.5, .7}};
  unary(OP_clamp, -.4, .6, .8, 2, &attr);
  unary(OP_clamp, -2, -.6, -.4, .6, &attr);
}

/* No gradient: the result says so, and the values are right. */
static void step_function(OpId op, Tensor *const in[], const double *want) {
  Tensor *out = NULL;
  tape_reset(check_tape());
  check_tape()->off = false;
  CHECK(tape_apply(check_tape(), op, in, NULL, &out) == GRPO_OK);
  CHECK(!out->needs_grad && check_tape()->n == 0);
  for (size_t i = 0; i < out->n; i++) CHECK_NEAR(out->data[i], want[i], 0);
}

static void comparison(OpId op, double below, double same, double above) {
  Tensor *x = LEAF(0, 0, 3), *y = LEAF(2, 2, 1);
  for (int i = 0; i < 3; i++) x->data[i] = i + 1;
  step_function(op, (Tensor *[]){x, y}, (double[]){below, same, above});
}

void check_gt(void) { comparison(OP_gt, 0, 0, 1); }
void check_ge(void) { comparison(OP_ge, 0, 1, 1); }
void check_lt(void) { comparison(OP_lt, 1, 0, 0); }
void check_le(void) { comparison(OP_le, 1, 1, 0); }
void check_eq(void) { comparison(OP_eq, 0, 1, 0); }
void check_sign(void) {
  Tensor *x = LEAF(0, 0, 3);
  x->data[0] = -3;
  x->data[2] = .1;
  step_function(OP_sign, &x, (double[]){-1, 0, 1});
}

void check_where(void) {
  for (int i = 0; i < 3; i++) {
    Tensor *cond = check_constant(i == 0   ? LEAF(0, 1, 3, 4)
                                  : i == 1 ? LEAF(0, 1, 4)
                                           : LEAF(0, 1, 3, 1));
    for (size_t j = 0; j < cond->n; j++) cond->data[j] = cond->data[j] > .5;
    Tensor *a = LEAF(-2, 2, 3, 4), *b = i == 2 ? LEAF(-2, 2, 1) : LEAF(-2, 2, 3, 1);
    CHECK_GRADIENTS(OP_where, ((Tensor *[]){cond, a, b}), NULL);
  }
}
