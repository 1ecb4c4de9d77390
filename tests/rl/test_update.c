/* One optimizer step: same bits however it is cut, the right gradient, no memory taken. */
#include <stdlib.h>

#include "base/mem.h"
#include "grad/policy.h"
#include "model/forward.h"
#include "model/forward_logits.h"
#include "model/model_copy.h"
#include "rl/engine_memory.h"
#include "tiny.h"

static void update_options(UpdateOptions *o, const char *loss) {
  LossKind kind;
  CHECK(!loss_kind_from_name(loss, &kind));
  update_options_init(o, kind);
  o->lr = 1e-3;
  o->loss.max_new_tokens = TINY_NEW;
}

static void open_update(Tiny *t, int threads, UpdateOptions *o, const char *loss) {
  tiny_open(t, threads, NULL);
  update_options(o, loss);
}

/* ---- the same bits --------------------------------------------------------------- */

typedef struct Result {
  Model *weights;
  StepMetrics m;
} Result;

/* covariance: Clip-Cov and KL-Cov choose a third of the tokens each. */
static Result run_chosen(int threads, int micro_batch_tokens, const char *loss, double kl,
                         int iterations, bool covariance) {
  EngineOptions eo;
  UpdateOptions o;
  Tiny t;
  Result r;
  tiny_options(&eo);
  eo.micro_batch_tokens = micro_batch_tokens;
  tiny_open(&t, threads, &eo);
  update_options(&o, loss);
  o.loss.kl = kl;
  o.loss.entropy = 0.01;
  o.loss.clip_cov_ratio = o.loss.kl_cov_ratio = covariance ? 1.0 / 3 : 0;
  o.loss.clip_cov_low = 0;
  o.iterations = iterations;
  for (uint32_t s = 1; s <= 3; s++) tiny_step(&t, s, &o, &r.m);
  CHECK(!model_copy(&r.weights, t.model));
  tiny_close(&t);
  return r;
}

static Result run(int threads, int micro_batch_tokens, const char *loss, double kl,
                  int iterations) {
  return run_chosen(threads, micro_batch_tokens, loss, kl, iterations, false);
}

static void check_same(const Result *a, Result b) {
  CHECK(same_weights(a->weights, b.weights));
  CHECK(a->m.loss == b.m.loss);
  CHECK(a->m.grad_norm == b.m.grad_norm);
  CHECK(a->m.entropy == b.m.entropy);
  model_release(b.weights);
}

TEST_BOTH(threads_and_micro_batches_do_not_change_a_bit) {
  Result a = run(1, 0, "grpo", 0.05, 2);
  check_same(&a, run(2, 0, "grpo", 0.05, 2));
  check_same(&a, run(1, 1, "grpo", 0.05, 2));
  check_same(&a, run(2, 100, "grpo", 0.05, 2));
  check_same(&a, run(2, 100000, "grpo", 0.05, 2));
  model_release(a.weights);
}

TEST(what_covariance_chooses_does_not_depend_on_them_either) {
  Result a = run_chosen(1, 0, "grpo", 0, 2, true);
  check_same(&a, run_chosen(2, 0, "grpo", 0, 2, true));
  check_same(&a, run_chosen(2, 1, "grpo", 0, 2, true));
  check_same(&a, run_chosen(1, 100000, "grpo", 0, 2, true));
  Result without = run(1, 0, "grpo", 0, 2);
  CHECK(!same_weights(a.weights, without.weights));
  model_release(a.weights);
  model_release(without.weights);
}

TEST_BOTH(the_ratio_of_the_first_iteration_is_exactly_one) {
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  open_update(&t, 2, &o, "grpo");
  o.loss.entropy = 0.01; /* no forward is left out */
  o.iterations = 3;
  for (uint32_t s = 1; s <= 4; s++) {
    tiny_step(&t, s, &o, &m);
    CHECK(m.ratio_max_deviation == 0);
  }
  tiny_close(&t);
}

/* ---- the right gradient ---------------------------------------------------------- */

/* Gradients of an update whose optimizer moves nothing. */
static void gradients(Tiny *t, const UpdateOptions *o, StepMetrics *m) {
  UpdateOptions still = *o;
  still.lr = 0;
  tiny_step(t, 1, &still, m);
}

/* Trains each completion alone behind its own prompt, with the loss's gradient written by hand. */
static void plain_gradients(Tiny *t, const double *scale) {
  Engine *e = t->engine;
  Batch *b = engine_batch(e, BATCH_SAMPLE);
  model_zero_grad(t->model);
  for (int i = 0; i < batch_size(b); i++) {
    const int32_t *ids = b->completion[i].ids;
    PackGroup g = {.n = 1, .completion = &ids, .completion_len = &b->completion[i].len};
    g.prompt = batch_prompt(b, i / b->group, &g.prompt_len);
    real seed[2 * TINY_NEW] = {0};
    Tensor *hidden, *out;
    Pack p;
    tape_reset(&e->tape);
    CHECK(!pack_groups(&e->tape.arena, model_config(t->model), 1, &g, &p));
    CHECK(!forward_hidden(t->model, &e->tape, &p, &hidden));
    CHECK(!forward_logp(t->model, &e->tape, &p, hidden, 1, NULL, NULL, &out));
    for (int k = 0; k < b->completion[i].len; k++) seed[k] = (real)scale[i];
    CHECK(!tape_backward_from(&e->tape, out, seed));
  }
}

static real *copy_gradients(Model *m, size_t *n) {
  *n = 0;
  for (int i = 0; i < model_num_params(m); i++) *n += model_param(m, i)->t.n;
  real *all = malloc(*n * sizeof *all);
  size_t at = 0;
  for (int i = 0; i < model_num_params(m); i++) {
    const Tensor *t = &model_param(m, i)->t;
    memcpy(all + at, t->grad, t->n * sizeof *all);
    at += t->n;
  }
  return all;
}

TEST_BOTH(a_packed_group_has_the_gradient_of_its_sequences) {
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  double adv[64], scale[64];
  size_t n;
  open_update(&t, 2, &o, "grpo");
  gradients(&t, &o, &m);
  real *packed = copy_gradients(t.model, &n);
  Batch *b = engine_batch(t.engine, BATCH_SAMPLE);
  tiny_advantages(b, adv);
  /* on policy: d loss / d logp = -A / (n_i * sequences) */
  for (int i = 0; i < batch_size(b); i++)
    scale[i] = -adv[i] / (b->completion[i].len * (double)batch_size(b));
  plain_gradients(&t, scale);
  real *plain = copy_gradients(t.model, &n);
  double largest = 0, worst = 0;
  for (size_t i = 0; i < n; i++) {
    largest = fmax(largest, fabs((double)plain[i]));
    worst = fmax(worst, fabs((double)plain[i] - (double)packed[i]));
  }
  CHECK(largest > 0);
  /* in bf16 last bits that differ may round apart */
  CHECK_NEAR(worst / largest, 0, test_compute == COMPUTE_BF16 ? 1e-2 : 1e-5);
  free(packed);
  free(plain);
  tiny_close(&t);
}

TEST(the_loss_is_what_the_formula_says) {
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  double adv[64], want = 0, kl = 0, tokens = 0;
  open_update(&t, 1, &o, "grpo");
  o.loss.kl = 0.1;
  gradients(&t, &o, &m);
  const Batch *b = engine_batch(t.engine, BATCH_SAMPLE);
  tiny_advantages(b, adv);
  for (int i = 0; i < batch_size(b); i++) {
    double sum = 0;
    const int len = b->completion[i].len;
    for (int k = 0; k < len; k++) {
      const double d = (double)b->ref_logp[i * TINY_NEW + k] - (double)b->completion[i].logp[k];
      const double k3 = exp(d) - d - 1;
      sum += -adv[i] + 0.1 * k3;
      kl += k3;
      tokens++;
    }
    want += sum / len / batch_size(b);
  }
  CHECK(b->has_ref);
  CHECK_NEAR(m.loss, want, 1e-6 * fmax(1, fabs(want)));
  CHECK_NEAR(m.kl, kl / tokens, 1e-6 * kl / tokens);
  CHECK(m.beta == 0.1 && m.trained_tokens == tokens);
  tiny_close(&t);
}

TEST_BOTH(every_loss_takes_a_step) {
#define LOSS(name, ...) #name,
  static const char *const names[] = {
#include "grad/losses.def"
  };
#undef LOSS
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    Result r = run(1, 0, names[i], 0.02, 2);
    CHECK(isfinite(r.m.loss) && r.m.grad_norm > 0);
    model_release(r.weights);
  }
}

TEST_BOTH(every_kl_estimator_takes_a_step) {
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  open_update(&t, 1, &o, "grpo");
  o.loss.kl = 0.1;
  for (int k = KL_K2; k <= KL_FULL; k++) {
    o.loss.kl_estimator = (KlEstimator)k;
    tiny_step(&t, 1, &o, &m);
    CHECK(m.kl > 0 && isfinite(m.kl) && m.grad_norm > 0);
  }
  o.loss.kl_estimator = KL_K1;
  double adv[64];
  Batch *b = tiny_batch(&t, 1, adv, &o);
  CHECK(!engine_reference(t.engine, b));
  CHECK(engine_update(t.engine, b, &o, &m) == GRPO_EARG);
  tiny_close(&t);
}

TEST(further_iterations_clip) {
  UpdateOptions o;
  StepMetrics one, three;
  Tiny t;
  open_update(&t, 1, &o, "grpo");
  o.lr = 5e-3;
  tiny_step(&t, 1, &o, &one);
  CHECK(one.clip_region_mean == 0);
  o.iterations = 3;
  tiny_step(&t, 2, &o, &three);
  CHECK(three.clip_region_mean > 0 && three.clip_high_max > 0);
  CHECK(three.ratio_max_deviation == 0);
  tiny_close(&t);
}

/* ---- what stays out of the loss -------------------------------------------------- */

TEST(a_batch_without_advantage_has_no_gradient) {
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  const double none[64] = {0};
  open_update(&t, 1, &o, "grpo");
  o.advantage = none;
  Model *before;
  CHECK(!model_copy(&before, t.model));
  for (int forward = 0; forward < 2; forward++) { /* with and without the forward left out */
    Batch *b = tiny_rollout(&t, 1);
    o.loss.kl = forward ? 1e-30 : 0;
    if (forward) CHECK(!engine_reference(t.engine, b));
    CHECK(!engine_update(t.engine, b, &o, &m));
    CHECK(m.grad_norm < 1e-20 && m.loss < 1e-20 && m.entropy > 0);
    if (!forward) CHECK(m.grad_norm == 0 && same_weights(before, t.model));
  }
  model_release(before);
  tiny_close(&t);
}

TEST(truncated_completions_can_leave_the_loss) {
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  double terminated = 0;
  open_update(&t, 1, &o, "dapo");
  o.loss.mask_truncated = true;
  tiny_step(&t, 1, &o, &m);
  const Batch *b = engine_batch(t.engine, BATCH_SAMPLE);
  for (int i = 0; i < batch_size(b); i++)
    if (b->completion[i].finish != FINISH_LENGTH) terminated += b->completion[i].len;
  CHECK(m.trained_tokens == terminated);
  CHECK(m.clipped_ratio > 0);
  tiny_close(&t);
}

TEST(groups_without_spread_can_leave_the_loss_and_its_kl) {
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  double rest = 0;
  open_update(&t, 1, &o, "grpo");
  o.loss.kl = 0.1;
  o.skip_zero_std_groups = true;
  tiny_step(&t, 1, &o, &m);
  const Batch *b = engine_batch(t.engine, BATCH_SAMPLE);
  for (int i = 0; i < batch_size(b); i++)
    if (i / TINY_GROUP != 1) rest += b->completion[i].len;
  CHECK(m.trained_tokens == rest);
  tiny_close(&t);
}

TEST(per_token_advantages_reach_their_tokens) {
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  double zero[64] = {0}, adv[64 * TINY_NEW] = {0}, want = 0;
  open_update(&t, 1, &o, "dapo");
  o.advantage = zero;
  o.token_advantage = adv;
  Batch *b = tiny_rollout(&t, 1);
  const double n = (double)batch_tokens(b);
  for (int k = 0; k < n; k++) want -= (adv[k] = k % 3 - 0.5) / n;
  CHECK(!engine_update(t.engine, b, &o, &m));
  CHECK_NEAR(m.loss, want, 1e-6);
  CHECK(m.grad_norm > 0);
  tiny_close(&t);
}

/* ---- a loss of one's own --------------------------------------------------------- */

static Status user_reinforce(void *user, const LossInput *in, Value **loss) {
  const Ctx *cx = user;
  const Attr all = {.i = {-1}};
  Value *product = NULL, *sum = NULL, *scale = NULL;
  try(value_new(&scale, 0, NULL));
  value_tensor(scale)->data[0] = (real)(-1 / in->num_tokens);
  try(value_apply(cx, OP_mul, (Value *[]){in->logp, in->advantage}, NULL, 0, true, &product));
  try(value_apply(cx, OP_sum, (Value *[]){product}, &all, 0, true, &sum));
  try(value_apply(cx, OP_mul, (Value *[]){sum, scale}, NULL, 0, true, loss));
  value_release(product);
  value_release(sum);
  value_release(scale);
  return GRPO_OK;
}

static Result run_reinforce(bool own, int micro_batch_tokens) {
  EngineOptions eo;
  UpdateOptions o;
  Tiny t;
  Result r;
  tiny_options(&eo);
  eo.micro_batch_tokens = micro_batch_tokens;
  tiny_open(&t, 1, &eo);
  update_options(&o, "reinforce");
  if (own) o.loss_fn = user_reinforce;
  o.loss_user = &t.engine->loss_tape.cx;
  tiny_step(&t, 1, &o, &r.m);
  CHECK(!model_copy(&r.weights, t.model));
  tiny_close(&t);
  return r;
}

TEST(a_loss_of_ones_own_equals_the_built_in_one) {
  Result built_in = run_reinforce(false, 0), own = run_reinforce(true, 0),
         all = run_reinforce(true, 100000);
  CHECK_NEAR(own.m.loss, built_in.m.loss, 1e-6);
  CHECK_NEAR(own.m.grad_norm, built_in.m.grad_norm, 1e-5 * built_in.m.grad_norm);
  CHECK_NEAR(own.m.entropy, built_in.m.entropy, 1e-6);
  CHECK(same_weights(own.weights, all.weights)); /* one call or four */
  model_release(built_in.weights);
  model_release(own.weights);
  model_release(all.weights);
}

static Status user_failing(void *user, const LossInput *in, Value **loss) {
  (void)user;
  (void)in;
  (void)loss;
  return fail(GRPO_ESCRIPT, "my loss is broken");
}

static Status user_constant(void *user, const LossInput *in, Value **loss) {
  (void)user;
  (void)in;
  return value_new(loss, 0, NULL);
}

TEST(a_loss_that_fails_or_depends_on_nothing_is_an_error) {
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  double adv[64];
  open_update(&t, 1, &o, "grpo");
  Batch *b = tiny_batch(&t, 1, adv, &o);
  o.loss_fn = user_failing;
  CHECK(engine_update(t.engine, b, &o, &m) == GRPO_ESCRIPT);
  CHECK_STR(err_message(), "my loss is broken");
  o.loss_fn = user_constant;
  CHECK(engine_update(t.engine, b, &o, &m) == GRPO_EARG);
  tiny_close(&t);
}

/* ---- when it goes wrong ---------------------------------------------------------- */

TEST(divergence_leaves_the_weights_alone) {
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  double adv[64];
  open_update(&t, 1, &o, "grpo");
  Batch *b = tiny_batch(&t, 1, adv, &o);
  adv[3] = NAN;
  Model *before;
  CHECK(!model_copy(&before, t.model));
  CHECK(engine_update(t.engine, b, &o, &m) == GRPO_EDIVERGED);
  CHECK(same_weights(before, t.model));
  CHECK(optimizer_steps(t.engine->optimizer) == 0);
  model_release(before);
  tiny_close(&t);
}

TEST(what_is_missing_is_named) {
  UpdateOptions o;
  StepMetrics m;
  Tiny t;
  double adv[64];
  open_update(&t, 1, &o, "grpo");
  Batch *b = tiny_batch(&t, 1, adv, &o);
  o.loss.kl = 0.1;
  REFUSED(engine_update(t.engine, b, &o, &m), GRPO_EARG, "reference()");
  tiny_close(&t);
  EngineOptions eo = t.o;
  eo.max_new_tokens = 60;
  const Config c = tiny_config();
  Model *model;
  Engine *e;
  CHECK(!model_new(&model, NULL, &c, 1));
  REFUSED(engine_new(&e, NULL, model, NULL, NULL, &eo), GRPO_EARG, "data.max_prompt_tokens");
  model_release(model);
}

/* ---- memory ---------------------------------------------------------------------- */

TEST_BOTH(a_step_takes_no_memory_whatever_its_lengths) {
  static const int micro_batches[] = {0, 64, 100000};
  for (int k = 0; k < 3; k++) {
    EngineOptions eo;
    UpdateOptions o;
    StepMetrics m;
    Tiny t;
    tiny_options(&eo);
    eo.micro_batch_tokens = micro_batches[k];
    tiny_open(&t, 2, &eo);
    update_options(&o, "grpo");
    o.loss.kl = 0.05;
    o.loss.kl_estimator = k == 1 ? KL_FULL : KL_K3;
    o.loss.top_entropy_quantile = 0.5;
    uint64_t before = 0;
    for (uint32_t s = 1; s <= 25; s++) {
      if (s == 2) before = mem_allocations();
      tiny_step(&t, s, &o, &m);
    }
    CHECK_NEAR(mem_allocations() - before, 0, 0);
    tiny_close(&t);
  }
}

TEST_BOTH(the_estimate_is_near_what_is_taken) {
  EngineOptions eo;
  EngineNeeds needs;
  Tiny t;
  UpdateOptions o;
  StepMetrics m;
  tiny_options(&eo);
  const size_t before = mem_live_bytes();
  tiny_open(&t, 1, &eo);
  update_options(&o, "grpo");
  o.loss.kl = 0.05;
  for (uint32_t s = 1; s <= 3; s++) tiny_step(&t, s, &o, &m);
  OK(engine_measure(t.pool, t.model, t.reference, &eo, NULL, &needs));
  const double taken = (double)(mem_live_bytes() - before);
  CHECK((double)needs.bytes.total > 0.9 * taken);
  CHECK((double)needs.bytes.total < 1.05 * taken);
  tiny_close(&t);
}
