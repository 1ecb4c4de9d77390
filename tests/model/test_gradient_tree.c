/* A step's gradient is the sum of a binary tree over its groups, written down here once more. */
#include "model/gradient_tree.h"

#include "base/mem.h"
#include "base/rng.h"
#include "model/model_struct.h"
#include "model/modeltest.h"

enum { N = 37, MORE = 5, MOST = 70 };

/* A parameter and a tensor beside the model, which no pass of an odd group reaches. */
typedef struct Bag {
  Model m;
  Param param;
  real data[N], grad[N], more[MORE], more_grad[MORE];
  Tensor head;
  Ctx cx;
} Bag;

static void bag_init(Bag *b) {
  const int n = N, more = MORE;
  *b = (Bag){.m = {.nparams = 1, .param = &b->param, .trainable = true}};
  b->param.trainable = true;
  b->param.t = tensor_view(b->data, 1, &n);
  b->param.t.grad = b->grad;
  b->head = tensor_view(b->more, 1, &more);
  b->head.grad = b->more_grad;
}

static bool absent(int group) { return group % 7 == 3 || group == 8 || group == 9; }

static real of_group(int group, int i) {
  const RngKey key = {.seed = 5, .prompt = (uint32_t)group};
  return (real)(rng_uniform(&key, (uint64_t)i) - 0.5);
}

static void pass(Tensor *t, int group, int first) {
  for (size_t i = 0; i < t->n; i++) {
    const real g = of_group(group, first + (int)i);
    t->grad[i] = t->grad_live ? t->grad[i] + g : g;
  }
  t->grad_live = true;
}

/* The sum of a number over leaves lo .. hi - 1, of `block` groups each; false: it has none. */
static bool reference(int groups, int block, int lo, int hi, int i, real *sum) {
  bool any = false;
  if (hi - lo == 1) {
    for (int g = lo * block; g < (lo + 1) * block && g < groups; g++) {
      if (absent(g)) continue;
      const real x = i >= N && g % 2 ? 0 : of_group(g, i);
      *sum = any ? *sum + x : x;
      any = true;
    }
    return any;
  }
  int half = 1;
  real right = 0;
  while (2 * half < hi - lo) half *= 2;
  any = reference(groups, block, lo, lo + half, i, sum);
  if (!reference(groups, block, lo + half, hi, i, &right)) return any;
  *sum = any ? *sum + right : right;
  return true;
}

static void step(Bag *b, GradientTree *t, int groups) {
  for (size_t i = 0; i < N; i++) b->grad[i] = 1e9f; /* of the step before */
  OK(gradient_tree_begin(t, groups, false));
  for (int g = 0; g < groups; g++) {
    if (absent(g)) continue;
    gradient_tree_enter(t, &b->cx, g);
    pass(&b->param.t, g, 0);
    if (g % 2 == 0) pass(&b->head, g, N);
  }
  OK(gradient_tree_end(t, &b->cx));
}

static void check_sums(int blocks) {
  Bag b;
  GradientTree *t;
  bag_init(&b);
  OK(gradient_tree_new(&t, &b.m, &b.head, 1, blocks));
  for (int groups = 1; groups <= MOST; groups++) {
    const int block = gradient_tree_block(N + MORE, groups, blocks);
    step(&b, t, groups);
    for (int i = 0; i < N + MORE; i++) {
      real want = 0;
      reference(groups, block, 0, (groups + block - 1) / block, i, &want);
      CHECK((i < N ? b.grad[i] : b.more_grad[i - N]) == want);
    }
  }
  gradient_tree_free(t);
}

TEST(the_sum_is_that_of_a_binary_tree) {
  check_sums(0);
  check_sums(5);
  check_sums(1);
}

TEST(a_step_without_passes_has_a_gradient_of_zeros) {
  Bag b;
  GradientTree *t;
  bag_init(&b);
  OK(gradient_tree_new(&t, &b.m, NULL, 6, 0));
  step(&b, t, 6);
  OK(gradient_tree_begin(t, 6, false));
  OK(gradient_tree_end(t, &b.cx));
  for (int i = 0; i < N; i++) CHECK(b.grad[i] == 0);
  CHECK(!b.param.t.grad_live);
  gradient_tree_free(t);
}

TEST(sums_that_wait_have_bounded_memory) {
  const uint64_t mib = ((uint64_t)1 << 20) / sizeof(real); /* numbers */
  CHECK(gradient_tree_bytes(mib, 1, 0) == 0);
  CHECK(gradient_tree_bytes(mib, 2, 0) == (size_t)1 << 20);
  CHECK(gradient_tree_bytes(mib, 3, 0) == (size_t)1 << 20);
  CHECK(gradient_tree_bytes(mib, 64, 0) == (size_t)6 << 20);
  CHECK(gradient_tree_block(100 * mib, 63, 0) == 1);
  CHECK(gradient_tree_block(100 * mib, 64, 0) == 2);
  CHECK(gradient_tree_bytes(100 * mib, 64, 0) == (size_t)500 << 20);
  CHECK(gradient_tree_bytes(512 * mib, 64, 0) == (size_t)512 << 20);
  CHECK(gradient_tree_bytes(513 * mib, 64, 0) == 0);
  CHECK(gradient_tree_block(513 * mib, 64, 0) == 64);
  CHECK(gradient_tree_bytes(513 * mib, 64, 4) == (size_t)1026 << 20);
  CHECK(gradient_tree_block(513 * mib, 64, 7) == 10);
  CHECK(gradient_tree_bytes(mib, 64, 1) == 0);
}

TEST(a_steady_step_takes_no_memory) {
  Bag b;
  GradientTree *t;
  bag_init(&b);
  OK(gradient_tree_new(&t, &b.m, &b.head, MOST, 0));
  const uint64_t before = mem_allocations();
  for (int groups = 1; groups <= MOST; groups++) step(&b, t, groups);
  CHECK(mem_allocations() == before);
  gradient_tree_free(t);
}
