/* test_value.c - tensors held by reference: life, graphs, gradients. */
#include <stdlib.h>

#include "base/mem.h"
#include "grad/attrs.h"
#include "grad/value.h"
#include "status.h"

static Arena scratch;
static const Ctx cx = {.arena = &scratch};

static Value *vector(int n, const real *data, bool needs_grad) {
  Value *v = NULL;
  CHECK(value_new(&v, 1, &n) == GRPO_OK);
  if (data) memcpy(value_tensor(v)->data, data, (size_t)n * sizeof *data);
  value_tensor(v)->needs_grad = needs_grad;
  return v;
}

static Value *apply(OpId op, Value *a, Value *b, const Attr *attr) {
  Value *out = NULL;
  if (value_apply(&cx, op, (Value *[]){a, b, NULL}, attr, 0, true, &out) != GRPO_OK)
    test_fail(__FILE__, __LINE__, "%s", err_message());
  return out;
}

static Value *sum_of(Value *v) { return apply(OP_sum, v, NULL, &(Attr){.i = {-1}}); }

TEST(gradients_reach_leaves_and_add_up) {
  Value *x = vector(2, (real[]){2, 3}, true);
  for (int i = 1; i <= 2; i++) {
    Value *y = apply(OP_mul, x, x, NULL), *loss = sum_of(y);
    value_release(y); /* the graph still reaches it */
    CHECK(value_backward(&cx, loss) == GRPO_OK);
    CHECK_NEAR(value_tensor(x)->grad[0], 4 * i, 0);
    CHECK_NEAR(value_tensor(x)->grad[1], 6 * i, 0);
    value_release(loss);
  }
  value_release(x);
  arena_free(&scratch);
}

TEST(a_graph_runs_once) {
  Value *x = vector(1, (real[]){2}, true), *y = apply(OP_exp, x, NULL, NULL);
  CHECK(value_backward(&cx, y) == GRPO_OK);
  REFUSED(value_backward(&cx, y), GRPO_EARG, "already used");
  Value *z = NULL;
  REFUSED(value_apply(&cx, OP_neg, &y, NULL, 0, true, &z), GRPO_EARG, "detach");
  CHECK(value_apply(&cx, OP_neg, &y, NULL, 0, false, &z) ==
        GRPO_OK); /* its numbers are still there */
  CHECK_NEAR(value_tensor(z)->data[0], -exp(2), 1e-5);
  value_release(z);
  value_release(y);
  value_release(x);
  arena_free(&scratch);
}

TEST(a_diamond_is_walked_in_order) {
  Value *x = vector(1, (real[]){.5f}, true);
  Value *a = apply(OP_exp, x, NULL, NULL), *b = apply(OP_mul, a, x, NULL);
  Value *c = apply(OP_mul, a, b, NULL), *d = apply(OP_add, c, a, NULL);
  CHECK(value_backward(&cx, d) == GRPO_OK); /* x e^2x + e^x */
  CHECK_NEAR(value_tensor(x)->grad[0], exp(1) + 2 * .5 * exp(1) + exp(.5), 1e-5);
  CHECK(value_tensor(a)->grad == NULL); /* of intermediate results nothing stays */
  Value *all[] = {x, a, b, c, d};
  for (int i = 0; i < 5; i++) value_release(all[i]);
  arena_free(&scratch);
}

TEST(backward_wants_a_number_with_a_history) {
  Value *x = vector(2, NULL, true), *c = vector(1, NULL, false);
  CHECK(value_backward(&cx, x) == GRPO_ESHAPE);
  CHECK(value_backward(&cx, c) == GRPO_EARG);
  value_release(x);
  value_release(c);
}

TEST(a_long_graph_neither_recurses_nor_leaks) {
  const size_t live = mem_live_bytes();
  for (int round = 0; round < 2; round++) {
    Value *x = vector(1, (real[]){1}, true), *y = value_retain(x);
    for (int i = 0; i < 100000; i++) {
      Value *next = apply(OP_neg, y, NULL, NULL);
      value_release(y);
      y = next;
    }
    if (round == 0) {
      CHECK(value_backward(&cx, y) == GRPO_OK);
      CHECK_NEAR(value_tensor(x)->grad[0], 1, 0);
    }
    value_release(y); /* in round 1 with the whole graph behind it */
    value_release(x);
  }
  arena_free(&scratch);
  CHECK(mem_live_bytes() == live);
}

TEST(a_wrapped_parameter_collects_into_its_owner) {
  real data[2] = {1, 2}, grad[2];
  Tensor w = tensor_view(data, 1, (const int[]){2});
  Value *v = NULL;
  w.grad = grad;
  w.needs_grad = true;
  CHECK(value_wrap(&v, &w) == GRPO_OK);
  Value *loss = sum_of(v);
  CHECK(value_backward(&cx, loss) == GRPO_OK);
  CHECK(w.grad_live && grad[0] == 1 && grad[1] == 1);
  CHECK(value_bytes(v) < 1000);
  value_release(loss);
  value_release(v);
  CHECK(w.grad == grad && data[1] == 2);
  arena_free(&scratch);
}

typedef struct Probe {
  double seen;
  int freed;
} Probe;
static Status take_gradient(void *user, const real *dout) {
  ((Probe *)user)->seen += (double)dout[0] + 10 * (double)dout[1];
  return GRPO_OK;
}
static void count_free(void *user) { ((Probe *)user)->freed++; }

TEST(a_custom_value_hands_its_gradient_on_and_is_freed_once) {
  for (int run = 0; run < 2; run++) {
    Probe probe = {0};
    Value *v = NULL;
    const int n = 2;
    CHECK(value_custom(&v, 1, &n, (real[]){3, 4}, take_gradient, &probe, count_free) == GRPO_OK);
    Value *square = apply(OP_mul, v, v, NULL), *loss = sum_of(square);
    value_release(square);
    if (run == 0) {
      CHECK(value_backward(&cx, loss) == GRPO_OK);
      CHECK_NEAR(probe.seen, 6 + 10 * 8, 0);
      CHECK(probe.freed == 1);
    }
    value_release(loss);
    value_release(v);
    CHECK(probe.freed == 1);
  }
  arena_free(&scratch);
}

TEST(attributes_and_kept_memory_live_with_the_value) {
  const size_t live = mem_live_bytes();
  int32_t *ids = mem_alloc(3 * sizeof *ids);
  for (int i = 0; i < 3; i++) ids[i] = 2 - i;
  Value *x = vector(3, (real[]){1, 2, 3}, true), *y = NULL;
  {
    GatherAttr gather = {0, 3, ids};
    CHECK(value_apply(&cx, OP_gather, &x, &(Attr){.p = &gather}, sizeof gather, true, &y) ==
          GRPO_OK);
    CHECK(value_keep(y, ids) == GRPO_OK);
    gather = (GatherAttr){9, 9, NULL};
  }
  CHECK(value_tensor(y)->data[0] == 3);
  Value *w = vector(3, (real[]){1, 10, 100}, false), *p = apply(OP_mul, y, w, NULL);
  Value *loss = sum_of(p);
  CHECK(value_backward(&cx, loss) == GRPO_OK);
  CHECK_NEAR(value_tensor(x)->grad[0], 100, 0);
  CHECK_NEAR(value_tensor(x)->grad[2], 1, 0);
  Value *all[] = {x, y, w, p, loss};
  for (int i = 0; i < 5; i++) value_release(all[i]);
  arena_free(&scratch);
  CHECK(mem_live_bytes() == live);
}

TEST(running_out_of_memory_leaks_nothing) {
  const size_t live = mem_live_bytes();
  for (uint64_t n = 1; n < 24; n++) {
    Value *x = vector(3, (real[]){1, 2, 3}, true), *y = NULL, *z = NULL;
    mem_fail_after(n);
    Status s = value_apply(&cx, OP_exp, &x, NULL, 0, true, &y);
    if (s == GRPO_OK) s = value_apply(&cx, OP_quantile, &y, &(Attr){.f = {.5}}, 0, true, &z);
    if (s == GRPO_OK) s = value_backward(&cx, z);
    mem_fail_after(0);
    CHECK(s == GRPO_OK || s == GRPO_ENOMEM);
    value_release(z);
    value_release(y);
    value_release(x);
    arena_free(&scratch);
    CHECK(mem_live_bytes() == live);
  }
}
