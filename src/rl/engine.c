#include "rl/engine.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "model/lora.h"
#include "rl/denoise.h"
#include "rl/engine_impl.h"
#include "rl/options.h"
#include "rl/update_impl.h"

enum {
  DECODE_MIN = 64,
  DECODE_MAX = 128,    /* completions that decode side by side */
  DECODE_PROMPTS = 32, /* prompts whose cache is held at once; more when groups are small */
  EXAMPLE_SPANS = 128  /* sequences that a unit of examples is expected to hold at most */
};

double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void engine_options_init(EngineOptions *o) {
  *o = (EngineOptions){
      .prompts_per_step = (int)option_number("train.prompts_per_step"),
      .group_size = (int)option_number("sampling.group_size"),
      .max_prompt_tokens = (int)option_number("data.max_prompt_tokens"),
      .max_new_tokens = (int)option_number("sampling.max_new_tokens"),
      .train = true,
      .examples = true,
  };
  optimizer_options_default(&o->optimizer);
}

void step_metrics_init(StepMetrics *m) {
  *m = (StepMetrics){
#define METRIC(field, name) .field = NAN,
#include "rl/metrics.def"
#undef METRIC
  };
}

/* ---- how much memory ------------------------------------------------------------------ */

static int larger(int a, int b) { return a > b ? a : b; }

/* What an update lays out, or a step on examples where they are no completions. */
static size_t step_bytes(const EngineOptions *o) {
  const int n = o->prompts_per_step;
  const size_t plan = plan_bytes(n * o->group_size, o->max_new_tokens);
  const size_t texts =
      denoise_bytes(n, (size_t)n * (size_t)(o->max_prompt_tokens + o->max_new_tokens));
  const size_t values = o->critic ? values_bytes(n * o->group_size, o->max_new_tokens) : 0;
  return (o->examples && texts > plan ? texts : plan) + values;
}

static DecoderLimits decoder_limits(const EngineOptions *o) {
  const int64_t all = (int64_t)o->prompts_per_step * o->group_size;
  const int most = all < DECODE_MAX ? (int)all : DECODE_MAX;
  const int groups = (most + o->group_size - 1) / o->group_size; /* that fill a decoding step */
  return (DecoderLimits){.max_sequences = larger(most, DECODE_MIN),
                         .max_prompts = larger(groups, DECODE_PROMPTS),
                         .max_prompt_tokens = o->max_prompt_tokens,
                         .max_new_tokens = o->max_new_tokens};
}

size_t activation_bytes(const ModelPlan *policy, const ModelPlan *reference,
                        const EngineOptions *o) {
  const Config *c = &policy->config;
  const int unit = unit_rows_max(o->group_size, o->max_prompt_tokens, o->max_new_tokens);
  const int example = o->max_prompt_tokens + o->max_new_tokens - 1;
  const int examples = o->examples ? larger(example, SFT_UNIT_ROWS) : 1;
  const int rows = larger(larger(unit, o->micro_batch_tokens), examples);
  /* every sequence has one output more than rows of its own; twice the spans, as each may end in a
   * block of keys that is nearly empty */
  const int units = o->micro_batch_tokens ? o->prompts_per_step : 1;
  const int spans = larger(2 * units * (o->group_size + 1), o->examples ? EXAMPLE_SPANS : 1);
  const StepMemory kind = !o->train                   ? STEP_FORWARD
                          : o->gradient_checkpointing ? STEP_CHECKPOINTED
                                                      : STEP_TRAIN;
  const size_t bytes = model_step_bytes(c, policy->compute, rows, rows + spans, spans, kind) +
                       plan_step_bytes(policy, rows, kind);
  if (o->bigram) { /* the KL's logits and gradient of a chunk, and the token before each output */
    const size_t chunk = (size_t)loghead_rows(c->vocab_size) * (size_t)c->vocab_size;
    return bytes + 2 * chunk * sizeof(real) + (size_t)(rows + spans) * sizeof(int32_t);
  }
  if (!reference) return bytes;
  const int ref_rows = larger(unit, o->examples ? SFT_UNIT_ROWS : 1);
  return bytes +
         model_step_bytes(&reference->config, reference->compute, ref_rows, rows + spans, spans,
                          STEP_FORWARD) +
         plan_step_bytes(reference, ref_rows, STEP_FORWARD) +
         (size_t)(rows + spans) * (size_t)reference->config.hidden_size * sizeof(real);
}

/* ---- keeping activations of generation ------------------------------------------------ */

static Kept plan_kept(const ModelPlan *policy, const EngineOptions *o) {
  return kept_plan(policy, o->prompts_per_step, o->group_size, o->max_prompt_tokens,
                   o->max_new_tokens);
}

static Status check_reuse(const ModelPlan *policy, const EngineOptions *o) {
  const Kept k = plan_kept(policy, o);
  const size_t need = kept_bytes(&k), free = mem_available();
  if (o->reuse_rollout != REUSE_ON) return GRPO_OK;
  if (!o->train) return fail(GRPO_EARG, "engine: reuse_rollout without an optimizer has no use");
  if (o->gradient_checkpointing)
    return fail(GRPO_EARG, "train.reuse_rollout: not together with model.gradient_checkpointing, "
                           "which keeps as little as it can; use \"auto\" or false");
  if (policy->lora_dropout > 0)
    return fail(GRPO_EARG, "train.reuse_rollout: the adapter's dropout makes the training forward "
                           "another one than sampling's; use \"auto\" or false");
  if (o->critic == CRITIC_SHARED)
    return fail(GRPO_EARG, "train.reuse_rollout: a shared critic judges the state after the last "
                           "token, which sampling never computes; use \"auto\" or false");
  if (!free || need <= free) return GRPO_OK;
  return fail(GRPO_ENOMEM,
              "train.reuse_rollout: the activations of %zu rows take %zu MiB and %zu are free; use "
              "\"auto\" or false, or lower train.prompts_per_step or the lengths",
              k.store.rows, need >> 20, free >> 20);
}

/* Optional memory is taken from plenty: results are the same without. */
static bool has_plenty(size_t need, size_t others) {
  const size_t total = mem_total(), free = mem_available();
  return need <= total / 4 && others < free && need <= (free - others) / 2;
}

static bool reuses(const ModelPlan *policy, const EngineOptions *o, const EngineBytes *others) {
  const Kept k = plan_kept(policy, o);
  if (o->reuse_rollout != REUSE_AUTO) return o->reuse_rollout == REUSE_ON;
  return o->train && !o->gradient_checkpointing && policy->lora_dropout == 0 &&
         o->critic != CRITIC_SHARED &&
         has_plenty(kept_bytes(&k), others->total - others->weights - others->reference);
}

void engine_estimate(const ModelPlan *policy, const ModelPlan *reference, const EngineOptions *o,
                     EngineBytes *out) {
  const DecoderLimits limits = decoder_limits(o);
  const int sequences = o->prompts_per_step * o->group_size;
  *out = (EngineBytes){
      .weights = plan_weight_bytes(policy, o->train),
      .reference = reference   ? plan_weight_bytes(reference, false)
                   : o->bigram ? bigram_bytes(policy->config.vocab_size)
                               : 0,
      .optimizer = o->train ? plan_optimizer_bytes(policy) : 0,
      .cache = decoder_bytes(&policy->config, policy->compute, &limits),
      .batch = batch_bytes(o->prompts_per_step, sequences, o->max_prompt_tokens, o->max_new_tokens,
                           BATCH_REF | (o->turns ? BATCH_TURNS : 0)) +
               (o->train ? step_bytes(o) : 0),
      .critic = critic_bytes(policy, o->critic),
      .activations = activation_bytes(policy, reference, o),
  };
  out->total = out->weights + out->reference + out->optimizer + out->critic + out->cache +
               out->batch + out->activations;
  const Kept kept = plan_kept(policy, o);
  if (reuses(policy, o, out)) out->kept = kept_bytes(&kept);
  out->total += out->kept;
}

/* Settles reuse_rollout. */
static Status settle_reuse(Engine *e) {
  EngineBytes bytes;
  ModelPlan policy, reference;
  plan_of_model(&policy, e->policy);
  if (e->reference) plan_of_model(&reference, e->reference);
  try(check_reuse(&policy, &e->o));
  engine_estimate(&policy, e->reference ? &reference : NULL, &e->o, &bytes);
  e->o.reuse_rollout = bytes.kept ? REUSE_ON : REUSE_OFF;
  if (bytes.kept) e->kept = plan_kept(&policy, &e->o);
  return GRPO_OK;
}

/* ---- making ------------------------------------------------------------------------------ */

static Status check_options(const Config *c, const EngineOptions *o) {
  if (o->prompts_per_step < 1 || o->group_size < 1 || o->max_prompt_tokens < 1 ||
      o->max_new_tokens < 1)
    return fail(GRPO_EARG, "engine: prompts_per_step, group_size, max_prompt_tokens and "
                           "max_new_tokens must be at least 1");
  if ((int64_t)o->prompts_per_step * o->group_size * o->max_new_tokens > INT32_MAX / 4)
    return fail(GRPO_EARG,
                "engine: %d prompts of %d completions of %d tokens are too many for a step; "
                "lower train.prompts_per_step",
                o->prompts_per_step, o->group_size, o->max_new_tokens);
  if ((int64_t)o->max_prompt_tokens + o->max_new_tokens > c->max_position_embeddings)
    return fail(GRPO_EARG,
                "data.max_prompt_tokens (%d) and sampling.max_new_tokens (%d) together exceed "
                "the model's context of %d; lower one of them",
                o->max_prompt_tokens, o->max_new_tokens, c->max_position_embeddings);
  return GRPO_OK;
}

static Status check_bigram(const Config *policy, const Model *reference, const Bigram *b) {
  if (reference)
    return fail(GRPO_EARG, "engine: a model and a bigram cannot both be the reference");
  if (bigram_vocab(b) != policy->vocab_size)
    return fail(GRPO_EARG, "reference: a bigram of %d tokens, the policy has %d", bigram_vocab(b),
                policy->vocab_size);
  return GRPO_OK;
}

static Status check_reference(const Config *policy, const Config *reference) {
  if (reference->vocab_size != policy->vocab_size)
    return fail(GRPO_EARG,
                "reference: its vocabulary of %d is not the policy's of %d; name a model "
                "with the same tokenizer",
                reference->vocab_size, policy->vocab_size);
  if (reference->max_position_embeddings < policy->max_position_embeddings)
    log_message(LOG_WARNING, "reference: its context of %d tokens is shorter than the policy's %d",
                reference->max_position_embeddings, policy->max_position_embeddings);
  return GRPO_OK;
}

/* Tapes remember nodes in a list that grows; let it grow now. */
static Status reserve_nodes(Tape *t, int n) {
  if (n <= t->cap) return GRPO_OK;
  Node **grown = mem_realloc(t->node, (size_t)n * sizeof *grown);
  if (!grown) return fail(GRPO_ENOMEM, "engine: no memory for %d nodes", n);
  t->node = grown;
  t->cap = n;
  return GRPO_OK;
}

static Status reserve(Engine *e) {
  const EngineOptions *o = &e->o;
  const Config *c = model_config(e->policy);
  ModelPlan policy, reference;
  plan_of_model(&policy, e->policy);
  if (e->reference) plan_of_model(&reference, e->reference);
  const int sequences = o->prompts_per_step * o->group_size;
  const size_t unit_tokens = (size_t)UNIT_ROWS + (size_t)o->group_size + (size_t)o->max_new_tokens;
  const int units = o->micro_batch_tokens ? o->prompts_per_step : 1;
  if (o->reuse_rollout == REUSE_ON) try(kept_take(&e->kept));
  try(batch_reserve(&e->batch[BATCH_SAMPLE], o->prompts_per_step, sequences, o->max_prompt_tokens,
                    o->max_new_tokens, BATCH_REF | (o->turns ? BATCH_TURNS : 0)));
  try(arena_reserve(&e->tape.arena,
                    activation_bytes(&policy, e->reference ? &reference : NULL, o)));
  if (e->reference)
    try(model_reserve_positions(e->reference, o->max_prompt_tokens + o->max_new_tokens));
  if (!o->train) return GRPO_OK;
  if (e->critic && critic_trunk(e->critic))
    try(model_reserve_positions(critic_trunk(e->critic), o->max_prompt_tokens + o->max_new_tokens));
  try(reserve_nodes(&e->tape, units * (40 * c->num_hidden_layers + 64)));
  try(reserve_nodes(&e->loss_tape, 16));
  try(arena_reserve(&e->loss_tape.arena, unit_tokens * 24 * sizeof(double)));
  return arena_reserve(&e->step, step_bytes(o));
}

static Status build(Engine *e) {
  const DecoderLimits limits = decoder_limits(&e->o);
  try(settle_reuse(e));
  try(tape_init(&e->tape, e->pool));
  try(tape_init(&e->loss_tape, e->pool));
  if (e->o.train) {
    try(model_set_trainable(e->policy, true));
    model_set_checkpointing(e->policy, e->o.gradient_checkpointing);
    try(optimizer_new(&e->optimizer, e->policy, &e->o.optimizer));
    if (e->o.critic) try(critic_new(&e->critic, e->policy, e->o.critic, &e->o.optimizer));
    if (e->critic && critic_trunk(e->critic))
      model_set_checkpointing(critic_trunk(e->critic), e->o.gradient_checkpointing);
  }
  try(decoder_new(&e->decoder, e->policy, e->tok, &limits));
  return reserve(e);
}

Status engine_new(Engine **out, Pool *pool, Model *policy, Model *reference, const Tokenizer *tok,
                  const EngineOptions *o) {
  try(check_options(model_config(policy), o));
  if (reference) try(check_reference(model_config(policy), model_config(reference)));
  if (o->bigram) try(check_bigram(model_config(policy), reference, o->bigram));
  Engine *e = mem_zalloc(sizeof *e);
  if (!e) return fail(GRPO_ENOMEM, "engine");
  e->o = *o;
  if (o->bigram) bigram_retain(o->bigram);
  e->pool = pool;
  e->policy = model_retain(policy);
  e->reference = reference ? model_retain(reference) : NULL;
  e->tok = tok;
  if (tok) tokenizer_retain(tok);
  const Status s = build(e);
  if (s == GRPO_OK) {
    *out = e;
  } else {
    engine_free(e);
  }
  return s;
}

void engine_free(Engine *e) {
  if (!e) return;
  decoder_free(e->decoder);
  optimizer_free(e->optimizer);
  critic_free(e->critic);
  kept_free(&e->kept);
  tape_free(&e->tape);
  tape_free(&e->loss_tape);
  arena_free(&e->step);
  for (int i = 0; i < BATCH_SLOTS; i++) batch_free(&e->batch[i]);
  mem_free(e->completion);
  mem_free(e->request);
  model_release(e->policy);
  model_release(e->reference);
  bigram_free(e->o.bigram);
  tokenizer_free(e->tok);
  mem_free(e);
}

const EngineOptions *engine_options(const Engine *e) { return &e->o; }
Model *engine_policy(Engine *e) { return e->policy; }
Model *engine_reference_model(Engine *e) { return e->reference; }
Batch *engine_batch(Engine *e, BatchSlot slot) { return &e->batch[slot]; }

/* ---- state -------------------------------------------------------------------------------- */

static Status state_path(const char *dir, char *path, size_t size) {
  if ((size_t)snprintf(path, size, "%s/optimizer.safetensors", dir) < size) return GRPO_OK;
  return fail(GRPO_EARG, "%s: the path is too long", dir);
}

Status engine_save(const Engine *e, const char *dir) {
  char path[4096];
  if (!e->optimizer) return GRPO_OK;
  try(state_path(dir, path, sizeof path));
  if (e->critic) try(critic_save(e->critic, dir));
  return optimizer_save(e->optimizer, path);
}

Status engine_load(Engine *e, const char *dir) {
  char path[4096];
  if (!e->optimizer) return GRPO_OK;
  try(state_path(dir, path, sizeof path));
  if (e->critic) try(critic_load(e->critic, dir));
  return optimizer_load(e->optimizer, path);
}
