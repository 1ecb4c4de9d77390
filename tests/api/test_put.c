/* Samples made elsewhere, gradients and the optimizer's state, as a host brings them to a trainer
 * or takes them from it. */
#include "host.h"

enum { N = HOST_PROMPTS * HOST_GROUP };

static const int32_t prompt_a[] = {0, 1, 2}, prompt_b[] = {1};
static const grpo_prompt prompts[HOST_PROMPTS] = {{prompt_a, 3, 0, 0}, {prompt_b, 1, 1, 0}};

static grpo_update_options rate(double lr) {
  grpo_update_options u;
  OK(NULL, grpo_update_options_init(&u, sizeof u));
  u.lr = lr;
  return u;
}

static void score(Host *h) {
  OK(h->c, grpo_trainer_score(h->trainer, host_reward, NULL));
  OK(h->c, grpo_trainer_advantages(h->trainer, NULL, NULL, 0));
}

/* ---- samples ----------------------------------------------------------------------- */

TEST(samples_of_another_trainer_give_the_same_update) {
  Host a, b;
  grpo_sample s[N];
  const grpo_update_options u = rate(1e-2);
  host_open(&a, 1);
  host_open(&b, 1);
  host_rollout(&a, 0);
  for (size_t i = 0; i < N; i++) {
    s[i] = (grpo_sample){.size = sizeof s[i]};
    OK(a.c, grpo_trainer_sample_at(a.trainer, i, &s[i]));
  }
  for (int with = 0; with < 2; with++) { /* with and without log-probabilities */
    for (size_t i = 0; i < N && !with; i++) s[i].logprobs = NULL;
    OK(b.c, grpo_trainer_put(b.trainer, prompts, HOST_PROMPTS, s, N, 1.0));
    CHECK(grpo_trainer_sample_count(b.trainer) == N);
    for (size_t i = 0; i < N; i++) {
      grpo_sample mine = {.size = sizeof mine}, theirs = {.size = sizeof theirs};
      OK(b.c, grpo_trainer_sample_at(b.trainer, i, &mine));
      OK(a.c, grpo_trainer_sample_at(a.trainer, i, &theirs));
      CHECK_STR(mine.text, theirs.text);
      CHECK_STR(mine.finish, theirs.finish);
      CHECK(memcmp(mine.logprobs, theirs.logprobs, mine.length * sizeof *mine.logprobs) == 0);
      s[i].logprobs = theirs.logprobs;
    }
  }
  score(&a);
  score(&b);
  OK(a.c, grpo_trainer_update(a.trainer, &u, NULL));
  OK(b.c, grpo_trainer_update(b.trainer, &u, NULL));
  CHECK(host_hash(a.model) == host_hash(b.model));
  host_close(&a);
  host_close(&b);
}

TEST(samples_are_checked_before_they_are_taken) {
  Host h;
  static const int32_t ids[] = {0, 1, 2, 3, 4, 5, 6, 7}, outside[] = {10};
  const float logp[] = {-1, -1, 1};
  const uint8_t mask[] = {1, 0, 1};
  grpo_sample s[4];
  host_open(&h, 1);
  for (int i = 0; i < 4; i++) s[i] = (grpo_sample){.size = sizeof s[i], .ids = ids, .length = 3};
  s[1].sampled = mask;
  s[2].finish = "length";
  OK(h.c, grpo_trainer_put(h.trainer, prompts, 2, s, 4, 0.7));
  grpo_sample out = {.size = sizeof out};
  OK(h.c, grpo_trainer_sample_at(h.trainer, 1, &out));
  CHECK(out.sampled[0] == 1 && out.sampled[1] == 0 && out.logprobs[1] == 0 && out.logprobs[2] < 0);
  CHECK_STR(out.finish, "eos");
  out = (grpo_sample){.size = offsetof(grpo_sample, sampled)}; /* of an older program */
  OK(h.c, grpo_trainer_sample_at(h.trainer, 2, &out));
  CHECK_STR(out.finish, "length");
  CHECK(out.sampled == NULL && out.prompt == 1);
  REFUSED(h.c, GRPO_ESHAPE, "3 for 2 prompts", grpo_trainer_put(h.trainer, prompts, 2, s, 3, 1));
  REFUSED(h.c, GRPO_EARG, "NULL", grpo_trainer_put(h.trainer, prompts, 2, NULL, 4, 1));
  REFUSED(h.c, GRPO_EARG, "temperature", grpo_trainer_put(h.trainer, prompts, 2, s, 4, 0));
  s[3].length = 7;
  REFUSED(h.c, GRPO_EARG, "samples[3]: it has 7 tokens, want 1 to 6",
          grpo_trainer_put(h.trainer, prompts, 2, s, 4, 1));
  s[3].length = 1, s[3].ids = outside;
  REFUSED(h.c, GRPO_EARG, "outside the vocabulary",
          grpo_trainer_put(h.trainer, prompts, 2, s, 4, 1));
  CHECK(grpo_trainer_sample_count(h.trainer) == 0);
  s[3].ids = ids, s[3].finish = "tired";
  REFUSED(h.c, GRPO_EARG, "'tired'", grpo_trainer_put(h.trainer, prompts, 2, s, 4, 1));
  s[3].finish = NULL, s[3].logprobs = logp;
  REFUSED(h.c, GRPO_EARG, "or of none", grpo_trainer_put(h.trainer, prompts, 2, s, 4, 1));
  for (int i = 0; i < 4; i++) s[i].logprobs = logp;
  REFUSED(h.c, GRPO_EARG, "samples[0].logprobs[2] is 1",
          grpo_trainer_put(h.trainer, prompts, 2, s, 4, 1));
  REFUSED(NULL, GRPO_EARG, "NULL", grpo_trainer_put(NULL, prompts, 2, s, 4, 1));
  host_close(&h);
}

/* ---- gradients ---------------------------------------------------------------------- */

static const char weight[] = "model.norm.weight";
enum { WIDTH = 16 };

TEST(an_accumulated_gradient_makes_the_step_of_an_update) {
  Host plain, sum;
  float g[WIDTH], twice[WIDTH];
  double norm = 0;
  const grpo_metrics *m = NULL;
  grpo_update_options u = rate(1e-2);
  host_open(&plain, 1);
  host_open(&sum, 1);
  host_rollout(&plain, 0), score(&plain);
  host_rollout(&sum, 0), score(&sum);
  OK(plain.c, grpo_trainer_update(plain.trainer, &u, &m));
  const double want = grpo_metric_get(m, "grad_norm");
  const uint64_t before = host_hash(sum.model);
  OK(sum.c, grpo_trainer_gradient_get(sum.trainer, weight, g, WIDTH));
  for (int i = 0; i < WIDTH; i++) CHECK(g[i] == 0);
  u.accumulate = 1;
  OK(sum.c, grpo_trainer_update(sum.trainer, &u, NULL));
  CHECK(host_hash(sum.model) == before);
  OK(sum.c, grpo_trainer_gradient_get(sum.trainer, weight, g, WIDTH));
  OK(sum.c, grpo_trainer_update(sum.trainer, &u, NULL));
  OK(sum.c, grpo_trainer_gradient_get(sum.trainer, weight, twice, WIDTH));
  for (int i = 0; i < WIDTH; i++) CHECK(twice[i] == 2 * g[i]);
  OK(sum.c, grpo_trainer_apply(sum.trainer, &u, &norm));
  CHECK(norm == 2 * want);
  OK(sum.c, grpo_trainer_gradient_get(sum.trainer, weight, g, WIDTH));
  for (int i = 0; i < WIDTH; i++) CHECK(g[i] == 0);
  host_close(&sum);
  host_open(&sum, 1);
  host_rollout(&sum, 0), score(&sum);
  OK(sum.c, grpo_trainer_update(sum.trainer, &u, NULL));
  OK(sum.c, grpo_trainer_apply(sum.trainer, &u, NULL));
  CHECK(host_hash(sum.model) == host_hash(plain.model));
  host_close(&plain);
  host_close(&sum);
}

TEST(a_host_writes_gradients_and_demonstrations_accumulate) {
  Host h;
  float g[WIDTH] = {1}, was[WIDTH], now[WIDTH];
  static const int32_t target[] = {3, 4};
  const grpo_example x = {prompt_a, 3, target, 2};
  grpo_update_options u = rate(0.5);
  double norm = 0;
  host_open(&h, 1);
  OK(h.c, grpo_model_parameter_get(h.model, weight, was, WIDTH));
  OK(h.c, grpo_trainer_gradient_set(h.trainer, weight, g, WIDTH));
  OK(h.c, grpo_trainer_apply(h.trainer, &u, &norm));
  OK(h.c, grpo_model_parameter_get(h.model, weight, now, WIDTH));
  CHECK(norm == 1 && now[0] < was[0] && now[1] == was[1]);
  u.accumulate = 1;
  OK(h.c, grpo_trainer_sft(h.trainer, &x, 1, &u, NULL));
  OK(h.c, grpo_trainer_gradient_get(h.trainer, weight, g, WIDTH));
  CHECK(g[0] != 0);
  g[0] = NAN;
  OK(h.c, grpo_trainer_gradient_set(h.trainer, weight, g, WIDTH));
  REFUSED(h.c, GRPO_EDIVERGED, "not finite", grpo_trainer_apply(h.trainer, &u, NULL));
  host_rollout(&h, 0), score(&h);
  u.iterations = 2;
  REFUSED(h.c, GRPO_EARG, "iterations", grpo_trainer_update(h.trainer, &u, NULL));
  REFUSED(h.c, GRPO_EARG, "no parameter", grpo_trainer_gradient_get(h.trainer, "no", g, WIDTH));
  REFUSED(h.c, GRPO_ELIMIT, "room for 3", grpo_trainer_gradient_get(h.trainer, weight, g, 3));
  REFUSED(h.c, GRPO_ESHAPE, "16 elements", grpo_trainer_gradient_set(h.trainer, weight, g, 3));
  REFUSED(NULL, GRPO_EARG, "NULL", grpo_trainer_gradient_set(NULL, weight, g, 3));
  REFUSED(NULL, GRPO_EARG, "NULL", grpo_trainer_apply(NULL, &u, NULL));
  host_close(&h);
  host_open(&h, 1);
  grpo_trainer_free(h.trainer);
  h.trainer = NULL;
  grpo_trainer_options o;
  OK(h.c, grpo_trainer_options_init(&o, sizeof o));
  o.max_prompt_tokens = 8, o.max_new_tokens = HOST_NEW;
  OK(h.c, grpo_model_add_lora(h.model, 2, 4, 0, NULL, 1));
  OK(h.c, grpo_trainer_new(h.model, NULL, h.tok, &o, &h.trainer));
  REFUSED(h.c, GRPO_EARG, "is frozen", grpo_trainer_gradient_get(h.trainer, weight, g, WIDTH));
  host_close(&h);
}

/* ---- the optimizer's state ----------------------------------------------------------- */

static void another_trainer(Host *h, const char *optimizer) {
  grpo_trainer_options o;
  grpo_trainer_free(h->trainer);
  OK(h->c, grpo_trainer_options_init(&o, sizeof o));
  o.prompts_per_step = HOST_PROMPTS, o.group_size = HOST_GROUP;
  o.max_prompt_tokens = 8, o.max_new_tokens = HOST_NEW;
  o.optimizer = optimizer;
  OK(h->c, grpo_trainer_new(h->model, h->reference, h->tok, &o, &h->trainer));
}

TEST(the_state_of_the_optimizer_goes_through_memory) {
  static char state[1 << 16];
  uint64_t hash[3];
  size_t n = 0;
  for (int way = 0; way < 3; way++) { /* one trainer; another with its state; another without */
    Host h;
    host_open(&h, 1);
    host_step(&h, 0);
    OK(h.c, grpo_trainer_state_get(h.trainer, NULL, 0, &n));
    CHECK(n > 0 && n <= sizeof state);
    OK(h.c, grpo_trainer_state_get(h.trainer, state, sizeof state, &n));
    if (way) another_trainer(&h, NULL);
    if (way == 1) OK(h.c, grpo_trainer_state_set(h.trainer, state, n));
    host_step(&h, 1);
    hash[way] = host_hash(h.model);
    host_close(&h);
  }
  CHECK(hash[0] == hash[1] && hash[0] != hash[2]);
  Host h;
  host_open(&h, 1);
  REFUSED(h.c, GRPO_ELIMIT, "room for 8", grpo_trainer_state_get(h.trainer, state, 8, &n));
  REFUSED(h.c, GRPO_EFORMAT, "damaged", grpo_trainer_state_set(h.trainer, state, n - 4));
  state[n - 1] ^= 1;
  REFUSED(h.c, GRPO_EFORMAT, "damaged", grpo_trainer_state_set(h.trainer, state, n));
  state[n - 1] ^= 1;
  OK(h.c, grpo_trainer_state_set(h.trainer, state, n));
  REFUSED(h.c, GRPO_EFORMAT, "not the state", grpo_trainer_state_set(h.trainer, "abc", 3));
  REFUSED(h.c, GRPO_EARG, "NULL", grpo_trainer_state_set(h.trainer, NULL, 3));
  another_trainer(&h, "lion");
  REFUSED(h.c, GRPO_EFORMAT, "another optimizer", grpo_trainer_state_set(h.trainer, state, n));
  REFUSED(NULL, GRPO_EARG, "NULL", grpo_trainer_state_get(NULL, state, 8, &n));
  host_close(&h);
}
