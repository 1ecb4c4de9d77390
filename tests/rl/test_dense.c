/* Targets that completions are compared with, and a reference that is not a model. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "model/forward.h"
#include "model/forward_logits.h"
#include "model/model_copy.h"
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

/* ---- a reference that is not a model ---------------------------------------------------- */

/* log P(next | prev): eight tokens are likely, and the one after prev is. */
static void source_row(const void *of, int32_t prev, real *logits) {
  double total = 0;
  (void)of;
  for (int j = 0; j < TINY_VOCAB; j++) {
    const double count = 1 + (j < 8 ? 20 : 0) + (j == (prev + 1) % TINY_VOCAB ? 60 : 0);
    logits[j] = (real)log(count);
    total += count;
  }
  for (int j = 0; j < TINY_VOCAB; j++) logits[j] -= (real)log(total);
}

static size_t source_bytes(const void *held) { return sizeof *(const int *)held; }
static void source_retain(void *held) { ++*(int *)held; }
static void source_free(void *held) { --*(int *)held; }

/* A reference that counts in *held who holds it. */
static ReferenceSource source_of(int *held, int vocab) {
  return (ReferenceSource){held, vocab, source_row, source_bytes, source_retain, source_free};
}

static int held;

/* A tiny engine whose reference is not a model. */
static void open_source(Tiny *t, int threads, int micro_batch_tokens) {
  *t = (Tiny){0};
  tiny_options(&t->o);
  t->o.micro_batch_tokens = micro_batch_tokens;
  t->o.source = source_of(&held, TINY_VOCAB);
  tiny_models(t, threads, NULL, false);
  tiny_engine(t);
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

/* By hand and in double: KL(policy || reference) at every token of the batch, and log P(token). */
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
      source_row(NULL, ids[n - 1 + k], ref);
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

TEST(the_full_divergence_from_rows_of_logits_is_the_sum_over_the_vocabulary) {
  StepMetrics m;
  Tiny t;
  double ref_sum, recorded = 0;
  open_source(&t, 2, 0);
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

TEST_BOTH(steps_with_rows_of_logits_are_the_same_bits_however_cut) {
  for (int kl = KL_K3; kl <= KL_FULL; kl++) {
    static const int how[][2] = {{1, 0}, {2, 0}, {2, 1}, {2, 100000}};
    Model *first = NULL;
    double loss = 0;
    for (int k = 0; k < 4; k++) {
      StepMetrics m;
      Tiny t;
      open_source(&t, how[k][0], how[k][1]);
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

TEST(the_divergence_from_rows_of_logits_falls_when_it_is_all_that_is_learned_from) {
  StepMetrics m;
  Tiny t;
  double first = 0;
  open_source(&t, 2, 0);
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

TEST(a_steady_step_with_targets_and_rows_of_logits_takes_no_memory) {
  StepMetrics m;
  uint64_t before = 0;
  Tiny t;
  open_source(&t, 2, 0);
  for (uint32_t s = 0; s < 12; s++) {
    if (s == 2) before = mem_allocations();
    rollout_with_targets(&t, s, 1);
    step_once(&t, s, s % 2 ? KL_FULL : KL_K3, 0.1, 1e-4, &m);
  }
  CHECK_NEAR(mem_allocations() - before, 0, 0);
  tiny_close(&t);
}

TEST(rows_of_another_vocabulary_or_beside_a_model_are_refused) {
  EngineOptions eo;
  Engine *e;
  Tiny t;
  tiny_options(&eo);
  tiny_open(&t, 1, &eo);
  eo.source = source_of(&held, TINY_VOCAB - 1);
  CHECK(engine_new(&e, t.pool, t.model, NULL, t.tok, &eo) == GRPO_EARG);
  eo.source = source_of(&held, TINY_VOCAB);
  CHECK(engine_new(&e, t.pool, t.model, t.reference, t.tok, &eo) == GRPO_EARG);
  tiny_close(&t);
}

TEST(an_engine_holds_its_reference_until_it_is_freed) {
  Tiny t;
  held = 0;
  open_source(&t, 1, 0);
  CHECK(held == 1);
  tiny_close(&t);
  CHECK(held == 0);
}
