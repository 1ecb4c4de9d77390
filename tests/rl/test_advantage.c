/* Every case of oracles/advantages/cases.json, and what it does not cover. */
#include <stdlib.h>

#include "formats/json.h"
#include "rl/advantage.h"
#include "testing.h"

enum { MAX = 256 };

static double number_or_nan(const Json *j) {
  return json_type(j) == JSON_NULL ? NAN : json_number(j);
}

static int read_rewards(const Json *rows, double *out, int *columns) {
  int n = 0, k = 0;
  for (const Json *row = json_child(rows); row; row = json_next(row), n++) {
    k = 0;
    for (const Json *x = json_child(row); x; x = json_next(x))
      out[n * (int)json_count(row) + k++] = number_or_nan(x);
  }
  *columns = k;
  return n;
}

/* R -= beta * sum over the mask of (old - ref): what the script does for kl_in = "reward". */
static void subtract_kl(const Json *settings, double *rewards) {
  if (!json_get(settings, "beta")) return;
  const double beta = json_number(json_get(settings, "beta"));
  const Json *old = json_child(json_get(settings, "old_logps"));
  const Json *ref = json_child(json_get(settings, "ref_logps"));
  const Json *mask = json_child(json_get(settings, "mask"));
  for (int i = 0; old; i++, old = json_next(old), ref = json_next(ref), mask = json_next(mask)) {
    const Json *m = json_child(mask), *r = json_child(ref);
    for (const Json *o = json_child(old); o; o = json_next(o), r = json_next(r), m = json_next(m))
      rewards[i] -= beta * json_number(m) * (json_number(o) - json_number(r));
  }
}

static void options_of(const Json *c, const double *weights, AdvantageOptions *o) {
  const Json *s = json_get(c, "settings");
  const bool rloo = !strcmp(json_string(json_get(c, "trainer")), "rloo");
  advantage_options_init(o);
  o->group = (int)json_number(json_get(c, "num_generations"));
  o->weights = weights;
  o->baseline = rloo ? BASELINE_LEAVE_ONE_OUT : BASELINE_MEAN;
  const char *scale = json_string(json_get(s, "scale_rewards"));
  if (rloo) o->scale = SCALE_NONE;
  if (scale) o->scale = *scale == 'g' ? SCALE_GROUP : *scale == 'b' ? SCALE_BATCH : SCALE_NONE;
  o->normalize = json_bool(json_get(s, "normalize_advantages"));
  o->normalize_then_sum = json_get(s, "multi_objective_aggregation") != NULL;
  const Json *clip = json_get(s, "reward_clip_range");
  if (clip) {
    o->clip_low = json_number(json_child(clip));
    o->clip_high = json_number(json_next(json_child(clip)));
  }
}

static void run_case(const Json *c) {
  double rewards[MAX * 4], weights[8], total[MAX], adv[MAX], std[MAX];
  AdvantageOptions o;
  int columns, k = 0;
  const int n = read_rewards(json_get(c, "rewards_per_func"), rewards, &columns);
  for (const Json *w = json_child(json_get(c, "reward_weights")); w; w = json_next(w))
    weights[k++] = json_number(w);
  options_of(c, weights, &o);
  o.nrewards = columns;
  subtract_kl(json_get(c, "settings"), rewards);
  CHECK(!advantages(&o, n, rewards, total, adv, std));
  const Json *want = json_child(json_get(json_get(c, "expected"), "advantages"));
  for (int i = 0; i < n; i++, want = json_next(want)) {
    const double w = json_number(want), group_std = std[i / o.group];
    const double tol = fmax(2e-4 * fabs(w), group_std > 1e-6 ? 2e-6 : 1e-3);
    if (!(fabs(adv[i] - w) <= tol))
      test_fail(__FILE__, __LINE__, "%s: row %d: %.9g, want %.9g", json_string(json_get(c, "name")),
                i, adv[i], w);
  }
}

TEST(advantages_agree_with_the_oracle) {
  if (!test_shared()) {
    test_skip("GRPO_SHARED is not set");
    return;
  }
  Json *cases;
  CHECK(!json_read_file(test_path("%s/oracles/advantages/cases.json", test_shared()), 0, &cases));
  int n = 0;
  for (const Json *c = json_child(cases); c; c = json_next(c), n++) run_case(c);
  CHECK(n == 130);
  json_free(cases);
}

static void solve(AdvantageOptions *o, int n, const double *rewards, double *adv) {
  double total[MAX], std[MAX];
  CHECK(!advantages(o, n, rewards, total, adv, std));
}

TEST(a_group_of_equal_rewards_has_no_advantage) {
  const double third = 1.0 / 3, r[] = {third, third, third, third, 0, 1, 0, 1};
  double a[8];
  for (int b = 0; b < 2; b++)
    for (int s = 0; s < 3; s++) {
      AdvantageOptions o;
      advantage_options_init(&o);
      o.group = 4;
      o.baseline = (AdvantageBaseline)b;
      o.scale = (AdvantageScale)s;
      solve(&o, 8, r, a);
      for (int i = 0; i < 4; i++) CHECK(a[i] == 0);
      CHECK(a[4] < 0 && a[5] > 0);
    }
}

/* Rows of rewards whose sums are equal without rounding. */
TEST(sums_that_differ_by_rounding_are_tied) {
  static const double rows[][4][3] = {
      {{0.1, 0.2, 0}, {0.3, 0, 0}, {0.2, 0.1, 0}, {0, 0.3, 0}},
      {{0.3, -0.2, -0.1}, {0, 0, 0}, {0.1, 0.2, -0.3}, {0, 0, 0}},
      {{1.1, -1, 0}, {0.1, 0, 0}, {10.1, -10, 0}, {100.1, -100, 0}},
      {{0.7, 0.1, 0}, {0.8, 0, 0}, {0.4, 0.4, 0}, {-0.1, 0.9, 0}},
  };
  double total[4], a[4], std;
  for (int r = 0; r < 4; r++)
    for (int kind = 0; kind < 2 * 3 * 2; kind++) {
      AdvantageOptions o;
      advantage_options_init(&o);
      o.group = 4;
      o.nrewards = 3;
      o.baseline = (AdvantageBaseline)(kind % 2);
      o.scale = (AdvantageScale)(kind / 2 % 3);
      o.normalize = kind / 6;
      CHECK(!advantages(&o, 4, rows[r][0], total, a, &std));
      CHECK(std == 0 && rewards_tied(4, total));
      for (int i = 0; i < 4; i++) CHECK(a[i] == 0);
    }
}

TEST(small_differences_of_rewards_count) {
  static const double rows[][2] = {{1, 1 + 1e-9}, {0, 1e-15}, {1e6, 1e6 + 1e-5}, {-1e-15, 1e-15}};
  double total[2], a[2], std;
  for (int r = 0; r < 4; r++) {
    AdvantageOptions o;
    advantage_options_init(&o);
    o.group = 2;
    o.scale = SCALE_NONE;
    CHECK(!advantages(&o, 2, rows[r], total, a, &std));
    CHECK(std > 0 && !rewards_tied(2, total) && total[0] == rows[r][0] && total[1] == rows[r][1]);
    CHECK(a[0] < 0 && a[1] > 0);
  }
}

/* Each reward of these differs, and what they add up to after their normalisation does not. */
TEST(normalised_rewards_that_cancel_out_are_tied) {
  const double r[] = {0.3, 0.1, 0.1, 0.3, 0.2, 0.2, 0.3, 0.1};
  double total[4], a[4], std;
  AdvantageOptions o;
  advantage_options_init(&o);
  o.group = 4;
  o.nrewards = 2;
  o.normalize_then_sum = true;
  CHECK(!advantages(&o, 4, r, total, a, &std));
  for (int i = 0; i < 4; i++) CHECK(a[i] == 0);
}

TEST(equal_rewards_of_a_position_are_tied) {
  const double r[] = {0.1, 0.3, 0.1, 0.1 + 0.2, 0.1, 0.3};
  const int lengths[] = {2, 2, 2};
  double a[6];
  CHECK(!advantages_dense(3, 3, lengths, r, a));
  for (int t = 0; t < 6; t++) CHECK(a[t] == 0);
}

TEST(without_a_baseline_the_advantage_is_the_reward) {
  const double r[] = {1, 1, 0.5, NAN};
  double a[4];
  AdvantageOptions o;
  advantage_options_init(&o);
  o.group = 2;
  o.baseline = BASELINE_NONE;
  solve(&o, 4, r, a);
  CHECK(a[0] == 1 && a[1] == 1 && a[2] == 0.5 && a[3] == 0);
}

TEST(the_second_pass_normalises_over_the_step) {
  const double r[] = {0, 1, 0, 4};
  double a[4];
  AdvantageOptions o;
  advantage_options_init(&o);
  o.group = 2;
  o.scale = SCALE_NONE;
  o.normalize = true;
  solve(&o, 4, r, a);
  const double std = sqrt((0.25 + 0.25 + 4 + 4) / 3);
  CHECK_NEAR(a[1], 0.5 / (std + 1e-4), 1e-12);
  CHECK_NEAR(a[2], -2 / (std + 1e-4), 1e-12);
}

TEST(dense_rewards_are_centred_at_each_position) {
  const int lengths[] = {3, 1, 2, 2};
  const double r[] = {1, 0, 1, 0, 1, 1, 0, 1};
  double a[8];
  CHECK(!advantages_dense(2, 4, lengths, r, a));
  /* centred: .5 0 0 | -.5 | .5 0 | -.5 0 */
  const double std = sqrt(1.0 / 7);
  CHECK_NEAR(a[0], 0.5 / (std + 1e-4), 1e-12);
  CHECK_NEAR(a[3], -0.5 / (std + 1e-4), 1e-12);
  CHECK(a[1] == 0 && a[2] == 0 && a[7] == 0);
}

TEST(rewards_that_do_not_make_groups_are_refused) {
  const double r[] = {1, 2, 3};
  double a[3], t[3], s[3];
  AdvantageOptions o;
  advantage_options_init(&o);
  o.group = 2;
  CHECK(advantages(&o, 3, r, t, a, s) == GRPO_EARG);
  o.group = 1;
  CHECK(advantages(&o, 3, (double[]){1, INFINITY, 0}, t, a, s) == GRPO_EARG);
}
