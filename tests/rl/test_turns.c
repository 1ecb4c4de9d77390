/* Completions of several turns: the model sees injected tokens, and nothing else does. */
#include "steps.h"

static const Setup turns = {.turns = true, .max_new = 40, .entropy = 0.01};

/* Counts injected tokens and all tokens. */
static void count(const Batch *b, int *injected, int *all) {
  *injected = *all = 0;
  for (int i = 0; i < batch_size(b); i++) {
    *all += b->completion[i].len;
    *injected += b->completion[i].len - batch_sampled(b, i);
  }
}

TEST_BOTH(what_is_injected_is_marked_and_the_ratio_of_the_rest_is_1) {
  StepMetrics m;
  Tiny t;
  open_engine(&t, &turns);
  for (uint32_t k = 1; k <= 3; k++) {
    int injected, all;
    step(&t, &turns, k, &m);
    const Batch *b = engine_batch(t.engine, BATCH_SAMPLE);
    count(b, &injected, &all);
    CHECK(injected > 40 && all - injected > 100);
    CHECK(m.ratio_max_deviation == 0);
    CHECK(m.trained_tokens == all - injected);
    CHECK_NEAR(m.mean_length, (double)(all - injected) / batch_size(b), 1e-9);
    for (int i = 0; i < batch_size(b); i++) {
      const Completion *c = &b->completion[i];
      CHECK(c->sampled[0] == 1 && c->sampled[c->len - 1] == 1);
      for (int j = 0; j < c->len; j++)
        CHECK(c->sampled[j] ? c->logp[j] < 0 : c->logp[j] == 0 && c->entropy[j] == 0);
    }
  }
  tiny_close(&t);
}

static void check_same(Setup a, Setup b) {
  Result x = run(a, a.two_passes), y = run(b, b.two_passes);
  check_equal(&x, &y);
  release(&x);
  release(&y);
}

TEST_BOTH(passes_reuse_micro_batches_and_threads_change_no_bit) {
  const Setup base[] = {
      turns,
      {.turns = true, .max_new = 40, .kl = 0.05, .estimator = KL_K3, .iterations = 2},
      {.turns = true, .max_new = 40, .own_loss = true, .lora = true},
      {.turns = true, .max_new = 40, .kl = 0.05, .estimator = KL_K2, .replace = true},
  };
  for (size_t i = 0; i < sizeof base / sizeof *base; i++) {
    Setup two = base[i], kept = base[i], cut = base[i], one = base[i], many = base[i];
    two.two_passes = true;
    check_same(base[i], two);
    kept.reuse = REUSE_ON;
    check_same(base[i], kept);
    cut.micro_batch_tokens = 150;
    if (!base[i].own_loss) check_same(base[i], cut);
    one.threads = 1;
    many.threads = 3;
    check_same(one, many);
  }
}

TEST(a_full_kl_leaves_out_what_is_injected) {
  const Setup s = {.turns = true, .max_new = 40, .kl = 0.05, .estimator = KL_FULL};
  Setup cut = s;
  cut.micro_batch_tokens = 150;
  check_same(s, cut);
}

TEST_BOTH(a_step_with_turns_takes_no_memory) {
  Setup s = turns;
  s.reuse = REUSE_ON;
  check_no_memory(&s, 12);
}

/* ---- the company a completion keeps ------------------------------------------------------- */

static void check_alone(Tiny *t, const Batch *b, const Prompt *prompts, const RolloutOptions *all) {
  for (int p = 0; p < b->nprompts; p++) {
    RolloutOptions o = *all;
    if (p % 3) continue;
    CHECK(!engine_rollout(t->engine, BATCH_EVAL, 1, &prompts[p], &o));
    const Batch *one = engine_batch(t->engine, BATCH_EVAL);
    for (int k = 0; k < b->group; k++) {
      const Completion *x = &b->completion[p * b->group + k], *y = &one->completion[k];
      const size_t n = (size_t)x->len;
      CHECK(x->len == y->len && memcmp(x->ids, y->ids, n * sizeof *x->ids) == 0);
      CHECK(memcmp(x->sampled, y->sampled, n) == 0);
      CHECK(memcmp(x->logp, y->logp, n * sizeof *x->logp) == 0);
    }
  }
}

/* of the sample alone, as request is another when a prompt is rolled out alone */
static Status same_reply(void *user, const Completion *c, int first, Reply *r) {
  Completion other = *c;
  other.request = 0;
  return some_reply(user, &other, first, r);
}

TEST_BOTH(a_completion_does_not_depend_on_its_company) {
  enum { MANY = 40 };
  static int32_t ids[MOST_PROMPTS][MOST_TOKENS];
  Prompt prompts[MOST_PROMPTS];
  RolloutOptions o = {.group = TINY_GROUP, .seed = 3, .step = 1};
  Tiny t;
  open_engine(&t, &turns);
  sampling_init(&o.sampling);
  o.sampling.max_new_tokens = 40;
  take_turns(&o);
  o.on_turn = same_reply;
  make_prompts(&t, 1, MANY, prompts, ids);
  /* into the slot that a single prompt does not overwrite; its random numbers are evaluation's */
  Batch *b = engine_batch(t.engine, BATCH_SAMPLE);
  CHECK(!engine_rollout(t.engine, BATCH_EVAL, MANY, prompts, &o));
  Batch *eval = engine_batch(t.engine, BATCH_EVAL), kept = *eval;
  batch_free(b);
  *b = kept; /* ours now */
  *eval = (Batch){0};
  check_alone(&t, &kept, prompts, &o);
  tiny_close(&t);
}

/* ---- order and limits ----------------------------------------------------------------------- */

typedef struct Log {
  int calls, last_len, last, disorder;
  int continues, n; /* what is answered */
  int32_t id;
} Log;

static Status watch(void *user, const Completion *c, int first, Reply *r) {
  static int32_t ids[256];
  Log *l = user;
  const int place = c->request * TINY_GROUP + c->sample;
  CHECK(first < c->len && c->finish != FINISH_LENGTH);
  /* only sampled tokens since `first`, and injected ones before it */
  for (int i = first; i < c->len; i++) CHECK(c->sampled[i] == 1);
  l->disorder += l->calls && c->len == l->last_len && place <= l->last;
  l->calls++;
  l->last_len = c->len;
  l->last = place;
  for (int i = 0; i < l->n; i++) ids[i] = l->id;
  *r = (Reply){.continues = l->continues, .ids = ids, .n = l->n};
  return GRPO_OK;
}

static Status roll_out_watched(Tiny *t, Log *l) {
  static int32_t ids[MOST_PROMPTS][MOST_TOKENS];
  Prompt prompts[MOST_PROMPTS];
  RolloutOptions o = {.group = TINY_GROUP, .seed = 3, .step = 1};
  sampling_init(&o.sampling);
  o.sampling.max_new_tokens = t->o.max_new_tokens;
  take_turns(&o);
  o.on_turn = watch;
  o.on_turn_user = l;
  make_prompts(t, 1, TINY_PROMPTS, prompts, ids);
  return engine_rollout(t->engine, BATCH_SAMPLE, TINY_PROMPTS, prompts, &o);
}

TEST(turns_that_end_together_are_answered_in_the_order_of_completions) {
  Log l = {.continues = 1, .n = 0};
  Tiny t;
  open_engine(&t, &turns);
  CHECK(!roll_out_watched(&t, &l));
  CHECK(l.calls > 10 && l.disorder == 0);
  tiny_close(&t);
}

TEST(a_reply_that_leaves_no_room_is_not_injected) {
  Log l = {.continues = 1, .n = 30, .id = 5};
  Tiny t;
  open_engine(&t, &turns);
  CHECK(!roll_out_watched(&t, &l));
  const Batch *b = engine_batch(t.engine, BATCH_SAMPLE);
  int cut = 0, answered = 0;
  for (int i = 0; i < batch_size(b); i++) {
    const Completion *c = &b->completion[i];
    CHECK(c->len <= 40 && c->sampled[c->len - 1] == 1);
    if (batch_sampled(b, i) < c->len) {
      CHECK(c->len - batch_sampled(b, i) == 30);
      answered++;
    } else if (c->len < 40) {
      CHECK(c->finish == FINISH_LENGTH);
      cut++;
    }
  }
  CHECK(cut > 0 && answered > 0);
  tiny_close(&t);
}

TEST(a_reply_outside_the_vocabulary_is_an_error_and_the_engine_goes_on) {
  Log l = {.continues = 1, .n = 2, .id = TINY_VOCAB};
  Tiny t;
  open_engine(&t, &turns);
  CHECK(roll_out_watched(&t, &l) == GRPO_EARG && strstr(err_message(), "outside the vocabulary"));
  l = (Log){.continues = 0};
  CHECK(!roll_out_watched(&t, &l) && l.calls > 0);
  const Batch *b = engine_batch(t.engine, BATCH_SAMPLE);
  for (int i = 0; i < batch_size(b); i++) CHECK(batch_sampled(b, i) == b->completion[i].len);
  tiny_close(&t);
}

TEST(turns_want_an_engine_made_for_them) {
  Log l = {0};
  Setup s = turns;
  Tiny t;
  s.turns = false;
  open_engine(&t, &s);
  CHECK(roll_out_watched(&t, &l) == GRPO_EARG && strstr(err_message(), "made without"));
  tiny_close(&t);
}
