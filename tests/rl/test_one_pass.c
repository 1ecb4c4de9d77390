/* The head in one pass: taking the record made while sampling for the head's result changes no bit
 * of gradients, metrics or checkpoints, and a record that is wrong is found and left aside. */
#include "model/forward.h"
#include "model/forward_logits.h"
#include "rl/sft.h"
#include "steps.h"

/* In one pass `units` units do without the projection's forward, which counts the same number of
 * pieces for each. */
static void check_same(const Setup *s, uint64_t units) {
  Result two = run(*s, true), one = run(*s, false);
  if (s->damaged)
    CHECK(one.pieces > two.pieces); /* the second try */
  else if (units)
    CHECK(one.pieces < two.pieces && (two.pieces - one.pieces) % units == 0);
  else
    CHECK(one.pieces == two.pieces);
  check_equal(&one, &two);
  release(&one);
  release(&two);
}

enum { UNITS = 3 * TINY_PROMPTS }; /* of three steps */

TEST_BOTH(one_pass_of_the_head_gives_the_bits_of_two) {
  const Setup setups[] = {
      {.entropy = 0.01},
      {.entropy = 0.01, .untied = true},
      {.kl = 0.05, .estimator = KL_K3, .iterations = 2},
      {.kl = 0.05, .estimator = KL_K2, .micro_batch_tokens = 100},
      {.entropy = 0.01, .micro_batch_tokens = 100000, .checkpointing = true},
      {.entropy = 0.01, .capped = true},
      {.kl = 0.05, .estimator = KL_K3, .lora = true},
      {.entropy = 0.01, .lora = true, .capped = true, .micro_batch_tokens = 100},
      {.own_loss = true},
      {.own_loss = true, .lora = true, .untied = true, .micro_batch_tokens = 100, .iterations = 2},
  };
  for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) check_same(&setups[i], UNITS);
}

TEST(units_without_gradient_need_no_head_at_all) {
  check_same(&(Setup){0}, UNITS - 3); /* a group without advantages in each of three steps */
}

TEST(a_full_kl_and_dropout_take_two_passes) {
  check_same(&(Setup){.kl = 0.05, .estimator = KL_FULL}, 0);
  check_same(&(Setup){.lora = true, .dropout = 0.2, .entropy = 0.01}, 0);
}

/* ---- a record that is wrong ------------------------------------------------------- */

static int warnings;
static void count_warnings(void *user, LogLevel level, const char *text) {
  (void)user;
  if (level == LOG_WARNING && strstr(text, "ratio is off 1 by")) warnings++;
}

TEST(a_wrong_record_is_reported_and_nothing_is_taken_from_it) {
  log_set_sink(count_warnings, NULL);
  check_same(&(Setup){.entropy = 0.01, .damaged = true}, UNITS);
  check_same(&(Setup){.own_loss = true, .damaged = true, .micro_batch_tokens = 100}, UNITS);
  log_set_sink(NULL, NULL);
  CHECK(warnings == 2 * 2 * 3); /* every step of every run */
}

/* Calls of the loss: a wrong record makes the pass, and so the call, happen twice. */
static int calls;
static Status counted_loss(void *user, const LossInput *in, Value **loss) {
  calls++;
  return own_loss(user, in, loss);
}

TEST(a_policy_that_changed_since_it_sampled_takes_two_passes) {
  const Setup s = {.own_loss = true, .micro_batch_tokens = 100000};
  double adv[64];
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  open_engine(&t, &s);
  update_options_init(&o, LOSS_grpo);
  o.lr = 1e-2;
  Batch *b = tiny_batch(&t, 1, adv, &o);
  o.loss_fn = counted_loss;
  o.loss_user = &t.engine->loss_tape.cx;
  calls = 0;
  CHECK(!engine_update(t.engine, b, &o, &m));
  CHECK(calls == 1 && m.ratio_max_deviation == 0);
  log_set_sink(count_warnings, NULL);
  CHECK(!engine_update(t.engine, b, &o, &m)); /* the same batch once more */
  log_set_sink(NULL, NULL);
  CHECK(calls == 2 && m.ratio_max_deviation > 0); /* and no second try */
  tiny_close(&t);
}

TEST(weights_that_are_not_finite_are_found) {
  const Setup s = {.entropy = 0.01};
  double adv[64];
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  open_engine(&t, &s);
  update_options_init(&o, LOSS_grpo);
  Batch *b = tiny_batch(&t, 1, adv, &o);
  o.loss.entropy = 0.01;
  Tensor *embedding = &model_param(t.model, 0)->t; /* behind the model's back */
  for (size_t i = 0; i < embedding->n; i++) embedding->data[i] = (real)NAN;
  CHECK(engine_update(t.engine, b, &o, &m) == GRPO_EDIVERGED);
  CHECK(optimizer_steps(t.engine->optimizer) == 0);
  tiny_close(&t);
}

/* ---- demonstrations ---------------------------------------------------------------- */

TEST_BOTH(demonstrations_in_one_pass_have_the_gradient_of_two) {
  enum { N = 6 };
  const Setup s = {0};
  int32_t ids[N][12];
  Example x[N];
  StepMetrics m;
  Result want = {0}, got = {0};
  Tensor *hidden, *out;
  Pack p;
  Unit unit[N];
  Tiny t;
  open_engine(&t, &s);
  for (int i = 0; i < N; i++) {
    for (int k = 0; k < 12; k++) ids[i][k] = (i * 13 + k * k) % 256;
    x[i] = (Example){ids[i], ids[i] + 1 + i, 1 + i, 11 - i, NULL};
  }
  CHECK(units_of_examples(N, x, unit) == 1);
  Tape *tape = &t.engine->tape;
  model_zero_grad(t.model);
  tape_reset(tape);
  CHECK(!unit_pack_examples(&tape->arena, model_config(t.model), x, unit, &p));
  CHECK(!forward_hidden(t.model, tape, &p, &hidden));
  CHECK(!forward_logp(t.model, tape, &p, hidden, 1, NULL, NULL, &out));
  real *seed = calloc(out->n, sizeof *seed);
  double nll = 0;
  for (int i = 0; i < unit->tokens; i++) {
    seed[i] = (real)(-1 / (double)unit->tokens);
    nll -= (double)out->data[i];
  }
  CHECK(!tape_backward_from(tape, out, seed));
  keep_gradients(t.model, &want);
  CHECK(!engine_sft(t.engine, N, x, &(SftOptions){.lr = 0}, &m));
  keep_gradients(t.model, &got);
  CHECK(got.n == want.n && memcmp(got.grads, want.grads, got.n * sizeof *got.grads) == 0);
  CHECK(m.loss == nll / unit->tokens);
  free(seed);
  free(want.grads);
  free(got.grads);
  tiny_close(&t);
}
