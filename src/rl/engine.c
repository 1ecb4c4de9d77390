#include "rl/engine.h"

#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "model/lora.h"
#include "os/comm.h"
#include "rl/engine_impl.h"
#include "rl/engine_memory.h"

/* ---- making ------------------------------------------------------------------------------ */

static Status check_context(const Config *c, const EngineOptions *o) {
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
  model_plan_of_model(&policy, e->policy);
  if (e->reference) model_plan_of_model(&reference, e->reference);
  const int sequences = o->prompts_per_step * o->group_size;
  const size_t unit_tokens = (size_t)UNIT_ROWS + (size_t)o->group_size + (size_t)o->max_new_tokens;
  const int units = o->micro_batch_tokens ? o->prompts_per_step : 1;
  if (o->reuse_rollout == REUSE_ON) try(rollout_activations_allocate(&e->activations));
  try(batch_reserve(&e->batch[BATCH_SAMPLE], o->prompts_per_step, sequences, o->max_prompt_tokens,
                    o->max_new_tokens, BATCH_REF | (o->turns ? BATCH_TURNS : 0)));
  try(arena_reserve(&e->tape.arena,
                    engine_activation_bytes(&policy, e->reference ? &reference : NULL, o)));
  if (e->reference)
    try(model_reserve_positions(e->reference, o->max_prompt_tokens + o->max_new_tokens));
  if (!o->train) return GRPO_OK;
  if (e->critic && critic_trunk(e->critic))
    try(model_reserve_positions(critic_trunk(e->critic), o->max_prompt_tokens + o->max_new_tokens));
  try(reserve_nodes(&e->tape, units * (40 * c->num_hidden_layers + 64)));
  try(reserve_nodes(&e->loss_tape, 16));
  try(arena_reserve(&e->loss_tape.arena, unit_tokens * 24 * sizeof(double)));
  return arena_reserve(&e->step, engine_step_bytes(o));
}

/* A shared critic's head is trained in the policy's backward passes. */
static Status make_trees(Engine *e) {
  Model *trunk = e->critic ? critic_trunk(e->critic) : NULL;
  Tensor *head = e->critic ? critic_head(e->critic) : NULL;
  const TreeSteps steps = engine_tree_steps(&e->o, comm_rank(), comm_size());
  try(gradient_tree_new(&e->tree, e->policy, trunk ? NULL : head, &steps));
  return trunk ? gradient_tree_new(&e->critic_tree, trunk, head, &steps) : GRPO_OK;
}

static Status build(Engine *e) {
  const DecoderLimits limits = engine_decoder_limits(&e->o);
  ModelPlan policy, reference;
  model_plan_of_model(&policy, e->policy);
  if (e->reference) model_plan_of_model(&reference, e->reference);
  try(engine_decide_reuse(&policy, e->reference ? &reference : NULL, &e->o, &e->activations));
  try(tape_init(&e->tape, e->pool));
  try(tape_init(&e->loss_tape, e->pool));
  if (e->o.train) {
    try(model_set_trainable(e->policy, true));
    model_set_checkpointing(e->policy, e->o.gradient_checkpointing);
    try(optimizer_new(&e->optimizer, e->policy, &e->o.optimizer));
    if (e->o.critic) try(critic_new(&e->critic, e->policy, e->o.critic, &e->o.optimizer));
    if (e->critic && critic_trunk(e->critic))
      model_set_checkpointing(critic_trunk(e->critic), e->o.gradient_checkpointing);
    try(make_trees(e));
  }
  try(decoder_new(&e->decoder, e->policy, e->tok, &limits));
  return reserve(e);
}

Status engine_new(Engine **out, Pool *pool, Model *policy, Model *reference, const Tokenizer *tok,
                  const EngineOptions *o) {
  try(engine_options_check(o, lora_dropout(policy)));
  try(check_context(model_config(policy), o));
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
  e->adapter = lora_of(policy);
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
  gradient_tree_free(e->tree);
  gradient_tree_free(e->critic_tree);
  rollout_activations_free(&e->activations);
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

Status engine_check_policy(const Engine *e) {
  if (lora_of(e->policy) == e->adapter) return GRPO_OK;
  return fail(GRPO_EARG,
              "the model was given an adapter, or lost one, since its training began; do that "
              "before or after training");
}

uint64_t engine_optimizer_steps(const Engine *e) {
  return e->optimizer ? optimizer_steps(e->optimizer) : 0;
}

const char *engine_largest_gradient(const Engine *e) {
  return e->optimizer ? optimizer_largest_gradient(e->optimizer) : NULL;
}

uint64_t engine_update_tokens(const Engine *e) { return e->update_tokens; }

const EngineOptions *engine_options(const Engine *e) { return &e->o; }
Model *engine_policy(Engine *e) { return e->policy; }
Model *engine_reference_model(Engine *e) { return e->reference; }
const Tokenizer *engine_tokenizer(const Engine *e) { return e->tok; }
Batch *engine_batch(Engine *e, BatchSlot slot) { return &e->batch[slot]; }

/* ---- state -------------------------------------------------------------------------------- */

static Status state_path(const char *dir, char *path, size_t size) {
  if ((size_t)snprintf(path, size, "%s/optimizer.safetensors", dir) < size) return GRPO_OK;
  return fail(GRPO_EARG, "%s: the path is too long", dir);
}

Status engine_save(const Engine *e, const char *dir) {
  char path[4096];
  try(engine_check_policy(e));
  if (!e->optimizer) return GRPO_OK;
  Status s = dir ? state_path(dir, path, sizeof path) : GRPO_OK, of_part;
  if (e->critic) {
    of_part = critic_save(e->critic, s == GRPO_OK ? dir : NULL);
    s = s == GRPO_OK ? of_part : s;
  }
  of_part = optimizer_save(e->optimizer, dir && s == GRPO_OK ? path : NULL);
  return s == GRPO_OK ? of_part : s;
}

Status engine_load(Engine *e, const char *dir) {
  char path[4096];
  try(engine_check_policy(e));
  if (!e->optimizer) return GRPO_OK;
  try(state_path(dir, path, sizeof path));
  if (e->critic) try(critic_load(e->critic, dir));
  return optimizer_load(e->optimizer, path);
}
