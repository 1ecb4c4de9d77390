/* Truncated sampling: the log-probabilities of sampling and training are those of the distribution
 * that the filters left, so the gradient is the true one. */
#include <math.h>

#include "kern/token_set.h"
#include "model/forward_logits.h"
#include "rl/ppo.h"
#include "rl/share.h"
#include "rl/units.h"
#include "steps.h"

/* ---- five tokens, two positions: everything that can be sampled, enumerated ------------- */

enum { FIVE = 5, SAMPLES = 4096, CONTEXTS = 1 + FIVE };

static const int32_t prompt[] = {3, 1, 4};

static Config five_config(void) {
  Config c = tiny_config();
  c.vocab_size = FIVE;
  c.num_eos = 0;
  c.initializer_range = 0.2;
  c.tie_word_embeddings = false; /* a tied model repeats its input with near certainty */
  return c;
}

static void five_open(Tiny *t) {
  const Config c = five_config();
  *t = (Tiny){0};
  engine_options_init(&t->o);
  t->o.prompts_per_step = 1;
  t->o.group_size = SAMPLES;
  t->o.max_prompt_tokens = 3;
  t->o.max_new_tokens = 2;
  tiny_models(t, 2, &c, true);
  tokenizer_free(t->tok);
  t->tok = NULL;
  tiny_engine(t);
}

static Batch *five_rollout(Tiny *t, const Sampling *s) {
  const Prompt p = {.ids = prompt, .len = 3};
  const RolloutOptions ro = {.sampling = *s, .group = SAMPLES, .seed = 5};
  OK(engine_rollout(t->engine, BATCH_SAMPLE, 1, &p, &ro));
  return engine_batch(t->engine, BATCH_SAMPLE);
}

/* Some reward of each of the 25 texts. */
static double reward(int a, int b) { return ((a * 7 + b * 3) % 5) / 2.0 - 0.9 * (a == b); }

/* logp [FIVE] of the token after the context: the prompt, and `a` where that is a token. */
static void plain_logp(Tiny *t, int a, double temperature, double *logp) {
  int32_t ids[4] = {prompt[0], prompt[1], prompt[2], a}, pos[4] = {0, 1, 2, 3};
  const int n = a < 0 ? 3 : 4;
  const PackSpan span = {.prefix = -1, .n = n};
  const Pack p = {.nrows = n, .ids = ids, .pos = pos, .nspans = 1, .spans = &span};
  Tensor *logits;
  double sum = 0;
  tape_reset(&t->engine->tape);
  t->engine->tape.off = true;
  OK(forward_logits(t->model, &t->engine->tape, &p, &logits));
  t->engine->tape.off = false;
  const real *z = logits->data + (n - 1) * FIVE;
  for (int i = 0; i < FIVE; i++) sum += exp((double)z[i] / temperature);
  for (int i = 0; i < FIVE; i++) logp[i] = (double)z[i] / temperature - log(sum);
}

/* The tokens that can be sampled after the prompt (row 0) and after each first token (row 1 + it):
 * one bit each, from the sets that the batch has recorded. */
static void read_sets(const Batch *b, unsigned *sets) {
  memset(sets, 0, CONTEXTS * sizeof *sets);
  for (int i = 0; i < SAMPLES; i++) {
    const Completion *c = &b->completion[i];
    const uint32_t *set = c->sampling_mask->words;
    for (int k = 0; k < 2; k++, set = token_set_next(set, FIVE)) {
      unsigned bits = 0;
      unsigned *of = &sets[k ? 1 + c->ids[0] : 0];
      for (int v = 0; v < FIVE; v++) bits |= (unsigned)(token_set_place(set, FIVE, v) >= 0) << v;
      CHECK(!*of || *of == bits);
      *of = bits;
    }
  }
}

/* The expected reward; sets NULL: of all tokens. */
static double expected(Tiny *t, const unsigned *sets, double temperature) {
  double p[CONTEXTS][FIVE], value = 0;
  for (int c = 0; c < CONTEXTS; c++) {
    const unsigned set = sets ? sets[c] : 31;
    double sum = 0;
    plain_logp(t, c - 1, temperature, p[c]);
    for (int v = 0; v < FIVE; v++) sum += p[c][v] = set >> v & 1 ? exp(p[c][v]) : 0;
    for (int v = 0; v < FIVE; v++) p[c][v] /= sum > 0 ? sum : 1;
  }
  for (int a = 0; a < FIVE; a++)
    for (int b = 0; b < FIVE; b++) value += p[0][a] * p[1 + a][b] * reward(a, b);
  return value;
}

/* By central differences, at some numbers of each parameter; the weights stay as they are. */
static double slope(Tiny *t, const unsigned *sets, double temperature, real *weight) {
  const real at = *weight, h = (real)4e-3;
  *weight = at + h;
  model_updated(t->model);
  const double above = expected(t, sets, temperature);
  *weight = at - h;
  model_updated(t->model);
  const double below = expected(t, sets, temperature);
  *weight = at;
  model_updated(t->model);
  return (above - below) / (2 * (double)h);
}

/* One sample of each different text gets the weight of all of them, so that the loss is the
 * expected reward, exactly.  Returns the probability of all texts that occurred. */
static double weigh(const Batch *b, double *advantage) {
  bool seen[FIVE][FIVE] = {{false}};
  double all = 0;
  for (int i = 0; i < SAMPLES; i++) {
    const Completion *c = &b->completion[i];
    const int x = c->ids[0], y = c->ids[1];
    const double p = exp((double)c->logp[0] + (double)c->logp[1]);
    advantage[i] = seen[x][y] ? 0 : p * reward(x, y) * SAMPLES;
    all += seen[x][y] ? 0 : p;
    seen[x][y] = true;
  }
  return all;
}

static void check_expected_gradient(const Sampling *s) {
  static double advantage[SAMPLES];
  const Config c = five_config();
  unsigned sets[CONTEXTS];
  double wrong = 0, off = 0, size = 0;
  UpdateOptions o;
  StepMetrics m;
  Model *before;
  Tiny t;
  five_open(&t);
  CHECK(c.vocab_size == FIVE);
  Batch *b = five_rollout(&t, s);
  read_sets(b, sets);
  CHECK_NEAR(weigh(b, advantage), 1, 1e-5);
  OK(model_copy(&before, t.model));
  update_options_init(&o, LOSS_dr_grpo);
  o.advantage = advantage;
  o.loss.max_new_tokens = 2;
  o.lr = 1e-3;
  OK(engine_update(t.engine, b, &o, &m));
  CHECK(m.ratio_max_deviation == 0);
  for (int i = 0; i < model_num_params(t.model); i++) {
    Param *p = model_param(t.model, i), *old = model_param(before, i);
    memcpy(p->t.data, old->t.data, p->t.n * sizeof *p->t.data);
  }
  for (int i = 0; i < model_num_params(t.model); i++) {
    Param *p = model_param(t.model, i);
    for (size_t k = 0; k < 3; k++) {
      const size_t at = (k * 7919 + 13) % p->t.n;
      const double got = -2 * (double)p->t.grad[at]; /* the loss is divided by the longest text */
      const double want = slope(&t, sets, s->temperature, p->t.data + at);
      const double of_all = slope(&t, NULL, s->temperature, p->t.data + at);
      off += (got - want) * (got - want);
      wrong += (got - of_all) * (got - of_all);
      size += want * want;
    }
  }
  if (!(off < 1e-4 * size)) /* 1 % */
    test_fail(__FILE__, __LINE__, "gradient off by %g of %g", sqrt(off), sqrt(size));
  if (!(wrong > 100 * off)) /* and it is not that of sampling among all tokens */
    test_fail(__FILE__, __LINE__, "off by %g, of all tokens %g", sqrt(off), sqrt(wrong));
  model_release(before);
  tiny_close(&t);
}

TEST(the_expected_gradient_is_the_true_one) {
  Sampling s;
  sampling_init(&s);
  s.max_new_tokens = 2;
  s.top_k = 3;
  check_expected_gradient(&s);
  s.top_k = 0, s.top_p = 0.8, s.temperature = 0.7;
  check_expected_gradient(&s);
  s.top_p = 1, s.min_p = 0.3;
  check_expected_gradient(&s);
}

/* ---- records -------------------------------------------------------------------------------- */

TEST(without_filters_nothing_is_recorded) {
  Tiny t;
  tiny_open(&t, 1, NULL);
  const Batch *b = tiny_rollout(&t, 1);
  for (int i = 0; i < batch_size(b); i++) CHECK(!b->completion[i].sampling_mask);
  CHECK(!b->sampling_mask);
  tiny_close(&t);
}

TEST(one_token_that_is_left_has_probability_one) {
  const Prompt p = {.ids = prompt, .len = 3};
  RolloutOptions ro = {.group = TINY_GROUP};
  Tiny t;
  tiny_open(&t, 1, NULL);
  sampling_init(&ro.sampling);
  ro.sampling.max_new_tokens = TINY_NEW;
  ro.sampling.top_k = 1;
  OK(engine_rollout(t.engine, BATCH_SAMPLE, 1, &p, &ro));
  const Batch *b = engine_batch(t.engine, BATCH_SAMPLE);
  for (int i = 0; i < batch_size(b); i++)
    for (int k = 0; k < b->completion[i].len; k++)
      CHECK(b->completion[i].logp[k] == 0 && b->completion[i].entropy[k] == 0);
  tiny_close(&t);
}

/* ---- every loss, every KL --------------------------------------------------------------- */

static void check_loss(LossKind kind, KlEstimator kl, double coef) {
  const Setup s = {.truncated = true};
  double adv[64];
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  open_engine(&t, &s);
  for (uint32_t k = 1; k <= 2; k++) {
    Batch *b = roll_out(&t, &s, k);
    tiny_advantages(b, adv);
    update_options_init(&o, kind);
    o.advantage = adv;
    o.iterations = 2;
    o.lr = 1e-3;
    o.loss.max_new_tokens = TINY_NEW;
    o.loss.entropy = 0.01;
    o.loss.kl = coef;
    o.loss.kl_estimator = kl;
    OK(engine_reference(t.engine, b));
    OK(engine_update(t.engine, b, &o, &m));
    CHECK(m.ratio_max_deviation == 0 && isfinite(m.loss) && m.grad_norm > 0);
  }
  tiny_close(&t);
}

TEST_BOTH(every_loss_and_every_kl_starts_with_ratio_one) {
  for (int kind = 0; kind < LOSS_COUNT; kind++) check_loss((LossKind)kind, KL_K3, 0.02);
  static const KlEstimator all[] = {KL_K2, KL_K3, KL_FULL};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_loss(LOSS_grpo, all[i], 0.1);
}

/* ---- the same bits ---------------------------------------------------------------------- */

static void check_same_bits(const Setup *s) {
  Setup with = *s;
  with.reuse = REUSE_ON;
  with.threads = 1;
  Result plain = run(*s, true), one = run(*s, false), reused = run(with, false);
  check_equal(&plain, &one);
  check_equal(&plain, &reused);
  CHECK(one.pieces < plain.pieces);
  release(&plain);
  release(&one);
  release(&reused);
  CHECK(uses_activations(with));
}

TEST_BOTH(one_pass_and_reused_activations_give_the_same_bits) {
  const Setup setups[] = {
      {.truncated = true, .entropy = 0.01},
      {.truncated = true, .entropy = 0.01, .untied = true, .micro_batch_tokens = 100},
      {.truncated = true, .kl = 0.05, .estimator = KL_K3, .iterations = 3},
      {.truncated = true, .entropy = 0.01, .lora = true},
      {.truncated = true, .own_loss = true, .lora = true, .untied = true},
      {.truncated = true, .entropy = 0.01, .replace = true},
      {.truncated = true, .entropy = 0.01, .turns = true, .max_new = 40, .max_prompt = 12},
  };
  for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) check_same_bits(&setups[i]);
}

TEST_BOTH(a_softcap_and_micro_batches_change_no_bit) {
  const Setup s = {.truncated = true, .capped = true, .entropy = 0.01, .threads = 2};
  Setup cut = s;
  cut.micro_batch_tokens = 100;
  Result whole = run(s, false), parts = run(cut, false);
  check_equal(&whole, &parts);
  release(&whole);
  release(&parts);
}

/* ---- memory ----------------------------------------------------------------------------- */

TEST(the_estimate_bounds_what_the_sets_take) {
  const Setup s = {.truncated = true};
  StepMetrics m;
  Tiny t;
  open_engine(&t, &s);
  for (uint32_t k = 1; k <= 4; k++) step(&t, &s, k, &m);
  const Batch *b = engine_batch(t.engine, BATCH_SAMPLE);
  const size_t most = sampling_mask_words(TINY_VOCAB, TINY_VOCAB, TINY_NEW);
  size_t words = 0;
  for (int i = 0; i < batch_size(b); i++) {
    CHECK(b->sampling_mask[i].len > 0 && b->sampling_mask[i].len <= b->sampling_mask[i].room &&
          b->sampling_mask[i].room <= most);
    words += b->sampling_mask[i].room;
  }
  CHECK(words <= most * TINY_PROMPTS * TINY_GROUP);
  CHECK(most == TINY_NEW * (1 + (TINY_VOCAB + 31) / 32));
  CHECK(sampling_mask_words(151936, 0, 1000) == 0);
  CHECK(sampling_mask_words(151936, 50, 1000) == 51000);
  CHECK(sampling_mask_words(151936, 151936, 1000) == 1000 * (1 + 151936 / 32));
  tiny_close(&t);
}
