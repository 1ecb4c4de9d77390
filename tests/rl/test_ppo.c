/* PPO's step: what it promises of bits and memory, with either critic. */
#include <math.h>

#include "model/forward.h"
#include "rl/ppo.h"
#include "steps.h"

enum { SEQUENCES = TINY_PROMPTS * TINY_GROUP, PPO_STEPS = 3 };

typedef struct Way {
  CriticKind critic;
  bool lora, checkpointing, two_passes, reuse;
  bool spoilt; /* the rollout's activations are wrong */
  int threads, micro_batch_tokens, epochs, minibatches, group;
  double dropout;
} Way;

static void ppo_open(Tiny *t, const Way *w) {
  *t = (Tiny){0};
  tiny_options(&t->o);
  t->o.critic = w->critic;
  t->o.reuse_rollout = w->reuse ? REUSE_ON : REUSE_OFF;
  if (w->group) t->o.group_size = w->group;
  t->o.gradient_checkpointing = w->checkpointing;
  t->o.micro_batch_tokens = w->micro_batch_tokens;
  tiny_models(t, w->threads ? w->threads : 1, NULL, true);
  if (w->lora) tiny_lora(t, w->dropout);
  tiny_engine(t);
}

static Status ppo_update(Tiny *t, const Way *w, uint32_t number, const double *score,
                         StepMetrics *m) {
  PpoOptions o;
  Batch *b = engine_batch(t->engine, BATCH_SAMPLE);
  ppo_options_init(&o);
  o.update.lr = 1e-2;
  o.score = score;
  o.value_coef = 0.1; /* no power of two: its product with a loss is rounded */
  o.update.loss.entropy = 0.01;
  o.update.iterations = w->epochs ? w->epochs : 1;
  o.minibatches = w->minibatches ? w->minibatches : 1;
  o.update.seed = 3;
  o.update.step = number;
  return engine_ppo(t->engine, b, &o, NULL, m);
}

/* Returns the pieces of work that the update has taken. */
static uint64_t ppo_step(Tiny *t, const Way *w, uint32_t number, StepMetrics *m) {
  double score[SEQUENCES];
  Batch *b = tiny_rollout(t, number);
  for (int i = 0; i < batch_size(b); i++) score[i] = (double)(b->completion[i].ids[0] % 7) / 3;
  score[1] = NAN; /* one that nobody could score */
  CHECK(!engine_reference(t->engine, b));
  if (w->two_passes) b->version = 0; /* as if other weights had sampled it */
  if (w->spoilt) spoil_activations(t);
  const uint64_t before = progress_count();
  OK(ppo_update(t, w, number, score, m));
  return progress_count() - before;
}

/* Everything that a few steps leave behind. */
typedef struct Outcome {
  Model *weights;
  Buf optimizer, critic, critic_optimizer;
  StepMetrics first, last;
  uint64_t pieces; /* of work in the updates */
} Outcome;

static void read_state(Tiny *t, Outcome *o) {
  const char *dir = test_tmp();
  CHECK(!engine_save(t->engine, dir));
  CHECK(!file_read(test_path("%s/optimizer.safetensors", dir), 0, &o->optimizer));
  CHECK(!file_read(test_path("%s/critic.safetensors", dir), 0, &o->critic));
  if (t->o.critic == CRITIC_SEPARATE)
    CHECK(!file_read(test_path("%s/critic_optimizer.safetensors", dir), 0, &o->critic_optimizer));
}

static Outcome outcome(Way w) {
  Outcome o = {0};
  Tiny t;
  ppo_open(&t, &w);
  for (uint32_t k = 1; k <= PPO_STEPS; k++)
    o.pieces += ppo_step(&t, &w, k, k == 1 ? &o.first : &o.last);
  read_state(&t, &o);
  CHECK(!model_copy(&o.weights, t.model));
  tiny_close(&t);
  return o;
}

static void outcome_free(Outcome *o) {
  model_release(o->weights);
  buf_free(&o->optimizer);
  buf_free(&o->critic);
  buf_free(&o->critic_optimizer);
}

static bool same_bytes(const Buf *a, const Buf *b) {
  return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

static void check_same(Way a, Way b) {
  Outcome x = outcome(a), y = outcome(b);
  CHECK(same_weights(x.weights, y.weights));
  CHECK(same_bytes(&x.optimizer, &y.optimizer));
  CHECK(same_bytes(&x.critic, &y.critic));
  CHECK(same_bytes(&x.critic_optimizer, &y.critic_optimizer));
  check_metrics(&x.first, &y.first);
  check_metrics(&y.first, &x.first);
  check_metrics(&x.last, &y.last);
  check_metrics(&y.last, &x.last);
  outcome_free(&x);
  outcome_free(&y);
}

static uint64_t pieces_of(Way w) {
  Outcome o = outcome(w);
  outcome_free(&o);
  return o.pieces;
}

static const Way ways[] = {
    {.critic = CRITIC_SHARED},
    {.critic = CRITIC_SHARED, .lora = true, .epochs = 2, .minibatches = 3},
    {.critic = CRITIC_SEPARATE, .epochs = 2, .minibatches = 2},
    {.critic = CRITIC_SEPARATE, .lora = true},
};
enum { WAYS = sizeof ways / sizeof *ways };

TEST_BOTH(threads_and_micro_batches_change_no_bit) {
  for (int i = 0; i < WAYS; i++) {
    Way w = ways[i];
    w.threads = 3;
    w.micro_batch_tokens = 90;
    check_same(ways[i], w);
    w.micro_batch_tokens = 100000;
    check_same(ways[i], w);
  }
}

TEST_BOTH(gradient_checkpointing_and_two_passes_change_no_bit) {
  for (int i = 0; i < WAYS; i++) {
    Way w = ways[i];
    w.checkpointing = true;
    check_same(ways[i], w);
    w = ways[i];
    w.two_passes = true;
    check_same(ways[i], w);
    CHECK(pieces_of(ways[i]) < pieces_of(w));
  }
}

TEST_BOTH(the_first_pass_sees_the_rollout_s_own_values_and_ratios) {
  for (int i = 0; i < WAYS; i++) {
    Outcome o = outcome(ways[i]);
    CHECK(o.first.value_mean == 0); /* the head begins at zero */
    CHECK(o.last.value_mean != 0);
    CHECK(o.last.value_max_deviation == 0);
    CHECK(o.last.ratio_max_deviation == 0);
    CHECK(o.last.value_loss > 0 && isfinite(o.last.explained_variance));
    CHECK(o.last.sequence_kl > 0 && o.last.penalty < 0);
    outcome_free(&o);
  }
}

TEST_BOTH(a_separate_critic_leaves_what_sampling_kept_to_the_policy) {
  Way with = ways[2];
  with.reuse = true;
  check_same(ways[2], with);
  Way spoilt = with;
  spoilt.spoilt = true;
  check_same(with, spoilt);
  CHECK(pieces_of(with) < pieces_of(spoilt)); /* which cost a second try */
  Tiny t = {0};
  tiny_options(&t.o);
  t.o.critic = CRITIC_SHARED;
  t.o.reuse_rollout = REUSE_ON;
  tiny_models(&t, 1, NULL, false);
  REFUSED(engine_new(&t.engine, t.pool, t.model, NULL, NULL, &t.o), GRPO_EARG, "shared critic");
  tiny_close(&t);
}

TEST(dropout_of_an_adapter_is_in_training_only) {
  Way w = {.critic = CRITIC_SEPARATE, .lora = true, .dropout = 0.3};
  Outcome o = outcome(w);
  CHECK(isnan(o.last.value_max_deviation) && isnan(o.last.ratio_max_deviation));
  outcome_free(&o);
  Way other = w;
  other.threads = 2;
  other.micro_batch_tokens = 100000;
  check_same(w, other);
}

TEST(what_was_saved_goes_on_bit_for_bit) {
  for (int i = 0; i < WAYS; i++) {
    const Way *w = &ways[i];
    Outcome straight = outcome(*w), resumed = {0};
    Tiny a, b;
    StepMetrics m;
    ppo_open(&a, w);
    ppo_step(&a, w, 1, &m);
    const char *dir = test_tmp();
    CHECK(!engine_save(a.engine, dir));
    ppo_open(&b, w);
    if (w->lora)
      for (int k = 0; k < model_num_params(a.model); k++) {
        real *x = values_of(a.model, k);
        CHECK(!param_set(&(Ctx){0}, model_param(b.model, k), x));
        free(x);
      }
    else
      CHECK(!model_copy_weights(b.model, a.model));
    model_updated(b.model);
    CHECK(!engine_load(b.engine, dir));
    for (uint32_t k = 2; k <= PPO_STEPS; k++) ppo_step(&b, w, k, &m);
    read_state(&b, &resumed);
    CHECK(same_weights(b.model, straight.weights));
    CHECK(same_bytes(&resumed.critic, &straight.critic));
    CHECK(same_bytes(&resumed.critic_optimizer, &straight.critic_optimizer));
    check_metrics(&m, &straight.last);
    tiny_close(&a);
    tiny_close(&b);
    outcome_free(&straight);
    outcome_free(&resumed);
  }
}

TEST(a_steady_step_allocates_nothing) {
  for (int i = 0; i < WAYS; i++) {
    Way w = ways[i];
    Tiny t;
    StepMetrics m;
    for (int k = 0; k < 2; k++) {
      w.micro_batch_tokens = k ? 200 : 0;
      ppo_open(&t, &w);
      ppo_step(&t, &w, 1, &m);
      const uint64_t before = mem_allocations();
      for (uint32_t n = 2; n <= 5; n++) ppo_step(&t, &w, n, &m);
      CHECK(mem_allocations() == before);
      tiny_close(&t);
    }
  }
}

TEST(values_learn_what_scores_are) {
  for (int i = 0; i < 2; i++) {
    Way w = {.critic = i ? CRITIC_SEPARATE : CRITIC_SHARED, .epochs = 4, .group = 1};
    double score[SEQUENCES];
    Tiny t;
    StepMetrics m;
    for (int k = 0; k < SEQUENCES; k++) score[k] = 2;
    ppo_open(&t, &w);
    for (uint32_t n = 1; n <= 25; n++) {
      Batch *b = tiny_rollout(&t, n);
      CHECK(!engine_reference(t.engine, b));
      CHECK(!ppo_update(&t, &w, n, score, &m));
    }
    CHECK(m.value_mean > 1 && m.value_mean < 3);
    CHECK(m.value_loss < 0.5);
    tiny_close(&t);
  }
}

TEST(what_a_caller_can_get_wrong_is_named) {
  const Way w = {.critic = CRITIC_SHARED}, none = {.critic = CRITIC_NONE};
  double score[SEQUENCES] = {0};
  StepMetrics m;
  Tiny t;
  ppo_open(&t, &w);
  CHECK(ppo_update(&t, &w, 1, score, &m) == GRPO_EARG); /* nothing was rolled out */
  tiny_rollout(&t, 1);
  REFUSED(ppo_update(&t, &w, 1, score, &m), GRPO_EARG, "reference()");
  CHECK(!engine_reference(t.engine, engine_batch(t.engine, BATCH_SAMPLE)));
  const Way many = {.critic = CRITIC_SHARED, .minibatches = TINY_PROMPTS + 1};
  REFUSED(ppo_update(&t, &many, 1, score, &m), GRPO_EARG, "minibatches");
  CHECK(ppo_update(&t, &w, 1, NULL, &m) == GRPO_EARG);
  tiny_close(&t);
  ppo_open(&t, &none);
  tiny_rollout(&t, 1);
  REFUSED(ppo_update(&t, &w, 1, score, &m), GRPO_EARG, "critic");
  tiny_close(&t);
}

/* A value is that of the plain sequence up to its state, whatever was packed beside it. */
TEST(values_are_those_of_plain_sequences) {
  enum { LONGEST = 6 };
  const Way w = {.critic = CRITIC_SHARED};
  const int32_t prompt[] = {5, 6, 7}, one[] = {1, 2, 3}, two[] = {4, 5, 6, 7, 8, 9}, three[] = {9};
  const int32_t *const ids[] = {one, two, three};
  const int len[] = {3, 6, 1};
  Tiny t;
  Pack p, plain;
  Tensor *hidden, *value;
  int at = 0;
  ppo_open(&t, &w);
  Tape *tape = &t.engine->tape;
  Tensor *head = critic_head(t.engine->critic);
  for (size_t k = 0; k < head->n; k++) head->data[k] = (real)(0.1 * (double)(k % 5) - 0.2);
  const PackGroup g = {prompt, 3, 3, ids, len, LONGEST, 0};
  tape_reset(tape);
  tape->off = true;
  CHECK(!pack_groups(&tape->arena, model_config(t.model), 1, &g, &p));
  CHECK(p.nvalues == 4 + 6 + 2 && p.nout == 10 && p.nrows == 3 + 3 + 5 + 1);
  CHECK(!forward_hidden(t.model, tape, &p, &hidden));
  CHECK(!critic_values(t.engine->critic, tape, &p, hidden, &value));
  for (int i = 0; i < 3; i++) {
    const PackGroup single = {prompt, 3, 1, &ids[i], &len[i], LONGEST, 0};
    Tensor *h, *v;
    CHECK(!pack_groups(&tape->arena, model_config(t.model), 1, &single, &plain));
    CHECK(!forward_hidden(t.model, tape, &plain, &h));
    CHECK(!critic_values(t.engine->critic, tape, &plain, h, &v));
    for (int k = 0; k < plain.nvalues; k++, at++) CHECK(v->data[k] == value->data[at]);
    for (int k = 0; k < plain.nvalues; k++) CHECK(plain.value_rows[k] == 2 + k);
  }
  CHECK(at == p.nvalues);
  tape->off = false;
  tiny_close(&t);
}
