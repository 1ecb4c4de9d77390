/* Every case of oracles/ppo/cases.json: GAE alone, then rewards, advantages, returns, both losses
 * and their gradients; and what the cases do not cover. */
#include <math.h>

#include "formats/json.h"
#include "grad/policy.h"
#include "rl/gae.h"
#include "testing.h"

enum { ROWS = 8, WIDTH = 16, MOST = ROWS * WIDTH };

static Json *read_cases(void) {
  Json *j = NULL;
  CHECK(!json_read_file(test_path("%s/oracles/ppo/cases.json", test_shared()), 0, &j));
  return j;
}

static double field(const Json *j, const char *key) { return json_number(json_get(j, key)); }

static int read_list(const Json *list, double *out) {
  int n = 0;
  for (const Json *x = json_child(list); x; x = json_next(x)) out[n++] = json_number(x);
  return n;
}

/* ---- gae -------------------------------------------------------------------------- */

TEST(gae_is_the_oracle_s) {
  if (!test_shared()) {
    test_skip("GRPO_SHARED is not set");
    return;
  }
  Json *j = read_cases();
  for (const Json *c = json_child(json_get(j, "gae")); c; c = json_next(c)) {
    double r[WIDTH], v[WIDTH], want[WIDTH], want_ret[WIDTH], a[WIDTH], ret[WIDTH];
    const int n = read_list(json_get(c, "rewards"), r);
    read_list(json_get(c, "values"), v);
    read_list(json_get(c, "advantages"), want);
    read_list(json_get(c, "returns"), want_ret);
    gae(n, r, v, field(c, "bootstrap_value"), field(c, "gamma"), field(c, "lam"), a, ret);
    for (int t = 0; t < n; t++) {
      CHECK_NEAR(a[t], want[t], 1e-12);
      CHECK_NEAR(ret[t], want_ret[t], 1e-12);
    }
  }
  json_free(j);
}

/* ---- a whole step ----------------------------------------------------------------- */

/* A case without its padding: tokens t <= e, positions t <= e + 1 within the width. */
typedef struct Case {
  const Json *json, *settings, *expected;
  int nseq, length[ROWS], positions[ROWS], ntokens, npositions;
  double score[ROWS];
  real logp[MOST], ref_logp[MOST], new_logp[MOST], value[MOST], new_value[MOST], ones[MOST];
} Case;

/* counts[i] numbers of each row, one row after the other */
static void read_ragged(const Json *rows, const int *counts, real *out) {
  int i = 0;
  for (const Json *row = json_child(rows); row; row = json_next(row), i++) {
    const Json *x = json_child(row);
    for (int t = 0; t < counts[i]; t++, x = json_next(x)) *out++ = (real)json_number(x);
  }
}

static void read_case(const Json *j, Case *c) {
  *c = (Case){.json = j, .settings = json_get(j, "settings"), .expected = json_get(j, "expected")};
  double last[ROWS];
  c->nseq = read_list(json_get(j, "last_token_index"), last);
  read_list(json_get(j, "scores"), c->score);
  const int width = (int)json_count(json_child(json_get(j, "logprobs")));
  for (int i = 0; i < c->nseq; i++) {
    c->length[i] = (int)last[i] + 1;
    c->positions[i] = c->length[i] + (c->length[i] < width);
    c->ntokens += c->length[i];
    c->npositions += c->positions[i];
  }
  read_ragged(json_get(j, "logprobs"), c->length, c->logp);
  read_ragged(json_get(j, "ref_logprobs"), c->length, c->ref_logp);
  read_ragged(json_get(j, "new_logprobs"), c->length, c->new_logp);
  read_ragged(json_get(j, "values"), c->positions, c->value);
  read_ragged(json_get(j, "new_values"), c->positions, c->new_value);
  for (int i = 0; i < MOST; i++) c->ones[i] = 1;
}

static void near_rows(const Case *c, const char *key, const int *counts, const real *got) {
  real want[MOST];
  double most = 0;
  int n = 0;
  for (int i = 0; i < c->nseq; i++) n += counts[i];
  read_ragged(json_get(c->expected, key), counts, want);
  for (int i = 0; i < n; i++) most = fmax(most, fabs((double)want[i]));
  for (int i = 0; i < n; i++)
    if (!(fabs((double)(got[i] - want[i])) <= 1e-4 * most))
      test_fail(__FILE__, __LINE__, "%s %s: number %d is %.9g, want %.9g",
                json_string(json_get(c->json, "name")), key, i, (double)got[i], (double)want[i]);
}

static void near_number(const Case *c, const char *key, double got) {
  const double want = field(c->expected, key);
  if (!(fabs(got - want) <= 1e-4 * fmax(fabs(want), 0.3)))
    test_fail(__FILE__, __LINE__, "%s %s: %.9g, want %.9g", json_string(json_get(c->json, "name")),
              key, got, want);
}

static void check_targets(const Case *c, real *advantage, real *returns) {
  Arena a = {0};
  TargetMetrics m;
  double reward[MOST];
  real rounded[MOST];
  const bool k1 = !strcmp(json_string(json_get(c->settings, "kl_estimator")), "k1");
  const TargetOptions o = {.gamma = field(c->settings, "gamma"),
                           .lambda = field(c->settings, "lam"),
                           .kl_coef = field(c->settings, "kl_coef"),
                           .kl_estimator = k1 ? KL_K1 : KL_K3,
                           .whiten_rewards = json_bool(json_get(c->settings, "whiten_rewards"))};
  const TargetInput in = {.nseq = c->nseq,
                          .length = c->length,
                          .positions = c->positions,
                          .score = c->score,
                          .logp = c->logp,
                          .ref_logp = c->ref_logp,
                          .mask = c->ones,
                          .value_mask = c->ones,
                          .value = c->value};
  CHECK(!ppo_targets(&a, &o, &in, advantage, returns, reward, &m));
  for (int i = 0; i < c->npositions; i++) rounded[i] = (real)reward[i];
  near_rows(c, "rewards", c->positions, rounded);
  near_rows(c, "advantages_whitened", c->length, advantage);
  near_rows(c, "returns", c->positions, returns);
  arena_free(&a);
}

static void check_policy(const Case *c, Tape *t, const real *advantage, double *loss) {
  real logp[MOST];
  memcpy(logp, c->new_logp, sizeof logp);
  Tensor x = tensor_view(logp, 1, &c->ntokens), *out;
  x.needs_grad = true;
  PolicyLossAttr a = {.nseq = c->nseq,
                      .lengths = c->length,
                      .advantage = advantage,
                      .old_logp = c->logp,
                      .num_sequences = c->nseq,
                      .num_tokens = c->ntokens};
  loss_options_init(&a.options, LOSS_dapo);
  a.options.clip = a.options.clip_high = field(c->settings, "cliprange");
  CHECK(!tape_apply(t, OP_policy_loss, (Tensor *[]){&x, NULL, NULL}, &(Attr){.p = &a}, &out));
  *loss = (double)out->data[0];
  near_number(c, "policy_loss", *loss);
  CHECK(!tape_backward(t, out));
  near_rows(c, "dloss_dnew_logprobs", c->length, x.grad);
}

static void check_value(const Case *c, Tape *t, const real *returns, double *loss) {
  real value[MOST], slope[MOST];
  memcpy(value, c->new_value, sizeof value);
  double clipped = 0;
  Tensor x = tensor_view(value, 1, &c->npositions), *out;
  x.needs_grad = true;
  const ValueLossAttr a = {.old = c->value,
                           .returns = returns,
                           .clip = field(c->settings, "cliprange_value"),
                           .count = c->npositions,
                           .clipped = &clipped};
  CHECK(!tape_apply(t, OP_value_loss, (Tensor *[]){&x}, &(Attr){.p = &a}, &out));
  *loss = (double)out->data[0];
  near_number(c, "value_loss", *loss);
  near_number(c, "value_clip_fraction", clipped / c->npositions);
  CHECK(!tape_backward(t, out));
  for (int i = 0; i < c->npositions; i++)
    slope[i] = (real)field(c->settings, "vf_coef") * x.grad[i];
  near_rows(c, "dloss_dnew_values", c->positions, slope);
}

TEST(a_step_is_the_oracle_s) {
  if (!test_shared()) {
    test_skip("GRPO_SHARED is not set");
    return;
  }
  Json *j = read_cases();
  Tape t;
  int cases = 0;
  CHECK(!tape_init(&t, NULL));
  for (const Json *x = json_child(json_get(j, "ppo")); x; x = json_next(x), cases++) {
    Case c;
    real advantage[MOST], returns[MOST];
    double policy = 0, value = 0;
    read_case(x, &c);
    check_targets(&c, advantage, returns);
    check_policy(&c, &t, advantage, &policy);
    check_value(&c, &t, returns, &value);
    near_number(&c, "loss", policy + field(c.settings, "vf_coef") * value);
    tape_reset(&t);
  }
  CHECK(cases == 3);
  tape_free(&t);
  json_free(j);
}

/* ---- beyond the cases ------------------------------------------------------------- */

TEST(a_completion_outside_the_mask_moves_nothing) {
  enum { N = 3 };
  Arena a = {0};
  TargetMetrics m[2];
  const int length[N] = {2, 3, 2}, positions[N] = {3, 3, 3};
  const real logp[7] = {-1, -2, -1, -1, -3, -1, -2}, mask[7] = {1, 1, 0, 0, 0, 1, 1};
  real value[9] = {.1f, .2f, .3f, 5, 6, 7, .4f, .5f, .6f};
  const real value_mask[9] = {1, 1, 1, 0, 0, 0, 1, 1, 1};
  double score[N] = {1, 100, 0};
  real adv[2][7], ret[2][9];
  for (int k = 0; k < 2; k++, score[1] = 0, value[4] = -6) {
    const TargetInput in = {N, length, positions, score, NULL, logp, logp, mask, value_mask, value};
    const TargetOptions o = {1, 0.95, 0.1, KL_K1, true};
    CHECK(!ppo_targets(&a, &o, &in, adv[k], ret[k], NULL, &m[k]));
  }
  CHECK(memcmp(adv[0], adv[1], sizeof adv[0]) == 0);
  CHECK(adv[0][2] == 0 && adv[0][3] == 0 && adv[0][4] == 0);
  for (int i = 0; i < 9; i++)
    if (value_mask[i] != 0) CHECK(ret[0][i] == ret[1][i]);
  CHECK(m[0].explained_variance == m[1].explained_variance && m[0].kl == 0);
  arena_free(&a);
}

TEST(rewards_of_tokens_stand_beside_the_score) {
  Arena a = {0};
  TargetMetrics m;
  const int length = 3, positions = 3;
  const real zero[3] = {0}, ones[3] = {1, 1, 1};
  const double score = 10, token[3] = {1, 2, 3};
  real adv[3], ret[3];
  const TargetInput in = {1, &length, &positions, &score, token, zero, NULL, ones, ones, zero};
  const TargetOptions o = {.gamma = 0.5, .lambda = 1};
  CHECK(!ppo_targets(&a, &o, &in, adv, ret, NULL, &m));
  CHECK_NEAR(ret[2], 13, 1e-6);
  CHECK_NEAR(ret[1], 2 + 6.5, 1e-6);
  CHECK_NEAR(ret[0], 1 + 4.25, 1e-6);
  arena_free(&a);
}

TEST(advantages_that_are_all_equal_become_zero) {
  double x[4] = {3, 3, 3, 3};
  whiten(4, NULL, false, x);
  for (int i = 0; i < 4; i++) CHECK(x[i] == 0);
  whiten(1, NULL, true, x);
  CHECK(x[0] == 0);
}
