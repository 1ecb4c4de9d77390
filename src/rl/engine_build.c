#include "rl/engine_build.h"

#include "base/mem.h"
#include "base/minmax.h"
#include "model/lora.h"
#include "os/comm.h"
#include "rl/gae.h"

enum {
  DECODE_MIN = 64,
  DECODE_MAX = 128,   /* completions that decode side by side */
  DECODE_PROMPTS = 32 /* prompts whose cache is held at once; more when groups are small */
};

static DecoderLimits decoder_limits(const EngineOptions *o) {
  const int64_t all = (int64_t)o->prompts_per_step * o->group_size;
  const int most = all < DECODE_MAX ? (int)all : DECODE_MAX;
  const int groups = (most + o->group_size - 1) / o->group_size; /* that fill a decoding step */
  return (DecoderLimits){.max_sequences = max_int(most, DECODE_MIN),
                         .max_prompts = max_int(groups, DECODE_PROMPTS),
                         .max_prompt_tokens = o->max_prompt_tokens,
                         .max_new_tokens = o->max_new_tokens};
}

/* ---- the step's arena ---------------------------------------------------------------------- */

/* Bytes of PPO's values beside the plan, which values_begin() in values.c lays out. */
static size_t values_bytes(int sequences, int max_new) {
  const size_t n = (size_t)sequences, most = n * (size_t)max_new;
  return most * 5 * sizeof(real) + ppo_targets_bytes(most) +
         n * (3 * sizeof(int) + sizeof(Tensor *) + sizeof(bool) + sizeof(double)) + 4096;
}

/* Bytes of a step on n given texts: three arrays by token; ends and a unit of each text. */
static size_t texts_bytes(int n, size_t tokens) {
  return 3 * tokens * sizeof(int32_t) + ((size_t)n + 1) * (2 * sizeof(int) + sizeof(Unit)) + 1024;
}

/* Bytes that the largest step of these options lays out. */
static size_t step_bytes(const EngineOptions *o) {
  const int n = o->prompts_per_step;
  const size_t plan = plan_bytes(n * o->group_size, o->max_new_tokens);
  const size_t texts =
      texts_bytes(n, (size_t)n * (size_t)(o->max_prompt_tokens + o->max_new_tokens));
  const size_t values = o->critic ? values_bytes(n * o->group_size, o->max_new_tokens) : 0;
  const size_t row = o->source.of ? (size_t)o->source.vocab * sizeof(real) : 0;
  return max_size(o->examples ? max_size(texts, plan) : plan, row) + values;
}

/* ---- parts --------------------------------------------------------------------------------- */

/* Adds to *part what was allocated since *before. */
static void count(size_t *before, size_t *part) {
  const size_t now = mem_live_bytes();
  *part += now - *before;
  *before = now;
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

/* A shared critic's head is trained in the policy's backward passes. */
static Status make_trees(Engine *e, size_t *before, EngineBytes *b) {
  Model *trunk = e->critic ? critic_trunk(e->critic) : NULL;
  Tensor *head = e->critic ? critic_head(e->critic) : NULL;
  const bool varies = e->o.examples || e->o.critic; /* units of examples, minibatches */
  const TreeSteps steps = {.fewest = varies ? 1 : e->o.prompts_per_step,
                           .groups = e->o.prompts_per_step,
                           .blocks = e->o.gradient_blocks,
                           .rank = comm_rank(),
                           .ranks = comm_size()};
  try(gradient_tree_new(&e->tree, e->policy, trunk ? NULL : head, &steps));
  count(before, &b->weights);
  if (trunk) try(gradient_tree_new(&e->critic_tree, trunk, head, &steps));
  count(before, &b->critic);
  return GRPO_OK;
}

/* Makes all that training needs beside the policy's weights. */
static Status make_training(Engine *e, size_t *before, EngineBytes *b) {
  const EngineOptions *o = &e->o;
  try(model_set_trainable(e->policy, true));
  model_set_checkpointing(e->policy, o->gradient_checkpointing);
  count(before, &b->weights);
  try(optimizer_new(&e->optimizer, e->policy, &o->optimizer));
  count(before, &b->optimizer);
  if (o->critic) try(critic_new(&e->critic, e->policy, o->critic, &o->optimizer));
  Model *trunk = e->critic ? critic_trunk(e->critic) : NULL;
  if (trunk) {
    model_set_checkpointing(trunk, o->gradient_checkpointing);
    try(model_reserve_positions(trunk, o->max_prompt_tokens + o->max_new_tokens));
  }
  count(before, &b->critic);
  return make_trees(e, before, b);
}

static Status reserve_batches(Engine *e, size_t *before, EngineBytes *b) {
  const EngineOptions *o = &e->o;
  const size_t unit_tokens = (size_t)UNIT_ROWS + (size_t)o->group_size + (size_t)o->max_new_tokens;
  try(batch_reserve(&e->batch[BATCH_SAMPLE], o->prompts_per_step,
                    o->prompts_per_step * o->group_size, o->max_prompt_tokens, o->max_new_tokens,
                    BATCH_REF | (o->turns ? BATCH_TURNS : 0)));
  if (o->ref_prompt_tokens)
    try(batch_reserve_ref_prompts(&e->batch[BATCH_SAMPLE], o->ref_prompt_tokens));
  if (o->train) {
    try(reserve_nodes(&e->loss_tape, 16));
    try(arena_reserve(&e->loss_tape.arena, unit_tokens * 24 * sizeof(double)));
    try(arena_reserve(&e->step, step_bytes(o)));
  }
  count(before, &b->batch);
  return GRPO_OK;
}

static Status build(Engine *e, const EngineNeeds *needs, EngineBytes *b) {
  const EngineOptions *o = &e->o;
  const DecoderLimits limits = decoder_limits(o);
  size_t before = mem_live_bytes();
  try(model_tape(e->policy, &e->tape));
  try(model_tape(e->policy, &e->loss_tape));
  if (o->train) try(make_training(e, &before, b));
  try(decoder_new(&e->decoder, e->policy, e->tok, &limits));
  count(&before, &b->cache);
  if (e->reference)
    try(model_reserve_positions(e->reference, max_int(o->max_prompt_tokens, o->ref_prompt_tokens) +
                                                  o->max_new_tokens));
  count(&before, &b->reference);
  if (o->reuse_rollout == REUSE_ON) try(rollout_activations_allocate(&e->activations));
  count(&before, &b->kept);
  try(reserve_batches(e, &before, b));
  if (needs->tape) try(arena_reserve(&e->tape.arena, needs->tape));
  return reserve_nodes(&e->tape, needs->nodes);
}

Status engine_build(Engine **out, Pool *pool, Model *policy, Model *reference, const Tokenizer *tok,
                    const EngineNeeds *needs, EngineBytes *bytes) {
  Engine *e = mem_zalloc(sizeof *e);
  if (!e) return fail(GRPO_ENOMEM, "engine");
  e->o = needs->options;
  if (e->o.source.of) e->o.source.retain(e->o.source.of);
  e->pool = pool;
  e->policy = model_retain(policy);
  e->reference = reference ? model_retain(reference) : NULL;
  e->tok = tok;
  if (tok) tokenizer_retain(tok);
  e->adapter = lora_of(policy);
  e->activations = needs->activations;
  const Status s = build(e, needs, bytes);
  if (s == GRPO_OK)
    *out = e;
  else
    engine_unbuild(e);
  return s;
}

void engine_unbuild(Engine *e) {
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
  mem_free_aligned(e->gradient_sum);
  mem_free(e->completion);
  mem_free(e->request);
  model_release(e->policy);
  model_release(e->reference);
  if (e->o.source.of) e->o.source.free(e->o.source.of);
  tokenizer_free(e->tok);
  mem_free(e);
}
