/* The step API: rollout, score, advantages, update, demonstrations, state. */
#include <pthread.h>

#include "host.h"

TEST(a_step_changes_the_weights_and_reports_metrics) {
  Host h;
  host_open(&h, 1);
  const uint64_t before = host_hash(h.model);
  CHECK(host_step(&h, 0) > 0);
  CHECK(host_hash(h.model) != before);
  host_close(&h);
}

TEST(samples_show_text_ids_and_log_probabilities) {
  Host h;
  grpo_sample s = {.size = sizeof s};
  host_open(&h, 1);
  CHECK(grpo_trainer_sample_count(h.trainer) == 0);
  host_rollout(&h, 0);
  CHECK(grpo_trainer_sample_count(h.trainer) == HOST_PROMPTS * HOST_GROUP);
  for (size_t i = 0; i < HOST_PROMPTS * HOST_GROUP; i++) {
    char text[64];
    size_t n = 0;
    OK(h.c, grpo_trainer_sample_at(h.trainer, i, &s));
    CHECK(s.prompt == (int64_t)i / HOST_GROUP && s.index == (int64_t)i % HOST_GROUP);
    CHECK(s.length >= 1 && s.length <= HOST_NEW && s.logprobs[0] < 0);
    OK(h.c, grpo_tokenizer_decode(h.tok, s.ids, s.length, 1, text, sizeof text, &n));
    CHECK_STR(s.text, text);
    CHECK(s.text_length == n && s.row == NULL && s.prompt_text == NULL);
  }
  REFUSED(h.c, GRPO_EARG, "there are 8", grpo_trainer_sample_at(h.trainer, 8, &s));
  s.size = 8;
  REFUSED(h.c, GRPO_EARG, "size", grpo_trainer_sample_at(h.trainer, 0, &s));
  host_close(&h);
}

TEST(a_trainer_has_the_optimizer_that_is_asked_for) {
  static const char *const names[] = {"adamw", "adamw_8bit", "lion"};
  uint64_t hash[4];
  for (int k = 0; k < 4; k++) {
    Host h;
    grpo_trainer_options o;
    grpo_trainer *t = NULL;
    host_open(&h, 1);
    OK(h.c, grpo_trainer_options_init(&o, sizeof o));
    CHECK(o.optimizer == NULL);
    o.optimizer = "lions";
    REFUSED(h.c, GRPO_EARG, "want one of adamw|adamw_8bit|lion, got 'lions'",
            grpo_trainer_new(h.model, h.reference, h.tok, &o, &t));
    o.prompts_per_step = HOST_PROMPTS, o.group_size = HOST_GROUP;
    o.max_prompt_tokens = 8, o.max_new_tokens = HOST_NEW;
    o.optimizer = k < 3 ? names[k] : NULL;
    OK(h.c, grpo_trainer_new(h.model, h.reference, h.tok, &o, &t));
    grpo_trainer *first = h.trainer;
    h.trainer = t;
    host_step(&h, 0);
    host_step(&h, 1);
    hash[k] = host_hash(h.model);
    grpo_trainer_free(first);
    host_close(&h);
  }
  CHECK(hash[0] == hash[3] && hash[2] != hash[0]);
}

TEST(numbers_may_stand_in_for_callbacks) {
  Host a, b;
  double rewards[8], advantages[8];
  grpo_update_options u;
  host_open(&a, 1);
  host_open(&b, 1);
  host_rollout(&a, 0);
  host_rollout(&b, 0);
  OK(a.c, grpo_trainer_score(a.trainer, host_reward, NULL));
  OK(a.c, grpo_trainer_rewards(a.trainer, rewards, 8));
  OK(a.c, grpo_trainer_advantages(a.trainer, NULL, advantages, 8));
  OK(b.c, grpo_trainer_set_rewards(b.trainer, rewards, 8));
  const double right = advantages[3];
  advantages[3] = 1e300;
  REFUSED(b.c, GRPO_EARG, "advantages[3] is 1e+300, want at most 1e+30 in size",
          grpo_trainer_set_advantages(b.trainer, advantages, 8));
  advantages[3] = right;
  OK(b.c, grpo_trainer_set_advantages(b.trainer, advantages, 8));
  OK(a.c, grpo_update_options_init(&u, sizeof u));
  OK(a.c, grpo_trainer_update(a.trainer, &u, NULL));
  OK(b.c, grpo_trainer_update(b.trainer, &u, NULL));
  CHECK(host_hash(a.model) == host_hash(b.model));
  host_close(&a);
  host_close(&b);
}

TEST(steps_out_of_order_are_refused) {
  Host h;
  double x[8];
  grpo_update_options u;
  host_open(&h, 1);
  OK(h.c, grpo_update_options_init(&u, sizeof u));
  REFUSED(h.c, GRPO_EARG, "rollout first", grpo_trainer_score(h.trainer, host_reward, NULL));
  REFUSED(h.c, GRPO_EARG, "rollout first", grpo_trainer_update(h.trainer, &u, NULL));
  REFUSED(h.c, GRPO_EARG, "rollout first", grpo_trainer_reference(h.trainer));
  host_rollout(&h, 0);
  REFUSED(h.c, GRPO_EARG, "no rewards", grpo_trainer_rewards(h.trainer, x, 8));
  REFUSED(h.c, GRPO_EARG, "no rewards", grpo_trainer_advantages(h.trainer, NULL, x, 8));
  REFUSED(h.c, GRPO_EARG, "no advantages", grpo_trainer_update(h.trainer, &u, NULL));
  REFUSED(h.c, GRPO_ESHAPE, "3 numbers", grpo_trainer_set_rewards(h.trainer, x, 3));
  OK(h.c, grpo_trainer_score(h.trainer, host_reward, NULL));
  REFUSED(h.c, GRPO_ELIMIT, "want 8", grpo_trainer_rewards(h.trainer, x, 7));
  REFUSED(h.c, GRPO_ELIMIT, "want 8", grpo_trainer_advantages(h.trainer, NULL, x, 7));
  host_rollout(&h, 1); /* whose rewards the old ones are not */
  REFUSED(h.c, GRPO_EARG, "no rewards", grpo_trainer_rewards(h.trainer, x, 8));
  host_close(&h);
}

static grpo_status failing(void *user, const grpo_sample *s, double *reward) {
  *reward = 1;
  return s->index == *(int64_t *)user ? GRPO_EIO : GRPO_OK;
}
static grpo_status infinite(void *user, const grpo_sample *s, double *reward) {
  (void)user, (void)s;
  *reward = INFINITY;
  return GRPO_OK;
}
static grpo_status reentrant(void *user, const grpo_sample *s, double *reward) {
  Host *h = user;
  char text[32];
  size_t n;
  *reward = 0;
  /* a callback may use a tokenizer, but not the trainer */
  OK(h->c, grpo_tokenizer_decode(h->tok, s->ids, s->length, 1, text, sizeof text, &n));
  CHECK(grpo_trainer_advantages(h->trainer, NULL, NULL, 0) == GRPO_EARG);
  CHECK(strstr(grpo_message(NULL), "another call"));
  CHECK(grpo_sample_field(s, "answer") == NULL);
  return GRPO_OK;
}

/* ---- handles that a callback frees ---- */

typedef struct Freed {
  Host *h;
  int which;
  bool said; /* the message of the context names it at once */
} Freed;

static void free_one(Freed *f) {
  switch (f->which) {
  case 0:
    grpo_trainer_free(f->h->trainer);
    break;
  case 1:
    grpo_model_free(f->h->model);
    break;
  case 2:
    grpo_model_free(f->h->reference);
    break;
  default:
    grpo_context_free(f->h->c);
  }
}

static grpo_status freeing(void *user, const grpo_sample *s, double *reward) {
  Freed *f = user;
  if (s->index == 1) {
    free_one(f);
    f->said = strstr(grpo_message(f->h->c), "inside a callback") != NULL;
  }
  *reward = (double)(s->index % 2);
  return GRPO_OK;
}

TEST(a_handle_that_a_callback_frees_stays_and_the_call_fails) {
  static const char *const names[] = {"grpo_trainer_free", "grpo_model_free", "grpo_model_free",
                                      "grpo_context_free"};
  for (int i = 0; i < 4; i++) {
    Host h;
    host_open(&h, 1);
    Freed f = {&h, i, false};
    host_rollout(&h, 0);
    REFUSED(h.c, GRPO_EARG, names[i], grpo_trainer_score(h.trainer, freeing, &f));
    CHECK(f.said);
    f.which = -1;
    OK(h.c, grpo_trainer_score(h.trainer, host_reward, NULL));
    OK(h.c, grpo_trainer_advantages(h.trainer, NULL, NULL, 0));
    host_close(&h);
  }
}

typedef struct Judge {
  grpo_context *c;
  int calls;
} Judge;

/* A judge over a network, say, whose user presses Ctrl-C meanwhile. */
static grpo_status cancelling(void *user, const grpo_sample *s, double *reward) {
  Judge *j = user;
  if (++j->calls == 2) grpo_cancel(j->c);
  *reward = (double)s->index;
  return GRPO_OK;
}

TEST(a_cancel_ends_the_scoring) {
  Host h;
  host_open(&h, 1);
  Judge j = {h.c, 0};
  host_rollout(&h, 0);
  REFUSED(h.c, GRPO_ECANCELED, "grpo_cancel", grpo_trainer_score(h.trainer, cancelling, &j));
  CHECK(j.calls == 2);
  REFUSED(h.c, GRPO_EARG, "no rewards", grpo_trainer_advantages(h.trainer, NULL, NULL, 0));
  OK(h.c, grpo_trainer_score(h.trainer, host_reward, NULL));
  host_close(&h);
}

TEST(errors_in_callbacks_end_the_call_and_say_where) {
  Host h;
  int64_t at = 2;
  host_open(&h, 1);
  host_rollout(&h, 0);
  REFUSED(h.c, GRPO_ESCRIPT, "EIO for completion 2", grpo_trainer_score(h.trainer, failing, &at));
  REFUSED(h.c, GRPO_ESCRIPT, "infinite", grpo_trainer_score(h.trainer, infinite, NULL));
  REFUSED(h.c, GRPO_EARG, "NULL", grpo_trainer_score(h.trainer, NULL, NULL));
  OK(h.c, grpo_trainer_score(h.trainer, reentrant, &h));
  OK(h.c, grpo_trainer_advantages(h.trainer, NULL, NULL, 0));
  host_close(&h);
}

static double mean_nll(Host *h, const grpo_example *x, size_t n) {
  double mean = NAN;
  int64_t tokens = 0;
  OK(h->c, grpo_trainer_evaluate(h->trainer, x, n, &mean, &tokens));
  CHECK(tokens == 5);
  return mean;
}

TEST(demonstrations_are_learned) {
  static const int32_t p[] = {0, 1}, t[] = {2, 3, 8}, t2[] = {4, 8};
  const grpo_example x[] = {{p, 2, t, 3}, {p, 1, t2, 2}};
  Host h;
  grpo_update_options u;
  const grpo_metrics *m;
  host_open(&h, 1);
  OK(h.c, grpo_update_options_init(&u, sizeof u));
  u.lr = 1e-2;
  const double before = mean_nll(&h, x, 2);
  for (int i = 0; i < 20; i++) OK(h.c, grpo_trainer_sft(h.trainer, x, 2, &u, &m));
  CHECK(m->count > 3 && grpo_metric_get(m, "loss") < before);
  for (size_t i = 1; i < m->count; i++) CHECK(strcmp(m->items[i - 1].name, m->items[i].name) < 0);
  CHECK(isnan(grpo_metric_get(m, "nothing")));
  CHECK(mean_nll(&h, x, 2) < before / 2);
  REFUSED(h.c, GRPO_EARG, "examples", grpo_trainer_sft(h.trainer, x, 0, &u, NULL));
  REFUSED(h.c, GRPO_EARG, "NULL", grpo_trainer_sft(h.trainer, NULL, 1, &u, NULL));
  host_close(&h);
}

TEST(a_saved_trainer_goes_on_with_the_same_bits) {
  Host a, b;
  const char *dir = test_path("%s/saved", test_tmp());
  grpo_trainer_options o;
  host_open(&a, 1);
  host_step(&a, 0);
  OK(a.c, grpo_trainer_save(a.trainer, dir));
  host_step(&a, 1);
  host_open(&b, 1);
  grpo_model_free(b.model);
  grpo_trainer_free(b.trainer);
  OK(b.c, grpo_model_load(b.c, dir, NULL, &b.model));
  OK(b.c, grpo_trainer_options_init(&o, sizeof o));
  o.prompts_per_step = HOST_PROMPTS, o.group_size = HOST_GROUP;
  o.max_prompt_tokens = 8, o.max_new_tokens = HOST_NEW;
  OK(b.c, grpo_trainer_new(b.model, b.reference, b.tok, &o, &b.trainer));
  OK(b.c, grpo_trainer_load(b.trainer, dir));
  host_step(&b, 1);
  CHECK(host_hash(a.model) == host_hash(b.model));
  REFUSED(b.c, GRPO_ENOENT, "nowhere", grpo_trainer_load(b.trainer, "nowhere"));
  host_close(&a);
  host_close(&b);
}

static void *run_steps(void *arg) {
  Host h;
  host_open(&h, 2);
  for (uint32_t i = 0; i < 4; i++) host_step(&h, i);
  *(uint64_t *)arg = host_hash(h.model);
  host_close(&h);
  return NULL;
}

TEST(two_contexts_in_two_threads_give_the_bits_of_one_alone) {
  uint64_t hash[3] = {0, 1, 2};
  pthread_t other;
  run_steps(&hash[0]);
  CHECK(pthread_create(&other, NULL, run_steps, &hash[1]) == 0);
  run_steps(&hash[2]);
  pthread_join(other, NULL);
  CHECK(hash[0] == hash[1] && hash[0] == hash[2]);
}
