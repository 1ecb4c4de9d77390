/* test_tape.c - what every operation can rely on: recording, errors, memory, repeated backward. */
#include <stdlib.h>

#include "base/mem.h"
#include "grad/attrs.h"
#include "grad/tape.h"
#include "status.h"

static Tape tape;

static Tensor *filled(int rows, int columns, real first) {
  Tensor *t = NULL;
  CHECK(tape_tensor(&tape, 2, (const int[]){rows, columns}, &t) == GRPO_OK);
  for (size_t i = 0; i < t->n; i++) t->data[i] = first + (real)(i * 5 % 7) * (real).25;
  return t;
}

static Tensor *leaf(int rows, int columns, real first) {
  Tensor *t = filled(rows, columns, first);
  t->needs_grad = true;
  return t;
}

static Tensor *apply(OpId op, Tensor *a, Tensor *b, const Attr *attr) {
  Tensor *out = NULL;
  if (tape_apply(&tape, op, (Tensor *[]){a, b, NULL}, attr, &out) != GRPO_OK)
    test_fail(__FILE__, __LINE__, "%s", err_message());
  return out;
}

static const Attr everything = {.i = {-1}};

TEST(a_node_is_recorded_only_when_something_needs_a_gradient) {
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  Tensor *x = leaf(2, 3, 0), *c = filled(2, 3, 1);
  CHECK(!apply(OP_mul, c, c, NULL)->needs_grad && tape.n == 0);
  CHECK(apply(OP_mul, x, c, NULL)->needs_grad && tape.n == 1);
  CHECK(!apply(OP_gt, x, c, NULL)->needs_grad && tape.n == 1);
  tape.off = true;
  CHECK(!apply(OP_mul, x, c, NULL)->needs_grad && tape.n == 1);
  tape_free(&tape);
}

TEST(a_tensor_used_twice_gets_both_gradients) {
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  Tensor *x = leaf(1, 1, 3);
  Tensor *square = apply(OP_mul, x, x, NULL), *y = apply(OP_add, square, x, NULL);
  CHECK(tape_backward(&tape, y) == GRPO_OK); /* x^2 + x */
  CHECK_NEAR(x->grad[0], 7, 0);
  Tensor *gate = leaf(1, 2, 1), *g = apply(OP_swiglu, gate, gate, NULL);
  CHECK(tape_backward_from(&tape, g, (real[]){1, 1}) == GRPO_OK);
  const double s = 1 / (1 + exp(-1.)); /* d x^2 sigmoid(x) */
  CHECK_NEAR(gate->grad[0], 2 * s + s * (1 - s), 1e-6);
  tape_free(&tape);
}

/* add moves its gradient instead of copying it: to a result, never to a parameter's own buffer. */
TEST(a_gradient_that_is_moved_stays_with_its_owner) {
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  real own[] = {100, 200};
  Tensor *p = leaf(1, 2, 1), *x = leaf(1, 2, 2);
  p->grad = own;
  p->grad_live = true;
  Tensor *e = apply(OP_neg, x, NULL, NULL);
  Tensor *twice = apply(OP_add, e, e, NULL), *y = apply(OP_add, p, twice, NULL);
  Tensor *z = apply(OP_add, apply(OP_add, e, y, NULL), apply(OP_mul, e, p, NULL), NULL);
  for (int i = 1; i < 3; i++) { /* z = 3 e + p + e p, e = -x */
    CHECK(tape_backward_from(&tape, z, (real[]){1, 10}) == GRPO_OK);
    for (int k = 0; k < 2; k++) {
      const double by = k ? 10 : 1;
      CHECK_NEAR(own[k], (k ? 200 : 100) + i * by * (1 - (double)x->data[k]), 0);
      CHECK_NEAR(x->grad[k], -i * by * (3 + (double)p->data[k]), 0);
    }
    CHECK(p->grad == own);
  }
  tape_free(&tape);
}

TEST(backward_from_several_results_adds_up) {
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  Tensor *x = leaf(1, 2, 1), *e = apply(OP_exp, x, NULL, NULL);
  Tensor *a = apply(OP_mul, e, e, NULL), *b = apply(OP_neg, e, NULL, NULL);
  CHECK(tape_backward_from(&tape, a, (real[]){1, 0}) == GRPO_OK);
  CHECK_NEAR(x->grad[0], 2 * exp(2), 1e-5);
  CHECK(tape_backward_from(&tape, b, (real[]){1, 1}) == GRPO_OK); /* not a's part again */
  CHECK_NEAR(x->grad[0], 2 * exp(2) - exp(1), 1e-5);
  CHECK_NEAR(x->grad[1], -exp((double)x->data[1]), 1e-5);
  tape_free(&tape);
}

TEST(a_parameter_brings_its_own_gradient_and_keeps_it_over_resets) {
  real data[2] = {1, 2}, grad[2] = {0};
  Tensor w = tensor_view(data, 1, (const int[]){2});
  w.grad = grad;
  w.needs_grad = true;
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  for (int step = 0; step < 3; step++) {
    tape_reset(&tape);
    CHECK(tape_backward(&tape, apply(OP_sum, apply(OP_mul, &w, &w, NULL), NULL, &everything)) ==
          GRPO_OK);
  }
  CHECK_NEAR(grad[0], 6, 0);
  CHECK_NEAR(grad[1], 12, 0);
  CHECK(w.grad == grad && w.grad_live);
  tape_free(&tape);
}

TEST(backward_wants_one_number_that_depends_on_something) {
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  Tensor *x = leaf(2, 2, 0), *c = filled(1, 1, 1);
  CHECK(tape_backward(&tape, x) == GRPO_ESHAPE);
  CHECK_STR(err_message(),
            "backward: the loss must be a single number, but its shape is [2, 2]; sum() it first");
  REFUSED(tape_backward(&tape, c), GRPO_EARG, "depends on nothing");
  tape_free(&tape);
}

/* ---- errors: one line, the shapes in it, and nothing recorded ----------------- */

static void refused(OpId op, Tensor *a, Tensor *b, Tensor *c, const Attr *attr, Status status,
                    const char *message) {
  Tensor *out = NULL;
  const int before = tape.n;
  const size_t used = tape.arena.total;
  CHECK(tape_apply(&tape, op, (Tensor *[]){a, b, c}, attr, &out) == status);
  CHECK_STR(err_message(), message);
  CHECK(tape.n == before && out == NULL && tape.arena.total == used);
}

TEST(shape_errors_say_what_and_where_and_record_nothing) {
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  Tensor *a = leaf(2, 3, 0), *b = leaf(2, 2, 0), *v = leaf(1, 3, 0);
  refused(OP_add, a, b, NULL, NULL, GRPO_ESHAPE,
          "add: shapes [2, 3] and [2, 2] cannot be broadcast together");
  refused(OP_add, a, NULL, NULL, NULL, GRPO_EARG, "add: input 2 is missing");
  refused(OP_exp, NULL, NULL, NULL, NULL, GRPO_EARG, "exp: input 1 is missing");
  refused(OP_matmul, a, b, NULL, NULL, GRPO_ESHAPE,
          "matmul: shapes [2, 3] and [2, 2] do not match; want [m, k] and [k, n]");
  refused(OP_linear, a, b, NULL, NULL, GRPO_ESHAPE,
          "linear: x has shape [2, 3] but the weight takes 2 inputs");
  refused(OP_linear, b, b, v, NULL, GRPO_ESHAPE, "linear: the bias has shape [1, 3], want [2]");
  refused(OP_rmsnorm, a, b, NULL, NULL, GRPO_ESHAPE,
          "rmsnorm: x has shape [2, 3] but w has [2, 2]");
  refused(OP_sum, a, NULL, NULL, &(Attr){.i = {2}}, GRPO_ESHAPE,
          "sum: axis 3 of a tensor of shape [2, 3]: it has 2 dimensions");
  refused(OP_reshape, a, NULL, NULL, &(Attr){.i = {1, 5}}, GRPO_ESHAPE,
          "reshape: the 6 elements of shape [2, 3] do not fill the new shape");
  refused(OP_narrow, a, NULL, NULL, &(Attr){.i = {1, 2, 2}}, GRPO_ESHAPE,
          "narrow: elements 3 .. 4 of axis 2, but shape [2, 3] has only 3");
  refused(OP_clamp, a, NULL, NULL, &(Attr){.f = {1, 0}}, GRPO_EARG,
          "clamp: the lower bound 1 is above the upper bound 0");
  refused(OP_token_logp, a, NULL, NULL, NULL, GRPO_EARG, "token_logp: attributes are missing");
  const int32_t ids[] = {0, 7};
  const TokenLogpAttr token = {ids, 1};
  refused(OP_token_logp, a, NULL, NULL, &(Attr){.p = &token}, GRPO_EARG,
          "token_logp: target 1 is token 7, outside the vocabulary of 3");
  const EmbeddingAttr embedding = {.tokens = 2, .ids = ids};
  refused(OP_embedding, a, NULL, NULL, &(Attr){.p = &embedding}, GRPO_EARG,
          "embedding: token 7 at token 1 is outside the table's 0 .. 1");
  tape_free(&tape);
}

TEST(empty_tensors_are_tensors) {
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  Tensor *x = leaf(0, 3, 0), *y = apply(OP_exp, x, NULL, NULL);
  CHECK(y->n == 0);
  Tensor *s = apply(OP_sum, apply(OP_add, y, filled(1, 3, 0), NULL), NULL, &everything);
  CHECK(s->data[0] == 0);
  CHECK(tape_backward(&tape, s) == GRPO_OK);
  tape_free(&tape);
}

/* ---- same bits ---------------------------------------------------------------- */

enum { TOKENS = 70, WIDTH = 96, WORDS = 130, OUTPUTS = 300 };

/* A head over repeated rows of a normed, projected embedding; all weights' gradients in `grads`. */
static size_t head_step(Pool *pool, int outputs, real *result, real *grads) {
  static int32_t ids[TOKENS], rows[OUTPUTS], targets[OUTPUTS];
  for (int i = 0; i < TOKENS; i++) ids[i] = i * 37 % WORDS;
  for (int i = 0; i < OUTPUTS; i++) rows[i] = i * 11 % TOKENS, targets[i] = i * 7 % WORDS;
  const EmbeddingAttr embedding = {.tokens = TOKENS, .ids = ids};
  const LogheadAttr head = {.n = outputs, .rows = rows, .targets = targets, .inv_temp = 1};
  CHECK(tape_init(&tape, pool) == GRPO_OK);
  Tensor *wte = leaf(WORDS, WIDTH, -1), *w = leaf(WIDTH, WIDTH, -1), *norm = NULL;
  CHECK(tape_tensor(&tape, 1, (const int[]){WIDTH}, &norm) == GRPO_OK);
  for (int i = 0; i < WIDTH; i++) norm->data[i] = (real)(1 + i % 3);
  norm->needs_grad = true;
  Tensor *x = apply(OP_embedding, wte, NULL, &(Attr){.p = &embedding});
  x = apply(OP_rmsnorm, apply(OP_add, x, apply(OP_linear, x, w, NULL), NULL), norm,
            &(Attr){.f = {1e-6}});
  Tensor *logp = apply(OP_loghead, x, wte, &(Attr){.p = &head}), *all[] = {wte, w, norm};
  memcpy(result, logp->data, logp->n * sizeof *result);
  CHECK(tape_backward(&tape, apply(OP_mean, logp, NULL, &everything)) == GRPO_OK);
  size_t n = 0;
  for (int k = 0; k < 3; n += all[k++]->n)
    memcpy(grads + n, all[k]->grad, all[k]->n * sizeof *grads);
  tape_free(&tape);
  return n;
}

TEST(threads_never_change_a_bit_and_rows_do_not_depend_on_their_company) {
  enum { WEIGHTS = WORDS * WIDTH + WIDTH * WIDTH + WIDTH };
  static real one[WEIGHTS], two[WEIGHTS], out1[2 * OUTPUTS], out2[2 * OUTPUTS], few[2 * OUTPUTS];
  Pool *pool = NULL;
  CHECK(pool_new(&pool, 3) == GRPO_OK);
  CHECK(head_step(NULL, OUTPUTS, out1, one) == WEIGHTS);
  CHECK(head_step(pool, OUTPUTS, out2, two) == WEIGHTS);
  CHECK(memcmp(out1, out2, sizeof out1) == 0);
  CHECK(memcmp(one, two, sizeof one) == 0);
  for (int n = 1; n < 20; n += 6) {
    head_step(pool, n, few, two);
    CHECK(memcmp(few, out1, (size_t)n * sizeof *few) == 0);               /* logp */
    CHECK(memcmp(few + n, out1 + OUTPUTS, (size_t)n * sizeof *few) == 0); /* entropy */
  }
  pool_free(pool);
}

/* A gate, as layers have it, over more numbers than a piece has: the result and x's gradient. */
static void gate_step(Pool *pool, int rows, int columns, real *result, real *grad) {
  const Attr apart = {.i = {4, rows, 2, 2, columns / 2}}, swap = {.i = {1, 2}};
  const Attr flat = {.i = {2, rows, 2 * columns}}, first = {.i = {1, 0, columns}};
  const Attr second = {.i = {1, columns, columns}}, axis = {.i = {1}};
  CHECK(tape_init(&tape, pool) == GRPO_OK);
  Tensor *x = leaf(rows, 2 * columns, -1), *y = apply(OP_reshape, x, NULL, &apart);
  y = apply(OP_reshape, apply(OP_transpose, y, NULL, &swap), NULL, &flat);
  Tensor *gate = apply(OP_sigmoid, apply(OP_narrow, y, NULL, &second), NULL, NULL);
  y = apply(OP_mul, apply(OP_narrow, y, NULL, &first), gate, NULL);
  y = apply(OP_concat, y, gate, &axis);
  for (size_t i = 0; i < y->n; i++) result[i] = y->data[i];
  CHECK(tape_backward(&tape, apply(OP_mean, apply(OP_mul, y, y, NULL), NULL, &everything)) ==
        GRPO_OK);
  memcpy(grad, x->grad, x->n * sizeof *grad);
  tape_free(&tape);
}

TEST(pieces_of_elementwise_operations_are_the_same_on_any_number_of_threads) {
  enum { ROWS = 211, COLUMNS = 102, ALL = ROWS * 2 * COLUMNS };
  static real one[ALL], two[ALL], grad[ALL], other[ALL];
  Pool *pool = NULL;
  CHECK(pool_new(&pool, 3) == GRPO_OK);
  gate_step(NULL, ROWS, COLUMNS, one, grad);
  gate_step(pool, ROWS, COLUMNS, two, other);
  CHECK(memcmp(one, two, sizeof one) == 0 && memcmp(grad, other, sizeof grad) == 0);
  for (int i = 0; i < ROWS; i += 7)
    for (int c = 0; c < COLUMNS; c++) { /* halves of heads: value, gate, value, gate */
      const int at = c / (COLUMNS / 2) * COLUMNS + c % (COLUMNS / 2), from = 2 * i * COLUMNS;
      const int value = from + at, gate = value + COLUMNS / 2;
      const double x = -1 + value * 5 % 7 * .25, z = -1 + gate * 5 % 7 * .25;
      CHECK_NEAR(one[from + COLUMNS + c], 1 / (1 + exp(-z)), 1e-6);
      CHECK_NEAR(one[from + c], x / (1 + exp(-z)), 1e-6);
    }
  pool_free(pool);
}

/* ---- memory ------------------------------------------------------------------- */

/* Every kind of memory an operation asks for: results, what is kept, scratch, gradients. */
static void small_step(void) {
  static const int32_t rows[] = {0, 1, 1, 2}, targets[] = {1, 0, 3, 2}, ids[] = {0, 1, 2};
  static const PackSpan pack[] = {{0, 1, -1}, {1, 1, 0}, {2, 1, 0}};
  const AttentionAttr attention = {.shape = {2, 1, 2, (real).7, 0}, .npack = 3, .pack = pack};
  const LogheadAttr head = {.n = 4, .rows = rows, .targets = targets, .inv_temp = 1};
  const EmbeddingAttr embedding = {.tokens = 3, .ids = ids};
  const Attr eps = {.f = {1e-6}};
  tape_reset(&tape);
  Tensor *wte = leaf(4, 4, 0), *wq = leaf(4, 4, 1), *wk = leaf(2, 4, 0), *wv = leaf(2, 4, -1);
  Tensor *norm = NULL;
  CHECK(tape_tensor(&tape, 1, (const int[]){4}, &norm) == GRPO_OK);
  for (int i = 0; i < 4; i++) norm->data[i] = 1;
  Tensor *x = apply(OP_embedding, wte, NULL, &(Attr){.p = &embedding});
  Tensor *h = apply(OP_rmsnorm, x, norm, &eps);
  Tensor *q = apply(OP_linear, h, wq, NULL), *k = apply(OP_linear, h, wk, NULL);
  Tensor *v = apply(OP_linear, h, wv, NULL), *o = NULL;
  CHECK(tape_apply(&tape, OP_attention, (Tensor *[]){q, k, v}, &(Attr){.p = &attention}, &o) ==
        GRPO_OK);
  x = apply(OP_add, x, o, NULL);
  Tensor *logp = apply(OP_loghead, x, wte, &(Attr){.p = &head});
  CHECK(tape_backward(&tape, apply(OP_sum, logp, NULL, &everything)) == GRPO_OK);
}

TEST(a_steady_step_allocates_nothing) {
  uint64_t before = 0;
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  for (int step = 0; step < 6; step++) {
    if (step == 2) before = mem_allocations();
    small_step();
  }
  CHECK(mem_allocations() == before);
  tape_free(&tape);
}

TEST(what_is_kept_for_backward_is_not_kept_without_one) {
  static const int32_t ids[] = {0, 1, 2, 1};
  const LogheadAttr head = {.n = 4, .rows = ids, .targets = ids, .inv_temp = 1};
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  Tensor *h = filled(3, 4, 0), *w = filled(5, 4, 0);
  const size_t before = tape.arena.total;
  apply(OP_loghead, h, w, &(Attr){.p = &head});
  CHECK(tape.arena.total - before < 1024); /* the result and its headers; no logits */
  tape_free(&tape);
}

TEST(in_one_pass_backward_fills_in_what_forward_would_have_given) {
  static const int32_t rows[] = {0, 2, 1, 2}, targets[] = {4, 1, 0, 3};
  LogheadAttr a = {.n = 4, .rows = rows, .targets = targets, .inv_temp = (real)1.25, .softcap = 3};
  const Attr attr = {.p = &a};
  const real seed[8] = {1, -2, 0, 3, (real)0.5, 0, 1, -1};
  real want[8], dh[12];
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  Tensor *h = leaf(3, 4, 1), *w = leaf(5, 4, -1);
  Tensor *two = apply(OP_loghead, h, w, &attr);
  memcpy(want, two->data, sizeof want);
  CHECK(!tape_backward_from(&tape, two, seed));
  memcpy(dh, h->grad, sizeof dh);
  h->grad_live = w->grad_live = false;
  a.one_pass = true;
  Tensor *one = apply(OP_loghead, h, w, &attr);
  for (int i = 0; i < 8; i++) CHECK(isnan(one->data[i]));
  CHECK(!tape_backward_from(&tape, one, seed));
  CHECK(memcmp(one->data, want, sizeof want) == 0);
  CHECK(memcmp(h->grad, dh, sizeof dh) == 0);
  tape.off = true; /* no gradient will come: nothing to wait for */
  one = apply(OP_loghead, h, w, &attr);
  CHECK(memcmp(one->data, want, sizeof want) == 0);
  tape_free(&tape);
}

TEST(running_out_of_memory_is_an_error_and_leaves_the_tape_usable) {
  for (uint64_t n = 1; n < 8; n++) {
    Tensor *x, *y = NULL;
    real data[4] = {1, 2, 3, 4};
    Tensor leaf4 = tensor_view(data, 1, (const int[]){4});
    leaf4.needs_grad = true;
    x = &leaf4;
    CHECK(tape_init(&tape, NULL) == GRPO_OK);
    mem_fail_after(n);
    const Status s = tape_apply(&tape, OP_exp, &x, NULL, &y);
    mem_fail_after(0);
    CHECK(s == GRPO_OK || (s == GRPO_ENOMEM && tape.n == 0));
    CHECK(tape_apply(&tape, OP_exp, &x, NULL, &y) == GRPO_OK && y->needs_grad);
    tape_free(&tape);
  }
}

typedef Status (*Apply)(Tape *, OpId, Tensor *const[], const Attr *, Tensor **);

/* y = swiglu(g, u) w^T of several sizes; the gradients of all g, u and w into d; gives the arena's
 * peak. */
static size_t gated_products(Apply gate, real *d) {
  enum { STEPS = 4 };
  static const int rows[STEPS] = {3, 2, 5, 4};
  Tensor *in[STEPS][3], *act, *y[STEPS];
  const real seed[64] = {1, -2, 3, .5, -1, 2};
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  for (int i = 0; i < STEPS; i++) {
    for (int k = 0; k < 2; k++) in[i][k] = leaf(rows[i], 33, (real)(i - k));
    in[i][2] = leaf(6, 33, (real)i);
    CHECK(gate(&tape, OP_swiglu, in[i], NULL, &act) == GRPO_OK);
    y[i] = apply(OP_linear, act, in[i][2], NULL);
  }
  const size_t took = tape.arena.total;
  for (int i = STEPS; i-- > 0;) CHECK(tape_backward_from(&tape, y[i], seed) == GRPO_OK);
  for (int i = 0; i < STEPS; i++)
    for (int k = 0; k < 3; d += in[i][k++]->n) memcpy(d, in[i][k]->grad, in[i][k]->n * sizeof *d);
  tape_free(&tape);
  return took;
}

TEST(what_passes_is_made_again_and_gives_the_same_gradients) {
  static real kept[4096], passed[4096];
  Tensor *act, *y;
  const size_t all = gated_products(tape_apply, kept);
  CHECK(gated_products(tape_apply_transient, passed) < all);
  CHECK(!memcmp(kept, passed, sizeof kept));
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  Tensor *x = leaf(2, 3, 1), *w = leaf(4, 3, 2);
  CHECK(tape_apply_transient(&tape, OP_swiglu, (Tensor *[]){x, x}, NULL, &act) == GRPO_OK);
  REFUSED(tape_apply(&tape, OP_mul, (Tensor *[]){act, x}, NULL, &y), GRPO_EARG,
          "mul: input 1 is a transient result");
  CHECK(tape_apply(&tape, OP_linear, (Tensor *[]){x, act, NULL}, NULL, &y) == GRPO_EARG);
  tape.off = true; /* without backward there is nothing to make again */
  CHECK(tape_apply_transient(&tape, OP_swiglu, (Tensor *[]){w, w}, NULL, &act) == GRPO_OK);
  CHECK(!act->again && tape_apply(&tape, OP_mul, (Tensor *[]){act, w}, NULL, &y) == GRPO_OK);
  tape_free(&tape);
}

TEST(a_result_can_take_the_place_of_an_input) {
  Tensor *sum, *y;
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  Tensor *x = leaf(2, 3, 1), *w = leaf(3, 3, 2), *row = leaf(1, 3, 1);
  Tensor *branch = apply(OP_linear, x, w, NULL), *plain = apply(OP_add, x, branch, NULL);
  CHECK(tape_apply_over(&tape, OP_add, (Tensor *[]){x, branch}, NULL, 1, &sum) == GRPO_OK);
  CHECK(sum->data == branch->data && !memcmp(sum->data, plain->data, 6 * sizeof(real)));
  CHECK(tape_apply_over(&tape, OP_add, (Tensor *[]){x, row}, NULL, 1, &y) == GRPO_ESHAPE);
  CHECK(tape_backward_from(&tape, sum, (real[]){1, 0, 0, 0, 0, 0}) == GRPO_OK);
  CHECK(x->grad[0] == 1 + w->data[0] && w->grad[1] == x->data[1]);
  tape_free(&tape);
}

TEST(two_results_go_back_through_the_graph_at_once) {
  CHECK(tape_init(&tape, NULL) == GRPO_OK);
  const real one[] = {1, 2, 3, 4}, two[] = {.5, -1, 2, 0};
  real apart[4];
  Tensor *x = leaf(2, 2, 1);
  Tensor *trunk = apply(OP_mul, x, x, NULL);
  Tensor *y = apply(OP_mul, trunk, x, NULL), *z = apply(OP_add, trunk, trunk, NULL);
  CHECK(tape_backward_from(&tape, y, one) == GRPO_OK);
  CHECK(tape_backward_from(&tape, z, two) == GRPO_OK);
  memcpy(apart, x->grad, sizeof apart);
  memset(x->grad, 0, sizeof apart);
  CHECK(tape_seed(&tape, z, two) == GRPO_OK);
  CHECK(tape_backward_from(&tape, y, one) == GRPO_OK);
  for (int i = 0; i < 4; i++) CHECK_NEAR(x->grad[i], apart[i], 1e-5);
  Tensor *c = filled(2, 2, 1);
  CHECK(tape_seed(&tape, c, one) == GRPO_EARG);
  tape_free(&tape);
}
