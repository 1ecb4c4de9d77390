/* How a step is cut, and which tokens count. */
#include <stdlib.h>

#include "rl/plan.h"
#include "testing.h"

enum { MAX_NEW = 1500 };

static Batch make_batch(int prompts, int group, const int *lengths, const int *prompt_len) {
  Batch b = {0};
  CHECK(!batch_reserve(&b, prompts, prompts * group, 600, MAX_NEW, BATCH_REF));
  b.nprompts = prompts;
  b.group = group;
  for (int p = 0; p < prompts; p++) b.prompt_len[p] = prompt_len[p];
  for (int i = 0; i < prompts * group; i++) {
    b.completion[i].len = lengths[i];
    b.completion[i].finish = lengths[i] == MAX_NEW ? FINISH_LENGTH : FINISH_EOS;
    for (int t = 0; t < lengths[i]; t++)
      b.completion[i].entropy[t] = (float)((i * 31 + t * 7) % 100) / 10;
  }
  return b;
}

TEST(a_unit_is_a_group_or_a_piece_of_a_large_one) {
  const int lengths[] = {10, 20, 30, 1200, 1200, 3}, prompts[] = {5, 600};
  Batch b = make_batch(2, 3, lengths, prompts);
  Unit u[6];
  const int n = units_of_batch(&b, 0, u);
  CHECK(n == 3);
  CHECK(u[0].first == 0 && u[0].n == 3 && u[0].rows == 5 + 9 + 19 + 29 && u[0].tokens == 60);
  CHECK(u[1].first == 3 && u[1].n == 1 && u[1].rows == 600 + 1199 && u[1].token0 == 60);
  CHECK(u[2].first == 4 && u[2].n == 2 && u[2].rows == 600 + 1199 + 2 && u[2].token0 == 1260);
  CHECK(u[2].tokens == 1203);
  CHECK(units_of_batch(&b, MAX_NEW, u) == 3); /* every completion has a row for its end */
  CHECK(u[0].rows == 5 + 60 && u[1].rows == 600 + 1200 && u[2].rows == 600 + 1203);
  CHECK(unit_rows_max(3, 600, 1500) == 2099);
  CHECK(unit_rows_max(4, 100, 50) == 100 + 4 * 49);
  batch_free(&b);
}

TEST(micro_batches_hold_whole_units) {
  const Unit u[] = {{.rows = 40}, {.rows = 60}, {.rows = 10}, {.rows = 200}, {.rows = 5}};
  const int order[] = {0, 1, 2, 3, 4}, other[] = {3, 2, 1};
  MicroBatch m[5];
  CHECK(plan_cut(5, order, u, 100, m) == 4);
  CHECK(m[0].first == 0 && m[0].n == 2 && m[1].n == 1 && m[2].n == 1 && m[3].first == 4);
  CHECK(plan_cut(5, order, u, 0, m) == 5);
  CHECK(plan_cut(5, order, u, 1000, m) == 1);
  CHECK(plan_cut(3, other, u, 100, m) == 2 && m[0].n == 1 && m[1].first == 1 && m[1].n == 2);
}

TEST(masks_and_counts_are_of_the_whole_step) {
  const int lengths[] = {4, MAX_NEW, 3, 5, 2, 2}, prompts[] = {3, 3, 3};
  const double adv[] = {1, -1, 0, 0, 0.5, -0.5};
  Batch b = make_batch(3, 2, lengths, prompts);
  Arena a = {0};
  Plan p;
  const UpdateOptions o = {.advantage = adv,
                           .loss = {.mask_truncated = true, .top_entropy_quantile = 1},
                           .skip_zero_std_groups = true};
  CHECK(!plan_make(&a, &b, &o, &(PlanCut){0}, &p));
  CHECK(p.num_sequences == 6 && p.num_tokens == 4 + 2 + 2 && p.num_kept == p.num_tokens);
  CHECK(p.nunits == 3 && !p.silent[0] && p.silent[1] && !p.silent[2]);
  CHECK(p.batch[0].tokens == 4 && p.batch[1].tokens == 0);
  CHECK(a.high <= plan_bytes(6, MAX_NEW) + 4096);
  arena_free(&a);
  batch_free(&b);
}

static int less(const void *x, const void *y) {
  const float a = *(const float *)x, b = *(const float *)y;
  return a < b ? -1 : a > b;
}

TEST(the_entropy_threshold_is_the_interpolated_quantile) {
  const int lengths[] = {37, 14, 51, 9}, prompts[] = {3, 3};
  Batch b = make_batch(2, 2, lengths, prompts);
  float all[111];
  int n = 0;
  for (int i = 0; i < 4; i++)
    for (int t = 0; t < lengths[i]; t++) all[n++] = b.completion[i].entropy[t];
  qsort(all, (size_t)n, sizeof *all, less);
  for (int k = 1; k < 10; k++) {
    const double share = k / 10.0, rank = (1 - share) * (n - 1);
    const int below = (int)rank;
    const double threshold =
        all[below] + (rank - below) * ((double)all[below + 1] - (double)all[below]);
    int kept = 0;
    for (int i = 0; i < n; i++) kept += (double)all[i] >= threshold;
    Arena a = {0};
    Plan p;
    const UpdateOptions o = {.loss = {.top_entropy_quantile = share}};
    CHECK(!plan_make(&a, &b, &o, &(PlanCut){0}, &p));
    CHECK_NEAR(p.num_kept, kept, 0);
    arena_free(&a);
  }
  batch_free(&b);
}
