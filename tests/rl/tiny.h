/* tiny.h - a tiny random model, an engine around it and prompts, for the tests of src/rl. */
#ifndef GRPO_TESTS_RL_TINY_H
#define GRPO_TESTS_RL_TINY_H

#include <stdlib.h>

#include "compute.h"
#include "model/lora.h"
#include "rl/engine.h"
#include "rl/engine_impl.h"
#include "rl/reference.h"
#include "rl/rollout.h"
#include "rl/update.h"
#include "status.h"
#include "text/tokenizer_make.h"

enum { TINY_PROMPTS = 4, TINY_GROUP = 4, TINY_NEW = 12, TINY_PROMPT = 20, TINY_VOCAB = 258 };

typedef struct Tiny {
  Pool *pool;
  Model *model, *reference;
  Tokenizer *tok;
  Engine *engine;
  EngineOptions o;
} Tiny;

static inline Config tiny_config(void) {
  return (Config){.family = FAMILY_LLAMA,
                  .vocab_size = TINY_VOCAB,
                  .hidden_size = 32,
                  .intermediate_size = 48,
                  .num_hidden_layers = 2,
                  .num_attention_heads = 4,
                  .num_key_value_heads = 2,
                  .head_dim = 8,
                  .max_position_embeddings = 64,
                  .norm_eps = 1e-5,
                  .initializer_range = 0.2,
                  .tie_word_embeddings = true,
                  .rope_theta = 10000,
                  .bos_token_id = -1,
                  .pad_token_id = -1,
                  .num_eos = 2,
                  .eos_token_id = {7, 99}};
}

static inline void tiny_options(EngineOptions *o) {
  engine_options_init(o);
  o->prompts_per_step = TINY_PROMPTS;
  o->group_size = TINY_GROUP;
  o->max_prompt_tokens = TINY_PROMPT;
  o->max_new_tokens = TINY_NEW;
}

/* The models and the tokenizer of an engine; c NULL: tiny.h's model. */
static inline void tiny_models(Tiny *t, int threads, const Config *c, bool reference) {
  const Config own = tiny_config();
  CHECK(!pool_new(&t->pool, threads));
  CHECK(!model_new(&t->model, t->pool, c ? c : &own, 1));
  CHECK(!model_set_compute(t->model, test_compute));
  if (reference) CHECK(!model_new(&t->reference, t->pool, c ? c : &own, 2));
  if (reference) CHECK(!model_set_compute(t->reference, test_compute));
  CHECK(!tokenizer_bytes(&t->tok));
}

/* An adapter of some projections. */
static inline void tiny_lora(Tiny *t, double dropout) {
  static const char *const targets[] = {"q_proj", "down_proj", "lm_head"};
  const LoraOptions o = {
      .rank = 4, .alpha = 8, .dropout = dropout, .ntargets = 3, .targets = targets};
  CHECK(!lora_add(t->model, &o, 4));
}

static inline void tiny_engine(Tiny *t) {
  OK(engine_new(&t->engine, t->pool, t->model, t->reference, t->tok, &t->o));
}

/* o NULL: tiny_options(). */
static inline void tiny_open(Tiny *t, int threads, const EngineOptions *o) {
  *t = (Tiny){0};
  tiny_options(&t->o);
  if (o) t->o = *o;
  tiny_models(t, threads, NULL, true);
  tiny_engine(t);
}

static inline void tiny_close(Tiny *t) {
  engine_free(t->engine);
  model_release(t->model);
  model_release(t->reference);
  tokenizer_free(t->tok);
  pool_free(t->pool);
}

/* Prompts whose lengths depend on the step. */
static inline Batch *tiny_rollout(Tiny *t, uint32_t step) {
  static int32_t ids[TINY_PROMPTS][TINY_PROMPT];
  Prompt prompts[TINY_PROMPTS];
  RolloutOptions ro = {.group = t->o.group_size, .seed = 3, .step = step};
  sampling_init(&ro.sampling);
  ro.sampling.max_new_tokens = TINY_NEW;
  for (int p = 0; p < t->o.prompts_per_step; p++) {
    prompts[p] = (Prompt){.ids = ids[p],
                          .len = 1 + (int)((5 * step + 7 * (uint32_t)p) % TINY_PROMPT),
                          .index = step * 16 + (uint32_t)p};
    for (int i = 0; i < prompts[p].len; i++)
      ids[p][i] = (int32_t)((31 * (int)step + 17 * p + 5 * i + 11) % 256);
  }
  OK(engine_rollout(t->engine, BATCH_SAMPLE, t->o.prompts_per_step, prompts, &ro));
  return engine_batch(t->engine, BATCH_SAMPLE);
}

/* Advantages that look like some: different in every group, one group without any. */
static inline void tiny_advantages(const Batch *b, double *a) {
  for (int i = 0; i < batch_size(b); i++) {
    const int g = i / b->group, k = i % b->group;
    a[i] = g == 1 ? 0 : (k - (b->group - 1) / 2.0) * (1 + 0.25 * g);
  }
}

/* Returns a rollout of the step, and makes its advantages the ones that o reads. */
static inline Batch *tiny_batch(Tiny *t, uint32_t step, double *adv, UpdateOptions *o) {
  Batch *b = tiny_rollout(t, step);
  tiny_advantages(b, adv);
  o->advantage = adv;
  return b;
}

/* A rollout of the step and an update on it. */
static inline void tiny_step(Tiny *t, uint32_t step, const UpdateOptions *o, StepMetrics *m) {
  double adv[64];
  UpdateOptions here = *o;
  Batch *b = tiny_batch(t, step, adv, &here);
  if (here.loss.kl != 0) CHECK(!engine_reference(t->engine, b));
  OK(engine_update(t->engine, b, &here, m));
}

/* Reads a frozen base too, in whatever form it is stored. */
static inline real *values_of(Model *m, int i) {
  Param *p = model_param(m, i);
  real *x = malloc(p->t.n * sizeof *x);
  CHECK(!param_values(&(Ctx){0}, p, x));
  return x;
}

static inline bool same_weights(Model *a, Model *b) {
  bool same = true;
  for (int i = 0; same && i < model_num_params(a); i++) {
    real *x = values_of(a, i), *y = values_of(b, i);
    same = memcmp(x, y, model_param(a, i)->t.n * sizeof *x) == 0;
    free(x), free(y);
  }
  return same;
}

#endif
