#include "rl/engine_memory.h"

#include "base/mem.h"
#include "base/minmax.h"
#include "grad/op_loghead.h"
#include "model/lora.h"
#include "os/comm.h"
#include "rl/corrupt.h"
#include "rl/gae.h"
#include "rl/plan.h"

enum {
  DECODE_MIN = 64,
  DECODE_MAX = 128,    /* completions that decode side by side */
  DECODE_PROMPTS = 32, /* prompts whose cache is held at once; more when groups are small */
  EXAMPLE_SPANS = 128  /* sequences that a unit of examples is expected to hold at most */
};

/* Bytes of PPO's values beside the plan, which values_begin() in values.c lays out. */
static size_t values_bytes(int sequences, int max_new) {
  const size_t n = (size_t)sequences, most = n * (size_t)max_new;
  return most * 5 * sizeof(real) + ppo_targets_bytes(most) +
         n * (3 * sizeof(int) + sizeof(Tensor *) + sizeof(bool) + sizeof(double)) + 4096;
}

size_t engine_step_bytes(const EngineOptions *o) {
  const int n = o->prompts_per_step;
  const size_t plan = plan_bytes(n * o->group_size, o->max_new_tokens);
  const size_t texts =
      corrupt_bytes(n, (size_t)n * (size_t)(o->max_prompt_tokens + o->max_new_tokens));
  const size_t values = o->critic ? values_bytes(n * o->group_size, o->max_new_tokens) : 0;
  const size_t row = o->bigram ? (size_t)bigram_vocab(o->bigram) * sizeof(real) : 0;
  return max_size(o->examples ? max_size(texts, plan) : plan, row) + values;
}

DecoderLimits engine_decoder_limits(const EngineOptions *o) {
  const int64_t all = (int64_t)o->prompts_per_step * o->group_size;
  const int most = all < DECODE_MAX ? (int)all : DECODE_MAX;
  const int groups = (most + o->group_size - 1) / o->group_size; /* that fill a decoding step */
  return (DecoderLimits){.max_sequences = max_int(most, DECODE_MIN),
                         .max_prompts = max_int(groups, DECODE_PROMPTS),
                         .max_prompt_tokens = o->max_prompt_tokens,
                         .max_new_tokens = o->max_new_tokens};
}

/* The sets of tokens that truncated sampling leaves, of a whole step. */
static size_t mask_bytes(const Config *c, const EngineOptions *o) {
  const int most = min_int(o->mask_tokens, c->vocab_size);
  const size_t sequences = (size_t)o->prompts_per_step * (size_t)o->group_size;
  return sequences * sampling_mask_words(c->vocab_size, most, o->max_new_tokens) * sizeof(uint32_t);
}

/* micro_batch_tokens, or all rows of a step where that is less, as engine_options_check bounds
 * them. */
static int rows_at_once(const EngineOptions *o) {
  const int64_t all = engine_step_rows(o);
  return all < o->micro_batch_tokens ? (int)all : o->micro_batch_tokens;
}

size_t engine_activation_bytes(const ModelPlan *policy, const ModelPlan *reference,
                               const EngineOptions *o) {
  const Config *c = &policy->config;
  const int unit = unit_rows_max(o->group_size, o->max_prompt_tokens, o->max_new_tokens);
  const int example = o->max_prompt_tokens + o->max_new_tokens - 1;
  const int examples = o->examples ? max_int(example, SFT_UNIT_ROWS) : 1;
  const int rows = max_int(max_int(unit, rows_at_once(o)), examples);
  /* every sequence has one output more than rows of its own; twice the spans, as each may end in a
   * block of keys that is nearly empty */
  const int units = o->micro_batch_tokens ? o->prompts_per_step : 1;
  const int spans = max_int(2 * units * (o->group_size + 1), o->examples ? EXAMPLE_SPANS : 1);
  const StepMemory kind = !o->train                   ? STEP_FORWARD
                          : o->gradient_checkpointing ? STEP_CHECKPOINTED
                                                      : STEP_TRAIN;
  const size_t sets = o->mask_tokens ? (size_t)(rows + spans) * sizeof(uint32_t *) : 0;
  const size_t bytes = estimate_step_bytes(c, policy->compute, rows, rows + spans, spans, kind) +
                       model_plan_step_bytes(policy, rows, kind) + sets;
  if (o->bigram) { /* the KL's logits and gradient of a chunk, and the token before each output */
    const size_t chunk = (size_t)loghead_rows(c->vocab_size) * (size_t)c->vocab_size;
    return bytes + 2 * chunk * sizeof(real) + (size_t)(rows + spans) * sizeof(int32_t);
  }
  if (!reference) return bytes;
  const int ref_rows = max_int(unit, o->examples ? SFT_UNIT_ROWS : 1);
  return bytes +
         estimate_step_bytes(&reference->config, reference->compute, ref_rows, rows + spans, spans,
                             STEP_FORWARD) +
         model_plan_step_bytes(reference, ref_rows, STEP_FORWARD) +
         (size_t)(rows + spans) * (size_t)reference->config.hidden_size * sizeof(real);
}

static RolloutActivations plan_activations(const ModelPlan *policy, const EngineOptions *o) {
  return rollout_activations_plan(policy, o->prompts_per_step, o->group_size, o->max_prompt_tokens,
                                  o->max_new_tokens);
}

static Status check_reuse(const ModelPlan *policy, const EngineOptions *o) {
  const RolloutActivations k = plan_activations(policy, o);
  const size_t need = rollout_activations_bytes(&k), free = mem_available();
  if (o->reuse_rollout != REUSE_ON) return GRPO_OK;
  if (!o->train) return fail(GRPO_EARG, "engine: reuse_rollout without an optimizer has no use");
  if (!free || need <= free) return GRPO_OK;
  return fail(GRPO_ENOMEM,
              "train.reuse_rollout: the activations of %zu rows take %zu MiB and %zu are free; use "
              "\"auto\" or false, or lower train.prompts_per_step or the lengths",
              k.store.rows, need >> 20, free >> 20);
}

/* Is there so much memory that some may be spent on speed alone? */
static bool has_plenty(size_t need, size_t others) {
  const size_t total = mem_total(), free = mem_available();
  return need <= total / 4 && others < free && need <= (free - others) / 2;
}

static bool reuses(const ModelPlan *policy, const EngineOptions *o, const EngineBytes *others) {
  const RolloutActivations k = plan_activations(policy, o);
  if (o->reuse_rollout != REUSE_AUTO) return o->reuse_rollout == REUSE_ON;
  return o->train && !o->gradient_checkpointing && policy->lora_dropout == 0 &&
         o->critic != CRITIC_SHARED &&
         has_plenty(rollout_activations_bytes(&k),
                    others->total - others->weights - others->reference);
}

TreeSteps engine_tree_steps(const EngineOptions *o, int rank, int ranks) {
  const bool varies = o->examples || o->critic; /* units of examples, minibatches */
  return (TreeSteps){.fewest = varies ? 1 : o->prompts_per_step,
                     .groups = o->prompts_per_step,
                     .blocks = o->gradient_blocks,
                     .rank = rank,
                     .ranks = ranks};
}

/* Partial gradients, of a separate critic's trunk where trunk. */
static size_t tree_bytes(const ModelPlan *policy, const EngineOptions *o, bool trunk) {
  if (!o->train || (trunk && o->critic != CRITIC_SEPARATE)) return 0;
  const bool head = trunk || o->critic == CRITIC_SHARED;
  const uint64_t numbers =
      model_plan_trained(policy) + (head ? (uint64_t)policy->config.hidden_size : 0);
  const TreeSteps steps = engine_tree_steps(o, comm_rank(), comm_size());
  return gradient_tree_bytes(numbers, &steps);
}

void engine_estimate(const ModelPlan *policy, const ModelPlan *reference, const EngineOptions *o,
                     EngineBytes *out) {
  const DecoderLimits limits = engine_decoder_limits(o);
  const int sequences = o->prompts_per_step * o->group_size;
  *out = (EngineBytes){
      .weights = model_plan_weight_bytes(policy, o->train) + tree_bytes(policy, o, false),
      .reference = reference   ? model_plan_weight_bytes(reference, false)
                   : o->bigram ? bigram_bytes(o->bigram)
                               : 0,
      .optimizer = o->train
                       ? model_plan_optimizer_bytes(policy, o->optimizer.kind) / (size_t)comm_size()
                       : 0,
      .cache = decoder_bytes(&policy->config, policy->compute, &limits),
      .batch = batch_bytes(o->prompts_per_step, sequences, o->max_prompt_tokens, o->max_new_tokens,
                           BATCH_REF | (o->turns ? BATCH_TURNS : 0)) +
               (o->train ? engine_step_bytes(o) : 0),
      .masks = mask_bytes(&policy->config, o),
      .critic = critic_bytes(policy, o->critic, o->optimizer.kind) + tree_bytes(policy, o, true),
      .activations = engine_activation_bytes(policy, reference, o),
  };
  out->total = out->weights + out->reference + out->optimizer + out->critic + out->cache +
               out->batch + out->masks + out->activations;
  const RolloutActivations a = plan_activations(policy, o);
  if (reuses(policy, o, out)) out->kept = rollout_activations_bytes(&a);
  out->total += out->kept;
}

Status engine_decide_reuse(const ModelPlan *policy, const ModelPlan *reference, EngineOptions *o,
                           RolloutActivations *kept) {
  EngineBytes bytes;
  try(check_reuse(policy, o));
  engine_estimate(policy, reference, o, &bytes);
  o->reuse_rollout = bytes.kept ? REUSE_ON : REUSE_OFF;
  if (bytes.kept) *kept = plan_activations(policy, o);
  return GRPO_OK;
}
