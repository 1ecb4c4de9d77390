/* Training an adapter: rollouts and the first forward agree to the bit, the base stays, dropout
 * depends on nothing but its address. */
#include "base/mem.h"
#include "checkpoint/peft.h"
#include "model/lora_merge.h"
#include "model/model_copy.h"
#include "rl/sft.h"
#include "tiny.h"

typedef struct Setup {
  int threads, micro_batch_tokens, iterations;
  double dropout, kl;
  uint64_t seed;
  bool checkpointing;
} Setup;

static const char *const all_linear[] = {"all-linear"};

/* An adapter that matters from the start, and the base as reference. */
static void open_adapted(Tiny *t, const Setup *s) {
  const LoraOptions lora = {
      .rank = 4, .alpha = 8, .dropout = s->dropout, .ntargets = 1, .targets = all_linear};
  *t = (Tiny){0};
  tiny_options(&t->o);
  t->o.micro_batch_tokens = s->micro_batch_tokens;
  t->o.gradient_checkpointing = s->checkpointing;
  tiny_models(t, s->threads ? s->threads : 1, NULL, false);
  CHECK(!lora_add(t->model, &lora, 4));
  for (int i = 0; i < model_num_params(t->model); i++) {
    Param *p = model_param(t->model, i);
    const RngKey key = {.seed = 6, .stream = RNG_USER, .prompt = (uint32_t)i};
    if (!strstr(p->name, "lora_B")) continue;
    for (size_t k = 0; k < p->t.n; k++) p->t.data[k] = (real)(0.1 * rng_normal(&key, k));
  }
  model_updated(t->model);
  CHECK(!model_view(&t->reference, t->model));
  tiny_engine(t);
}

static void step(Tiny *t, const Setup *s, uint32_t number, StepMetrics *m) {
  UpdateOptions o;
  update_options_init(&o, LOSS_grpo);
  o.lr = 1e-2;
  o.loss.max_new_tokens = TINY_NEW;
  o.loss.entropy = 0.01; /* no forward is left out */
  o.loss.kl = s->kl;
  o.iterations = s->iterations ? s->iterations : 1;
  o.seed = s->seed;
  o.step = number;
  tiny_step(t, number, &o, m);
}

static bool base_unchanged(Tiny *t) {
  const Config c = tiny_config();
  Model *plain;
  CHECK(!model_new(&plain, t->pool, &c, 1));
  bool same = true;
  for (int i = 0; i < model_num_params(plain); i++) {
    real *x = values_of(plain, i), *y = values_of(t->model, i);
    same = same && memcmp(x, y, model_param(plain, i)->t.n * sizeof *x) == 0;
    free(x), free(y);
  }
  model_release(plain);
  return same;
}

TEST_BOTH(sampling_and_training_with_an_adapter_agree_to_the_bit) {
  const Setup s = {.threads = 2, .iterations = 3};
  StepMetrics m;
  Tiny t;
  open_adapted(&t, &s);
  Model *before;
  CHECK(!model_copy(&before, t.model));
  for (uint32_t i = 1; i <= 4; i++) {
    step(&t, &s, i, &m);
    CHECK(m.ratio_max_deviation == 0 && m.grad_norm > 0);
  }
  CHECK(!same_weights(before, t.model));
  CHECK(base_unchanged(&t));
  model_release(before);
  tiny_close(&t);
}

/* ---- the same bits --------------------------------------------------------------- */

typedef struct Result {
  Model *weights;
  StepMetrics m;
} Result;

static Result run(Setup s) {
  Result r;
  Tiny t;
  s.iterations = 2;
  s.kl = 0.05;
  open_adapted(&t, &s);
  for (uint32_t i = 1; i <= 3; i++) step(&t, &s, i, &r.m);
  CHECK(!model_copy(&r.weights, t.model));
  tiny_close(&t);
  return r;
}

static bool same(const Result *a, Result b) {
  const bool equal = same_weights(a->weights, b.weights) && a->m.loss == b.m.loss &&
                     a->m.grad_norm == b.m.grad_norm && a->m.kl == b.m.kl;
  model_release(b.weights);
  return equal;
}

static void check_bits(double dropout) {
  Result a = run((Setup){.threads = 1, .dropout = dropout, .seed = 3});
  CHECK(isnan(a.m.ratio_max_deviation) == (dropout > 0));
  CHECK(same(&a, run((Setup){.threads = 2, .dropout = dropout, .seed = 3})));
  CHECK(same(&a, run((Setup){.micro_batch_tokens = 100, .dropout = dropout, .seed = 3})));
  CHECK(same(
      &a, run((Setup){.threads = 2, .micro_batch_tokens = 100000, .dropout = dropout, .seed = 3})));
  CHECK(same(&a, run((Setup){.checkpointing = true, .dropout = dropout, .seed = 3})));
  CHECK(same(&a, run((Setup){.seed = 4, .dropout = dropout})) == (dropout == 0));
  model_release(a.weights);
}

TEST_BOTH(threads_and_micro_batches_do_not_change_an_adapter_s_bits) { check_bits(0); }
TEST_BOTH(nor_do_they_with_dropout) { check_bits(0.3); }

/* ---- the reference --------------------------------------------------------------- */

TEST_BOTH(the_reference_of_a_fresh_adapter_is_its_base) {
  const Setup s = {.kl = 0.1};
  const LoraOptions lora = {.rank = 4, .alpha = 8, .ntargets = 1, .targets = all_linear};
  StepMetrics m;
  Tiny t = {0};
  tiny_options(&t.o);
  tiny_models(&t, 1, NULL, false);
  CHECK(!lora_add(t.model, &lora, 4));
  CHECK(!model_view(&t.reference, t.model));
  tiny_engine(&t);
  step(&t, &s, 1, &m);
  CHECK(m.kl == 0);
  step(&t, &s, 2, &m);
  CHECK(m.kl > 0);
  tiny_close(&t);
}

/* ---- state ----------------------------------------------------------------------- */

TEST_BOTH(a_resumed_engine_goes_on_with_the_same_bits) {
  const Setup s = {.dropout = 0.1, .kl = 0.05, .iterations = 2};
  StepMetrics m, n;
  Tiny t, u;
  open_adapted(&t, &s);
  for (uint32_t i = 1; i <= 2; i++) step(&t, &s, i, &m);
  CHECK(!peft_save(t.model, test_tmp(), NULL));
  CHECK(!engine_save(t.engine, test_tmp()));
  const Config c = tiny_config();
  u = (Tiny){.o = t.o};
  CHECK(!pool_new(&u.pool, 2));
  CHECK(!model_new(&u.model, u.pool, &c, 1));
  CHECK(!model_set_compute(u.model, test_compute));
  CHECK(!peft_load(u.model, test_tmp()));
  CHECK(!model_view(&u.reference, u.model));
  CHECK(!tokenizer_bytes(&u.tok));
  CHECK(!engine_new(&u.engine, u.pool, u.model, u.reference, u.tok, &u.o));
  CHECK(!engine_load(u.engine, test_tmp()));
  step(&t, &s, 3, &m);
  step(&u, &s, 3, &n);
  CHECK(m.loss == n.loss && m.grad_norm == n.grad_norm);
  CHECK(same_weights(t.model, u.model));
  tiny_close(&t);
  tiny_close(&u);
}

TEST(an_engine_whose_adapter_went_away_stops) {
  const Setup s = {.threads = 1};
  StepMetrics m;
  Tiny t;
  Arena arena = {0};
  open_adapted(&t, &s);
  step(&t, &s, 1, &m);
  UpdateOptions o;
  double adv[64];
  update_options_init(&o, LOSS_grpo);
  o.loss.max_new_tokens = TINY_NEW;
  Batch *b = tiny_rollout(&t, 2);
  tiny_advantages(b, adv);
  o.advantage = adv;
  CHECK(lora_merge(t.model) == GRPO_EARG); /* the reference is a view */
  engine_free(t.engine);
  model_release(t.reference);
  t.reference = NULL;
  CHECK(!engine_new(&t.engine, t.pool, t.model, NULL, t.tok, &t.o));
  b = tiny_rollout(&t, 2);
  CHECK(!lora_merge(t.model));
  CHECK(engine_update(t.engine, b, &o, &m) == GRPO_EARG);
  arena_free(&arena);
  tiny_close(&t);
}

/* ---- memory ---------------------------------------------------------------------- */

static void check_steady(double dropout) {
  const Setup s = {.threads = 2, .dropout = dropout, .kl = 0.05};
  StepMetrics m;
  Tiny t;
  uint64_t before = 0;
  open_adapted(&t, &s);
  for (uint32_t i = 1; i <= 6; i++) {
    step(&t, &s, i, &m);
    if (i == 2) before = mem_allocations();
  }
  CHECK_NEAR(mem_allocations() - before, 0, 0);
  tiny_close(&t);
}

TEST_BOTH(a_step_on_an_adapter_takes_no_memory) {
  check_steady(0);
  check_steady(0.2);
}

/* ---- demonstrations -------------------------------------------------------------- */

static double sft_loss(double dropout, int threads, uint64_t seed) {
  static const int32_t ids[] = {5, 9, 100, 31, 7, 44, 45, 46, 200, 3};
  const Example x[] = {{ids, ids + 4, 4, 6, NULL}, {ids + 2, ids + 5, 3, 5, NULL}};
  const Setup s = {.threads = threads, .dropout = dropout};
  const SftOptions o = {.lr = 0, .seed = seed, .step = 5};
  StepMetrics m;
  double nll;
  int64_t tokens;
  Tiny t;
  open_adapted(&t, &s);
  CHECK(!engine_sft(t.engine, 2, x, &o, &m));
  CHECK(!engine_nll(t.engine, 2, x, &nll, &tokens));
  CHECK((m.loss == nll) == (dropout == 0)); /* the likelihood alone knows no dropout */
  tiny_close(&t);
  return m.loss;
}

TEST(demonstrations_train_an_adapter_with_dropout_too) {
  CHECK(sft_loss(0, 1, 1) == sft_loss(0, 2, 2));
  CHECK(sft_loss(0.2, 1, 1) == sft_loss(0.2, 2, 1));
  CHECK(sft_loss(0.2, 1, 1) != sft_loss(0.2, 1, 2));
}
