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

static TreeSteps alone(int fewest, int groups, int blocks) {
  return (TreeSteps){.fewest = fewest, .groups = groups, .blocks = blocks, .ranks = 1};
}

static void check_sums(int blocks) {
  Bag b;
  GradientTree *t;
  const TreeSteps steps = alone(1, 1, blocks); /* it grows with its steps */
  bag_init(&b);
  OK(gradient_tree_new(&t, &b.m, &b.head, &steps));
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
  OK(gradient_tree_new(&t, &b.m, NULL, &(TreeSteps){.fewest = 6, .groups = 6, .ranks = 1}));
  step(&b, t, 6);
  OK(gradient_tree_begin(t, 6, false));
  OK(gradient_tree_end(t, &b.cx));
  for (int i = 0; i < N; i++) CHECK(b.grad[i] == 0);
  CHECK(!b.param.t.grad_live);
  gradient_tree_free(t);
}

static size_t bytes_alone(uint64_t numbers, int groups, int blocks) {
  const TreeSteps steps = alone(groups, groups, blocks);
  return gradient_tree_bytes(numbers, &steps);
}

TEST(sums_that_wait_have_bounded_memory) {
  const uint64_t mib = ((uint64_t)1 << 20) / sizeof(real); /* numbers */
  CHECK(bytes_alone(mib, 1, 0) == 0);
  CHECK(bytes_alone(mib, 2, 0) == (size_t)1 << 20);
  CHECK(bytes_alone(mib, 3, 0) == (size_t)1 << 20);
  CHECK(bytes_alone(mib, 64, 0) == (size_t)6 << 20);
  CHECK(gradient_tree_block(100 * mib, 63, 0) == 1);
  CHECK(gradient_tree_block(100 * mib, 64, 0) == 2);
  CHECK(bytes_alone(100 * mib, 64, 0) == (size_t)500 << 20);
  CHECK(bytes_alone(512 * mib, 64, 0) == (size_t)512 << 20);
  CHECK(bytes_alone(513 * mib, 64, 0) == 0);
  CHECK(gradient_tree_block(513 * mib, 64, 0) == 64);
  CHECK(bytes_alone(513 * mib, 64, 4) == (size_t)1026 << 20);
  CHECK(gradient_tree_block(513 * mib, 64, 7) == 10);
  CHECK(bytes_alone(mib, 64, 1) == 0);
}

/* The most sums that wait at once on this rank in a step. */
static int most_of_rank(Bag *b, GradientTree *t, int groups, int blocks, int rank) {
  const int block = gradient_tree_block(N, groups, blocks);
  int first, end, most = 1; /* the total of all ranks is put into one */
  gradient_tree_range(t, groups, rank, &first, &end);
  OK(gradient_tree_begin(t, groups, true));
  for (int g = first; g < end + block && first < end; g++) { /* a leaf more, to complete its last */
    gradient_tree_enter(t, &b->cx, g);
    if (gradient_tree_waiting(t) > most) most = gradient_tree_waiting(t);
    if (g < end && g % 5 != 2) pass(&b->param.t, g, 0);
  }
  return most;
}

static int random_below(uint64_t at, int n) {
  const RngKey key = {.seed = 9};
  return (int)(rng_uniform(&key, at) * n);
}

TEST(a_rank_has_memory_for_the_sums_that_wait_and_no_more) {
  Bag b;
  bag_init(&b);
  for (uint64_t i = 0; i < 400; i++) {
    const int ranks = 2 + random_below(4 * i, 12), groups = 2 + random_below(4 * i + 1, 200);
    const int blocks = i % 3 ? 0 : 2 + random_below(4 * i + 2, 40);
    const TreeSteps steps = {.fewest = groups,
                             .groups = groups,
                             .blocks = blocks,
                             .rank = random_below(4 * i + 3, ranks),
                             .ranks = ranks};
    GradientTree *t;
    OK(gradient_tree_new(&t, &b.m, NULL, &steps));
    const uint64_t before = mem_allocations();
    const int most = most_of_rank(&b, t, groups, blocks, steps.rank);
    CHECK(gradient_tree_sums(N, &steps) == most);
    CHECK(gradient_tree_bytes(N, &steps) == (size_t)most * N * sizeof(real));
    CHECK(mem_allocations() == before);
    gradient_tree_free(t);
  }
}

TEST(a_rank_has_memory_for_every_number_of_groups) {
  const TreeSteps all = {.fewest = 1, .groups = 90, .rank = 3, .ranks = 5};
  Bag b;
  GradientTree *t;
  int most = 0;
  bag_init(&b);
  OK(gradient_tree_new(&t, &b.m, NULL, &all));
  const uint64_t before = mem_allocations();
  for (int groups = 2; groups <= all.groups; groups++) {
    const int n = most_of_rank(&b, t, groups, 0, all.rank);
    if (n > most) most = n;
  }
  CHECK(gradient_tree_sums(N, &all) == most);
  CHECK(mem_allocations() == before);
  gradient_tree_free(t);
}

TEST(a_rank_of_a_power_of_two_needs_the_height_of_its_subtree) {
  TreeSteps s = {.fewest = 1024, .groups = 1024};
  for (int k = 1; k <= 10; k++) {
    s.ranks = 1 << k;
    s.rank = random_below(1, s.ranks);
    CHECK(gradient_tree_sums(N, &s) == (k == 10 ? 1 : 10 - k));
  }
}

TEST(a_steady_step_takes_no_memory) {
  Bag b;
  GradientTree *t;
  bag_init(&b);
  OK(gradient_tree_new(&t, &b.m, &b.head, &(TreeSteps){.fewest = 1, .groups = MOST, .ranks = 1}));
  const uint64_t before = mem_allocations();
  for (int groups = 1; groups <= MOST; groups++) step(&b, t, groups);
  CHECK(mem_allocations() == before);
  gradient_tree_free(t);
}
