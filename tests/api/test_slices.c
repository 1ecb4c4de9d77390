/* Steps in parts: the same bits as whole steps, for any budget, and steps that are given up. */
#include <pthread.h>

#include "host.h"

static const int32_t prompt_a[] = {0, 1, 2}, prompt_b[] = {1};

typedef struct Parts {
  grpo_prompt prompts[HOST_PROMPTS];
  grpo_sampling sampling;
  grpo_loss_options loss;
  grpo_update_options update;
  grpo_step step;
  pthread_t thread; /* that the reward is called on */
  int rewards, fail_at;
  grpo_context *cancel; /* cancelled by the reward; NULL: not */
} Parts;

static grpo_status reward(void *user, const grpo_sample *s, double *value) {
  Parts *p = user;
  CHECK(pthread_equal(p->thread, pthread_self()));
  if (++p->rewards == p->fail_at) return GRPO_EIO;
  grpo_cancel(p->cancel);
  return host_reward(NULL, s, value);
}

/* The step that host_step() makes in one call after another. */
static void fill(Host *h, Parts *p, uint32_t step) {
  *p = (Parts){.prompts = {{prompt_a, 3, 2 * step, 0}, {prompt_b, 1, 2 * step + 1, 0}},
               .thread = pthread_self()};
  OK(h->c, grpo_sampling_init(&p->sampling, sizeof p->sampling));
  p->sampling.seed = 7, p->sampling.step = step;
  OK(h->c, grpo_loss_options_init(&p->loss, sizeof p->loss));
  OK(h->c, grpo_update_options_init(&p->update, sizeof p->update));
  p->loss.kl = 0.02;
  p->update.loss = &p->loss;
  p->update.lr = 1e-2;
  OK(h->c, grpo_step_init(&p->step, sizeof p->step));
  p->step.prompts = p->prompts, p->step.count = HOST_PROMPTS;
  p->step.sampling = &p->sampling;
  p->step.reward = reward, p->step.user = p;
  p->step.update = &p->update;
}

/* Returns the number of parts; *norm: of the gradient. */
static int advance_to_end(Host *h, int64_t budget, double *norm) {
  int parts = 0;
  int32_t done = 0;
  const grpo_metrics *m = NULL;
  while (!done && parts < 100000) {
    OK(h->c, grpo_trainer_advance(h->trainer, budget, &done, &m));
    CHECK((m != NULL) == (done != 0));
    parts++;
  }
  *norm = grpo_metric_get(m, "grad_norm");
  return parts;
}

TEST(steps_in_parts_have_the_bits_of_whole_steps) {
  static const int64_t budgets[] = {0, 1, 200};
  Host whole;
  double want[2];
  host_open(&whole, 1);
  for (uint32_t step = 0; step < 2; step++) want[step] = host_step(&whole, step);
  for (int i = 0; i < 3; i++)
    for (int threads = 1; threads <= 2; threads++) {
      Host h;
      Parts p;
      host_open(&h, threads);
      for (uint32_t step = 0; step < 2; step++) {
        double norm = 0;
        fill(&h, &p, step);
        OK(h.c, grpo_trainer_begin(h.trainer, &p.step));
        const int parts = advance_to_end(&h, budgets[i], &norm);
        CHECK(norm == want[step] && p.rewards == HOST_PROMPTS * HOST_GROUP);
        CHECK(budgets[i] == 0 ? parts == 1 : budgets[i] > 1 || parts > 50);
      }
      CHECK(host_hash(h.model) == host_hash(whole.model));
      host_close(&h);
    }
  host_close(&whole);
}

TEST(a_supervised_step_in_parts_has_the_bits_of_a_whole_one) {
  static const int32_t target[] = {3, 4, 5};
  const grpo_example x[] = {{prompt_a, 3, target, 3}, {prompt_b, 1, target, 2}};
  Host whole, h;
  Parts p;
  double norm = 0;
  const grpo_metrics *m = NULL;
  host_open(&whole, 1);
  host_open(&h, 1);
  fill(&h, &p, 0);
  OK(whole.c, grpo_trainer_sft(whole.trainer, x, 2, &p.update, &m));
  p.step.examples = x, p.step.example_count = 2;
  REFUSED(h.c, GRPO_EARG, "not both", grpo_trainer_begin(h.trainer, &p.step));
  p.step.prompts = NULL, p.step.reward = NULL;
  OK(h.c, grpo_trainer_begin(h.trainer, &p.step));
  CHECK(advance_to_end(&h, 1, &norm) > 20 && norm == grpo_metric_get(m, "grad_norm"));
  CHECK(host_hash(h.model) == host_hash(whole.model));
  host_close(&h);
  host_close(&whole);
}

TEST(other_calls_wait_until_the_step_is_done) {
  Host h;
  Parts p;
  int32_t done = 0, size = 0, count = 0;
  double norm = 0;
  grpo_trainer_options o;
  grpo_trainer *other = NULL;
  host_open(&h, 1);
  OK(h.c, grpo_trainer_options_init(&o, sizeof o));
  o.max_prompt_tokens = 8, o.max_new_tokens = HOST_NEW;
  OK(h.c, grpo_trainer_new(h.model, NULL, h.tok, &o, &other));
  REFUSED(h.c, GRPO_EARG, "no step has begun", grpo_trainer_advance(h.trainer, 1, &done, NULL));
  fill(&h, &p, 0);
  OK(h.c, grpo_trainer_begin(h.trainer, &p.step));
  OK(h.c, grpo_trainer_advance(h.trainer, 1, &done, NULL));
  CHECK(!done);
  REFUSED(h.c, GRPO_EARG, "in parts", grpo_model_parameter_count(h.model, &count));
  REFUSED(h.c, GRPO_EARG, "in parts", grpo_trainer_update(h.trainer, NULL, NULL));
  REFUSED(h.c, GRPO_EARG, "another trainer", grpo_trainer_begin(other, &p.step));
  OK(h.c, grpo_tokenizer_size(h.tok, &size));
  advance_to_end(&h, 0, &norm);
  OK(h.c, grpo_model_parameter_count(h.model, &count));
  OK(h.c, grpo_trainer_begin(h.trainer, &p.step));
  REFUSED(h.c, GRPO_EARG, "budget_us", grpo_trainer_advance(h.trainer, -1, &done, NULL));
  OK(h.c, grpo_trainer_begin(h.trainer, NULL));
  REFUSED(NULL, GRPO_EARG, "NULL", grpo_trainer_advance(NULL, 1, &done, NULL));
  REFUSED(NULL, GRPO_EARG, "NULL", grpo_trainer_begin(NULL, &p.step));
  p.step.reward = NULL;
  REFUSED(h.c, GRPO_EARG, "reward callback is NULL", grpo_trainer_begin(h.trainer, &p.step));
  grpo_trainer_free(other);
  host_close(&h);
}

/* *done: whether the step has ended with them. */
static void advance_parts(Host *h, int parts, int32_t *done) {
  *done = 0;
  for (int i = 0; i < parts && !*done; i++)
    OK(h->c, grpo_trainer_advance(h->trainer, 1, done, NULL));
}

TEST(a_step_that_is_given_up_changes_nothing) {
  for (int parts = 1; parts < 400; parts += 57) {
    Host h, plain;
    Parts p;
    int32_t done = 0;
    host_open(&h, 2);
    host_open(&plain, 1);
    fill(&h, &p, 0);
    OK(h.c, grpo_trainer_begin(h.trainer, &p.step));
    advance_parts(&h, parts, &done);
    if (!done) {
      OK(h.c, grpo_trainer_begin(h.trainer, NULL));
      CHECK(host_hash(h.model) == host_hash(plain.model));
      host_step(&h, 0); /* the trainer is as before */
    }
    host_step(&plain, 0);
    CHECK(host_hash(h.model) == host_hash(plain.model));
    fill(&h, &p, 1);
    OK(h.c, grpo_trainer_begin(h.trainer, &p.step));
    advance_parts(&h, parts, &done);
    host_close(&h); /* in the middle of a step */
    host_close(&plain);
  }
}

/* A signal mostly arrives between two parts, where the game draws. */
TEST(a_cancel_between_two_parts_ends_the_step) {
  for (int parts = 0; parts < 400; parts += 57) {
    Host h, plain;
    Parts p;
    int32_t done = 0;
    host_open(&h, 2);
    host_open(&plain, 1);
    fill(&h, &p, 0);
    grpo_cancel(h.c); /* there is no step yet */
    OK(h.c, grpo_trainer_begin(h.trainer, &p.step));
    advance_parts(&h, parts, &done);
    grpo_cancel(h.c);
    if (!done) {
      REFUSED(h.c, GRPO_ECANCELED, "grpo_cancel", grpo_trainer_advance(h.trainer, 0, &done, NULL));
      REFUSED(h.c, GRPO_EARG, "no step has begun", grpo_trainer_advance(h.trainer, 0, &done, NULL));
      host_step(&h, 0);
    }
    host_step(&plain, 0);
    CHECK(host_hash(h.model) == host_hash(plain.model));
    OK(h.c, grpo_trainer_begin(h.trainer, &p.step));
    grpo_cancel(h.c);
    OK(h.c, grpo_trainer_begin(h.trainer, &p.step)); /* another step, which nobody cancels */
    OK(h.c, grpo_trainer_advance(h.trainer, 0, &done, NULL));
    CHECK(done);
    host_close(&h);
    host_close(&plain);
  }
}

TEST(a_failure_ends_the_step) {
  Host h, plain;
  Parts p;
  int32_t done = 0;
  host_open(&h, 1);
  host_open(&plain, 1);
  fill(&h, &p, 0);
  p.fail_at = 3;
  OK(h.c, grpo_trainer_begin(h.trainer, &p.step));
  REFUSED(h.c, GRPO_ESCRIPT, "the reward callback returned EIO for completion 2",
          grpo_trainer_advance(h.trainer, 0, &done, NULL));
  REFUSED(h.c, GRPO_EARG, "no step has begun", grpo_trainer_advance(h.trainer, 0, &done, NULL));
  fill(&h, &p, 0);
  p.cancel = h.c;
  OK(h.c, grpo_trainer_begin(h.trainer, &p.step));
  REFUSED(h.c, GRPO_ECANCELED, "cancelled", grpo_trainer_advance(h.trainer, 0, &done, NULL));
  p.update.lr = -1;
  p.cancel = NULL;
  OK(h.c, grpo_trainer_begin(h.trainer, &p.step));
  REFUSED(h.c, GRPO_EARG, "train.lr", grpo_trainer_advance(h.trainer, 0, &done, NULL));
  CHECK(host_hash(h.model) == host_hash(plain.model));
  host_step(&h, 0), host_step(&plain, 0);
  CHECK(host_hash(h.model) == host_hash(plain.model));
  host_close(&h);
  host_close(&plain);
}
