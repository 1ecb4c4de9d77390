/* steps.h - a few optimizer steps from the same start in two ways, and everything they leave behind
 * compared bit for bit. */
#ifndef GRPO_TESTS_RL_STEPS_H
#define GRPO_TESTS_RL_STEPS_H

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "formats/json.h"
#include "grad/policy.h"
#include "model/config_read.h"
#include "model/lora.h"
#include "model/model_copy.h"
#include "os/file.h"
#include "rl/reference.h"
#include "rl/update.h"
#include "text/tokenizer_make.h"
#include "tiny.h"

typedef struct Setup {
  bool two_passes, lora, untied, capped, own_loss, checkpointing;
  bool damaged, spoilt; /* the record is wrong; the rollout's activations are */
  int micro_batch_tokens, iterations;
  double kl, entropy, dropout, aux; /* aux: router_aux_loss_coef */
  KlEstimator estimator;
  ReuseRollout reuse;
  const char *shape;                       /* config.json of another model than tiny.h's */
  int prompts, group, max_prompt, max_new; /* 0: tiny.h's */
  bool replace;   /* some groups are rolled out again, with other prompts */
  bool turns;     /* completions of several turns */
  bool truncated; /* sampling has filters */
  int threads;    /* 0: 2 */
} Setup;

typedef struct Result {
  Model *weights;
  StepMetrics m;
  real *grads;
  size_t n;
  Buf state;       /* the checkpoint's optimizer file */
  uint64_t pieces; /* of work in the updates (base/progress.h) */
} Result;

static inline Config config_of(const Setup *s) {
  Config c = tiny_config();
  if (s->shape) {
    Json *j = NULL;
    CHECK(!json_parse(s->shape, strlen(s->shape), "test", &j));
    CHECK(!config_read(&c, j, "test"));
    json_free(j);
    return c;
  }
  c.tie_word_embeddings = !s->untied;
  if (!s->capped) return c;
  c.family = FAMILY_GEMMA2;
  c.logit_softcap = 5;
  c.attn_softcap = 20;
  c.query_pre_attn_scalar = 8;
  return c;
}

static inline void open_engine(Tiny *t, const Setup *s) {
  static const char *const all[] = {"all-linear"};
  const LoraOptions every = {
      .rank = 4, .alpha = 8, .dropout = s->dropout, .ntargets = 1, .targets = all};
  const Config c = config_of(s);
  *t = (Tiny){0};
  tiny_options(&t->o);
  if (s->prompts) t->o.prompts_per_step = s->prompts;
  if (s->group) t->o.group_size = s->group;
  if (s->max_prompt) t->o.max_prompt_tokens = s->max_prompt;
  if (s->max_new) t->o.max_new_tokens = s->max_new;
  t->o.reuse_rollout = s->reuse;
  t->o.turns = s->turns;
  t->o.micro_batch_tokens = s->micro_batch_tokens;
  t->o.gradient_checkpointing = s->checkpointing;
  t->o.router_aux_loss_coef = s->aux;
  tiny_models(t, s->threads ? s->threads : 2, &c, true);
  if (s->lora && s->shape) CHECK(!lora_add(t->model, &every, 4));
  if (s->lora && !s->shape) tiny_lora(t, s->dropout);
  tiny_engine(t);
}

enum { MOST_PROMPTS = 48, MOST_TOKENS = 64 };

static inline void make_prompts(const Tiny *t, uint32_t step, int n, Prompt *prompts,
                                int32_t ids[][MOST_TOKENS]) {
  const uint32_t most = (uint32_t)t->o.max_prompt_tokens;
  for (int p = 0; p < n; p++) {
    prompts[p] = (Prompt){.ids = ids[p],
                          .len = 1 + (int)((5 * step + 7 * (uint32_t)p) % most),
                          .index = step * 64 + (uint32_t)p};
    for (int i = 0; i < prompts[p].len; i++)
      ids[p][i] = (int32_t)((31 * (int)step + 17 * p + 5 * i + 11) % 256);
  }
}

/* Injects zero to nine tokens after a turn, a function of the place alone. */
static inline Status some_reply(void *user, const Completion *c, int first, Reply *r) {
  static int32_t ids[9];
  const int n = (3 * c->request + c->sample + c->len) % 10;
  (void)user, (void)first;
  for (int i = 0; i < n; i++) ids[i] = (13 * c->len + 7 * i) % 256;
  *r = (Reply){.continues = c->len % 11 != 10, .ids = ids, .n = n};
  return GRPO_OK;
}

static inline void take_turns(RolloutOptions *ro) {
  static const char *const stop[] = {"a", "e", "i", "o", "u", " ", "t", "n", "s", "r", "T", "A",
                                     "B", "C", "D", "0", "1", "2", "3", ".", ",", "x", "y", "z"};
  ro->sampling.stop = stop;
  ro->sampling.num_stop = sizeof stop / sizeof *stop;
  ro->on_turn = some_reply;
}

static inline Batch *roll_out(Tiny *t, const Setup *s, uint32_t step) {
  static int32_t ids[MOST_PROMPTS][MOST_TOKENS];
  Prompt prompts[MOST_PROMPTS];
  RolloutOptions ro = {.group = t->o.group_size, .seed = 3, .step = step};
  const int slots[] = {2, 0};
  Batch *b = engine_batch(t->engine, BATCH_SAMPLE);
  sampling_init(&ro.sampling);
  ro.sampling.max_new_tokens = t->o.max_new_tokens;
  if (s->turns) take_turns(&ro);
  if (s->truncated && step % 2) ro.sampling.top_k = 5;
  if (s->truncated) ro.sampling.top_p = 0.8, ro.sampling.temperature = 0.7;
  make_prompts(t, step, t->o.prompts_per_step, prompts, ids);
  Status st = engine_rollout(t->engine, BATCH_SAMPLE, t->o.prompts_per_step, prompts, &ro);
  if (s->replace && st == GRPO_OK) {
    make_prompts(t, step + 100, 2, prompts, ids);
    st = engine_replace(t->engine, BATCH_SAMPLE, 2, slots, prompts, &ro);
  }
  if (st) test_fail(__FILE__, __LINE__, "rollout: %s", err_message());
  return b;
}

/* -(1 / N) sum of A log p + 0.01 entropy */
static inline Status own_loss(void *user, const LossInput *in, Value **loss) {
  const Ctx *cx = user;
  const Attr all = {.i = {-1}};
  Value *product = NULL, *both = NULL, *sum = NULL, *scale = NULL;
  try(value_new(&scale, 0, NULL));
  value_tensor(scale)->data[0] = (real)(-1 / in->num_tokens);
  try(value_apply(cx, OP_mul, (Value *[]){in->logp, in->advantage}, NULL, 0, true, &product));
  try(value_apply(cx, OP_sub, (Value *[]){product, in->entropy}, NULL, 0, true, &both));
  try(value_apply(cx, OP_sum, (Value *[]){both}, &all, 0, true, &sum));
  try(value_apply(cx, OP_mul, (Value *[]){sum, scale}, NULL, 0, true, loss));
  value_release(product);
  value_release(both);
  value_release(sum);
  value_release(scale);
  return GRPO_OK;
}

static inline void spoil_activations(Tiny *t) {
  const ReplayStore *store = &t->engine->activations.store;
  for (size_t i = 0; i < store->rows * store->columns; i += 1000) store->data[i] = 100;
}

/* Returns the pieces of work that the update has taken. */
static inline uint64_t step(Tiny *t, const Setup *s, uint32_t number, StepMetrics *m) {
  static double adv[1024];
  UpdateOptions o;
  Batch *b = roll_out(t, s, number);
  if (s->two_passes) b->version = 0; /* as if other weights had sampled it */
  tiny_advantages(b, adv);
  update_options_init(&o, LOSS_grpo);
  o.lr = 1e-2;
  o.advantage = adv;
  o.iterations = s->iterations ? s->iterations : 1;
  o.loss.max_new_tokens = t->o.max_new_tokens;
  o.loss.kl = s->kl;
  o.loss.kl_estimator = s->estimator;
  o.loss.entropy = s->entropy;
  o.loss.top_entropy_quantile = 0.8;
  o.step = number;
  if (s->own_loss) o.loss_fn = own_loss;
  o.loss_user = &t->engine->loss_tape.cx;
  if (s->kl != 0) CHECK(!engine_reference(t->engine, b));
  if (s->damaged) b->completion[2].logp[0] += (float)0.25;
  if (s->spoilt) spoil_activations(t);
  const uint64_t before = progress_count();
  OK(engine_update(t->engine, b, &o, m));
  return progress_count() - before;
}

/* From the second of n steps on, none takes memory. */
static inline void check_no_memory(const Setup *s, uint32_t n) {
  uint64_t before = 0;
  StepMetrics m;
  Tiny t;
  open_engine(&t, s);
  for (uint32_t k = 1; k <= n; k++) {
    if (k == 2) before = mem_allocations();
    step(&t, s, k, &m);
  }
  CHECK(mem_allocations() == before);
  tiny_close(&t);
}

static inline void keep_gradients(Model *m, Result *r) {
  size_t at = 0;
  for (int i = 0; i < model_num_params(m); i++)
    if (model_param(m, i)->trainable) r->n += model_param(m, i)->t.n;
  r->grads = malloc(r->n * sizeof *r->grads);
  for (int i = 0; i < model_num_params(m); i++) {
    const Tensor *t = &model_param(m, i)->t;
    if (!model_param(m, i)->trainable) continue;
    memcpy(r->grads + at, t->grad, t->n * sizeof *r->grads);
    at += t->n;
  }
}

static inline Result run(Setup s, bool two_passes) {
  Result r = {0};
  Tiny t;
  s.two_passes = two_passes;
  open_engine(&t, &s);
  for (uint32_t k = 1; k <= 3; k++) r.pieces += step(&t, &s, k, &r.m);
  keep_gradients(t.model, &r);
  CHECK(!engine_save(t.engine, test_tmp()));
  CHECK(!file_read(test_path("%s/optimizer.safetensors", test_tmp()), 0, &r.state));
  CHECK(!model_copy(&r.weights, t.model));
  tiny_close(&t);
  return r;
}

static inline void release(Result *r) {
  model_release(r->weights);
  buf_free(&r->state);
  free(r->grads);
}

static inline void check_metrics(const StepMetrics *a, const StepMetrics *b) {
#define METRIC(field, name)                                                                        \
  if (!strstr(name, "time/") && !strstr(name, "per_second") && !isnan(a->field))                   \
    CHECK(a->field == b->field);
#include "rl/metrics.def"
#undef METRIC
}

static inline void check_equal(const Result *a, const Result *b) {
  CHECK(a->n == b->n && memcmp(a->grads, b->grads, a->n * sizeof *a->grads) == 0);
  CHECK(same_weights(a->weights, b->weights));
  CHECK(a->state.len == b->state.len && memcmp(a->state.data, b->state.data, a->state.len) == 0);
  check_metrics(&a->m, &b->m);
  check_metrics(&b->m, &a->m);
}

/* Do updates take the rollout's activations?  Wrong ones cost a second try, and change no bit.  A
 * full KL is not recorded, so there is no second try, but other work without them. */
static inline bool uses_activations(Setup s) {
  const bool is_recorded = s.kl == 0 || s.estimator != KL_FULL;
  Result right = run(s, false);
  s.spoilt = is_recorded;
  Result other = run(s, !is_recorded);
  const bool used = is_recorded ? other.pieces > right.pieces : other.pieces != right.pieces;
  check_equal(&right, &other);
  release(&right);
  release(&other);
  return used;
}

#endif
