/* Targets that completions are compared with, and the bigram as a reference. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "model/forward.h"
#include "model/forward_logits.h"
#include "model/model_copy.h"
#include "rl/bigram.h"
#include "tiny.h"

/* ---- targets ------------------------------------------------------------------------- */

enum { PROMPT = 6 };

static int32_t prompt_ids[TINY_PROMPTS][PROMPT], target_ids[TINY_PROMPTS][TINY_NEW + 3];

/* Targets of 0, 4, all and more tokens than a completion may have. */
static Batch *rollout_with_targets(Tiny *t, uint32_t step, double temperature) {
  static const int target_len[TINY_PROMPTS] = {0, 4, TINY_NEW, TINY_NEW + 3};
  Prompt prompts[TINY_PROMPTS];
  RolloutOptions ro = {.group = TINY_GROUP, .seed = 3, .step = step};
  sampling_init(&ro.sampling);
  ro.sampling.max_new_tokens = TINY_NEW;
  ro.sampling.temperature = temperature;
  for (int p = 0; p < TINY_PROMPTS; p++) {
    for (int i = 0; i < PROMPT; i++)
      prompt_ids[p][i] = (int32_t)((31 * (int)step + 17 * p + i) % 256);
    for (int i = 0; i < target_len[p]; i++) target_ids[p][i] = (7 * p + 13 * i) % 256;
    prompts[p] =
        (Prompt){prompt_ids[p], PROMPT, step * 16 + (uint32_t)p, target_ids[p], target_len[p]};
  }
  OK(engine_rollout(t->engine, BATCH_SAMPLE, TINY_PROMPTS, prompts, &ro));
  return engine_batch(t->engine, BATCH_SAMPLE);
}

/* The training forward's log-probability of the target's token after the completion's first
 * `at`. */
static real trained(Tiny *t, const Batch *b, int i, int at) {
  Tape *tape = &t->engine->tape;
  int32_t ids[TINY_NEW];
  const int32_t *one = ids;
  const int len = at + 1;
  PackGroup g = {.n = 1, .completion = &one, .completion_len = &len};
  Tensor *hidden, *out;
  Pack p;
  memcpy(ids, b->completion[i].ids, (size_t)at * sizeof *ids);
  ids[at] = target_ids[i / b->group][at];
  g.prompt = batch_prompt(b, i / b->group, &g.prompt_len);
  tape_reset(tape);
  CHECK(!pack_groups(&tape->arena, model_config(t->model), 1, &g, &p));
  CHECK(!forward_hidden(t->model, tape, &p, &hidden));
  CHECK(!forward_logp(t->model, tape, &p, hidden, b->temperature, NULL, NULL, &out));
  return out->data[at];
}

TEST_BOTH(log_probabilities_of_targets_are_those_of_training) {
  Tiny t;
  tiny_open(&t, 2, NULL);
  const double temperatures[] = {1, 0.7, 0};
  for (int k = 0; k < 3; k++) {
    const Batch *b = rollout_with_targets(&t, (uint32_t)k, temperatures[k]);
    int compared = 0, differ = 0;
    CHECK(b->target_len[0] == 0 && b->target_len[1] == 4 && b->target_len[2] == TINY_NEW &&
          b->target_len[3] == TINY_NEW);
    for (int i = 0; i < batch_size(b); i++)
      for (int at = 0; at < b->completion[i].len && at < b->target_len[i / b->group]; at++) {
        differ += trained(&t, b, i, at) != b->completion[i].target_logp[at];
        compared++;
      }
    CHECK(compared > 50);
    CHECK_NEAR(differ, 0, 0);
  }
  tiny_close(&t);
}

TEST(a_target_outside_the_vocabulary_is_refused) {
  Tiny t;
  RolloutOptions ro = {.group = 1};
  const int32_t ids[] = {1, 2}, bad[] = {TINY_VOCAB};
  tiny_open(&t, 1, NULL);
  sampling_init(&ro.sampling);
  ro.sampling.max_new_tokens = TINY_NEW;
  const Prompt p = {.ids = ids, .len = 2, .target = bad, .target_len = 1};
  REFUSED(engine_rollout(t.engine, BATCH_SAMPLE, 1, &p, &ro), GRPO_EARG, "target 1");
  tiny_close(&t);
}

/* ---- the bigram ---------------------------------------------------------------------- */

/* Every row of b is log((count + 1) / (sum + vocab)) of these counts, to the last bit. */
static void check_rows(const Bigram *b, int v, const uint32_t *count) {
  real *row = malloc((size_t)v * sizeof *row);
  for (int i = 0; i < v; i++) {
    double total = (double)v;
    for (int j = 0; j < v; j++) total += count[i * v + j];
    bigram_row(b, i, row);
    for (int j = 0; j < v; j++) CHECK(row[j] == (real)log((count[i * v + j] + 1.0) / total));
  }
  free(row);
}

TEST(a_bigram_counts_with_one_added) {
  Bigram *b;
  CHECK(!bigram_new(&b, 3));
  check_rows(b, 3, (uint32_t[9]){0});
  const int32_t text[] = {0, 1, 1, 0, 1}, more[] = {2, 2};
  CHECK(!bigram_count(b, 5, text));
  CHECK(!bigram_count(b, 2, more));
  CHECK(!bigram_count(b, 0, NULL));
  CHECK(!bigram_update(b));
  check_rows(b, 3, (uint32_t[]){0, 2, 0, 1, 1, 0, 0, 0, 1});
  CHECK(bigram_pairs(b) == 4);
  CHECK(bigram_count(b, 1, (int32_t[]){3}) == GRPO_EARG);
  bigram_free(bigram_retain(b));
  CHECK(bigram_vocab(b) == 3);
  bigram_free(b);
}

/* Tokens whose frequency falls as in texts. */
static int32_t skewed(uint64_t i, int vocab) {
  const uint64_t h = (i + 1) * 0x9e3779b97f4a7c15u;
  const double u = (double)((h ^ h >> 29) * 0xbf58476d1ce4e5b9u >> 11) / 9007199254740992.0;
  return (int32_t)(pow(vocab, u) - 1);
}

TEST(a_bigram_has_the_logits_of_a_dense_table) {
  enum { V = 97, N = 300, TEXTS = 90 };
  static uint32_t count[V * V];
  int32_t text[N];
  Bigram *b;
  REQUIRE(bigram_new(&b, V));
  for (uint64_t k = 0; k < TEXTS; k++) { /* more pairs than may wait */
    for (uint64_t i = 0; i < N; i++) text[i] = skewed(k * N + i, V);
    for (int i = 1; i < N; i++) count[text[i - 1] * V + text[i]]++;
    OK(bigram_count(b, N, text));
    if (k % 40 == 7) OK(bigram_update(b)); /* between the texts, too */
  }
  OK(bigram_update(b));
  check_rows(b, V, count);
  size_t seen = 0;
  for (int i = 0; i < V * V; i++) seen += count[i] > 0;
  CHECK(bigram_pairs(b) == seen);
  bigram_free(b);
}

TEST(a_bigram_of_a_large_vocabulary_takes_memory_for_what_was_seen) {
  enum { V = 50257, N = 200000 };
  const size_t live = mem_live_bytes();
  int32_t *text = malloc(N * sizeof *text);
  real *row = malloc(V * sizeof *row);
  Bigram *b;
  for (uint64_t i = 0; i < N; i++) text[i] = skewed(i, V);
  REQUIRE(bigram_new(&b, V));
  OK(bigram_count(b, N, text));
  OK(bigram_update(b));
  const size_t bytes = mem_live_bytes() - live;
  CHECK(bigram_pairs(b) > 50000 && bigram_pairs(b) < N);
  CHECK(bigram_bytes(b) <= 12 * bigram_pairs(b) + 12 * (V + 1) + 256);
  CHECK(bytes >= bigram_bytes(b) && bytes <= bigram_bytes(b) + 512);
  for (int32_t prev = 0; prev < V; prev += 1777) {
    double sum = 0;
    bigram_row(b, prev, row);
    for (int j = 0; j < V; j++) sum += exp((double)row[j]);
    CHECK_NEAR(sum, 1, 1e-5);
  }
  bigram_free(b);
  free(text);
  free(row);
  CHECK(mem_live_bytes() == live);
}

TEST(a_bigram_without_memory_is_refused_and_stays_what_it_was) {
  enum { V = 8, N = 9000 };
  static uint32_t count[V * V];
  Bigram *b;
  int32_t text[N];
  for (uint64_t n = 1; n <= 4; n++) {
    const size_t live = mem_live_bytes();
    mem_fail_after(n);
    CHECK(bigram_new(&b, V) == GRPO_ENOMEM && !b);
    mem_fail_after(0);
    CHECK(mem_live_bytes() == live);
  }
  for (uint64_t i = 0; i < N; i++) text[i] = skewed(i, V);
  for (int i = 1; i < N; i++) count[text[i - 1] * V + text[i]]++;
  REQUIRE(bigram_new(&b, V));
  mem_fail_after(1);
  CHECK(bigram_count(b, N, text) == GRPO_ENOMEM);
  mem_fail_after(0);
  check_rows(b, V, (uint32_t[V * V]){0});
  OK(bigram_count(b, N, text));
  mem_fail_after(1);
  CHECK(bigram_update(b) == GRPO_ENOMEM);
  mem_fail_after(0);
  OK(bigram_update(b));
  check_rows(b, V, count);
  bigram_free(b);
}

static Bigram *counted(void) {
  Bigram *b;
  int32_t text[4000];
  CHECK(!bigram_new(&b, TINY_VOCAB));
  for (int i = 0; i < 4000; i++) text[i] = (i * i / 7 + 3 * i) % 256;
  CHECK(!bigram_count(b, 4000, text));
  CHECK(!bigram_update(b));
  return b;
}

/* A tiny engine whose reference is a bigram. */
static void open_bigram(Tiny *t, int threads, int micro_batch_tokens) {
  *t = (Tiny){0};
  tiny_options(&t->o);
  t->o.micro_batch_tokens = micro_batch_tokens;
  t->o.bigram = counted();
  tiny_models(t, threads, NULL, false);
  tiny_engine(t);
  bigram_free(t->o.bigram);
}

static void step_once(Tiny *t, uint32_t step, KlEstimator kl, double beta, double lr,
                      StepMetrics *m) {
  UpdateOptions o;
  double adv[64];
  update_options_init(&o, LOSS_grpo);
  o.loss.kl_estimator = kl;
  o.loss.kl = beta;
  o.loss.max_new_tokens = TINY_NEW;
  o.lr = lr;
  Batch *b = tiny_batch(t, step, adv, &o);
  if (kl != KL_FULL) CHECK(!engine_reference(t->engine, b));
  OK(engine_update(t->engine, b, &o, m));
}

/* By hand and in double: KL(policy || bigram) at every token of the batch, and log P(token). */
static double full_kl_by_hand(Tiny *t, double *ref_sum) {
  Engine *e = t->engine;
  const Batch *b = engine_batch(e, BATCH_SAMPLE);
  real ref[TINY_VOCAB];
  double sum = 0;
  int tokens = 0;
  *ref_sum = 0;
  for (int i = 0; i < batch_size(b); i++) {
    int32_t ids[TINY_PROMPT + TINY_NEW];
    int n, len = b->completion[i].len;
    const int32_t *one = ids, *prompt = batch_prompt(b, i / b->group, &n);
    memcpy(ids, prompt, (size_t)n * sizeof *ids);
    memcpy(ids + n, b->completion[i].ids, (size_t)len * sizeof *ids);
    const int all = n + len - 1;
    PackGroup g = {
        .prompt = ids, .prompt_len = 1, .n = 1, .completion = &one, .completion_len = &all};
    one = ids + 1;
    Tensor *logits;
    Pack p;
    tape_reset(&e->tape);
    CHECK(!pack_groups(&e->tape.arena, model_config(t->model), 1, &g, &p));
    CHECK(!forward_logits(t->model, &e->tape, &p, &logits));
    for (int k = 0; k < len; k++, tokens++) {
      const real *z = logits->data + (size_t)(n - 1 + k) * TINY_VOCAB;
      bigram_row(e->o.bigram, ids[n - 1 + k], ref);
      double total = 0;
      for (int j = 0; j < TINY_VOCAB; j++) total += exp((double)z[j]);
      for (int j = 0; j < TINY_VOCAB; j++) {
        const double logp = (double)z[j] - log(total);
        sum += exp(logp) * (logp - (double)ref[j]);
      }
      *ref_sum += (double)ref[b->completion[i].ids[k]];
    }
  }
  return sum / tokens;
}

TEST(the_full_divergence_from_a_bigram_is_the_sum_over_the_vocabulary) {
  StepMetrics m;
  Tiny t;
  double ref_sum, recorded = 0;
  open_bigram(&t, 2, 0);
  CHECK(model_config(t.model)->vocab_size == TINY_VOCAB);
  step_once(&t, 1, KL_FULL, 0.3, 0, &m);
  CHECK(m.ratio_max_deviation == 0);
  const double kl = full_kl_by_hand(&t, &ref_sum);
  CHECK_NEAR(m.kl, kl, 1e-4 * kl);
  Batch *b = engine_batch(t.engine, BATCH_SAMPLE);
  CHECK(!engine_reference(t.engine, b));
  for (int i = 0; i < batch_size(b); i++)
    for (int k = 0; k < b->completion[i].len; k++)
      recorded += (double)b->ref_logp[i * b->max_new + k];
  CHECK_NEAR(recorded, ref_sum, 1e-4 * fabs(ref_sum));
  tiny_close(&t);
}

TEST_BOTH(steps_with_a_bigram_are_the_same_bits_however_cut) {
  for (int kl = KL_K3; kl <= KL_FULL; kl++) {
    static const int how[][2] = {{1, 0}, {2, 0}, {2, 1}, {2, 100000}};
    Model *first = NULL;
    double loss = 0;
    for (int k = 0; k < 4; k++) {
      StepMetrics m;
      Tiny t;
      open_bigram(&t, how[k][0], how[k][1]);
      for (uint32_t s = 1; s <= 3; s++) step_once(&t, s, (KlEstimator)kl, 0.2, 1e-3, &m);
      CHECK(m.ratio_max_deviation == 0 && isfinite(m.kl) && m.kl > 0);
      if (k == 0) {
        CHECK(!model_copy(&first, t.model));
        loss = m.loss;
      }
      CHECK(same_weights(first, t.model) && loss == m.loss);
      tiny_close(&t);
    }
    model_release(first);
  }
}

TEST(the_divergence_from_a_bigram_falls_when_it_is_all_that_is_learned_from) {
  StepMetrics m;
  Tiny t;
  double first = 0;
  open_bigram(&t, 2, 0);
  for (uint32_t s = 0; s < 40; s++) {
    UpdateOptions o;
    double adv[64] = {0};
    Batch *b = tiny_rollout(&t, 5);
    update_options_init(&o, LOSS_grpo);
    o.loss.kl_estimator = KL_FULL;
    o.loss.kl = 1;
    o.advantage = adv;
    o.lr = 3e-3;
    CHECK(!engine_update(t.engine, b, &o, &m));
    if (s == 0) first = m.kl;
  }
  CHECK(m.kl < 0.5 * first);
  tiny_close(&t);
}

TEST(a_steady_step_with_targets_and_a_bigram_takes_no_memory) {
  StepMetrics m;
  uint64_t before = 0;
  Tiny t;
  open_bigram(&t, 2, 0);
  for (uint32_t s = 0; s < 12; s++) {
    if (s == 2) before = mem_allocations();
    rollout_with_targets(&t, s, 1);
    step_once(&t, s, s % 2 ? KL_FULL : KL_K3, 0.1, 1e-4, &m);
  }
  CHECK_NEAR(mem_allocations() - before, 0, 0);
  tiny_close(&t);
}

TEST(a_bigram_of_another_vocabulary_or_beside_a_model_is_refused) {
  EngineOptions eo;
  Engine *e;
  Tiny t;
  tiny_options(&eo);
  tiny_open(&t, 1, &eo);
  CHECK(!bigram_new(&eo.bigram, TINY_VOCAB - 1));
  CHECK(engine_new(&e, t.pool, t.model, NULL, t.tok, &eo) == GRPO_EARG);
  bigram_free(eo.bigram);
  eo.bigram = counted();
  CHECK(engine_new(&e, t.pool, t.model, t.reference, t.tok, &eo) == GRPO_EARG);
  bigram_free(eo.bigram);
  tiny_close(&t);
}
