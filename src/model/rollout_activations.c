#include "model/rollout_activations.h"

#include "base/mem.h"
#include "model/estimate.h"

RolloutActivations rollout_activations_plan(const ModelPlan *p, int slots, int group,
                                            int max_prompt, int max_new) {
  RolloutActivations a = {
      .slots = slots, .group = group, .prompt = max_prompt, .completion = max_new - 1};
  a.store.rows = (size_t)slots * ((size_t)max_prompt + (size_t)group * (size_t)a.completion);
  a.store.columns = estimate_activation_columns(&p->config, p->lora_rank, p->lora_modules);
  return a;
}

size_t rollout_activations_bytes(const RolloutActivations *a) {
  return mem_aligned_size(a->store.rows * a->store.columns * sizeof(real));
}

Status rollout_activations_allocate(RolloutActivations *a) {
  a->store.data = mem_alloc_aligned(rollout_activations_bytes(a));
  if (a->store.data) return GRPO_OK;
  return fail(GRPO_ENOMEM, "train.reuse_rollout: no memory for %zu MiB of activations",
              rollout_activations_bytes(a) >> 20);
}

void rollout_activations_free(RolloutActivations *a) {
  mem_free_aligned(a->store.data);
  *a = (RolloutActivations){0};
}

size_t rollout_activations_row(const RolloutActivations *a, int slot, int sample) {
  const size_t of_group = (size_t)a->prompt + (size_t)a->group * (size_t)a->completion;
  const size_t within = sample < 0 ? 0 : (size_t)a->prompt + (size_t)sample * (size_t)a->completion;
  return (size_t)slot * of_group + within;
}
