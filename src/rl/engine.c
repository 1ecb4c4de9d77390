#include "rl/engine.h"

#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "model/lora.h"
#include "os/comm.h"
#include "rl/engine_build.h"
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

static Status check_source(const Config *policy, const Model *reference, int vocab) {
  if (reference)
    return fail(GRPO_EARG, "engine: a model and rows of logits cannot both be the reference");
  if (vocab != policy->vocab_size)
    return fail(GRPO_EARG, "reference: its rows have %d tokens, the policy has %d", vocab,
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

Status engine_new(Engine **out, Pool *pool, Model *policy, Model *reference, const Tokenizer *tok,
                  const EngineOptions *o) {
  try(engine_options_check(o, lora_dropout(policy)));
  try(check_context(model_config(policy), o));
  if (reference) try(check_reference(model_config(policy), model_config(reference)));
  if (o->source.of) try(check_source(model_config(policy), reference, o->source.vocab));
  EngineNeeds needs;
  try(engine_measure(pool, policy, reference, o, NULL, &needs));
  return engine_build(out, pool, policy, reference, tok, &needs, &needs.bytes);
}

void engine_free(Engine *e) { engine_unbuild(e); }

Status engine_check_policy(const Engine *e) {
  if (lora_of(e->policy) == e->adapter) return GRPO_OK;
  return fail(GRPO_EARG,
              "the model was given an adapter, or lost one, since its training began; do that "
              "before or after training");
}

uint64_t engine_optimizer_steps(const Engine *e) {
  return e->optimizer ? optimizer_steps(e->optimizer) : 0;
}

Optimizer *engine_optimizer(Engine *e) { return e->optimizer; }

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
