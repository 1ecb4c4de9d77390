#include "model/kept.h"

#include "base/mem.h"
#include "model/impl.h"

Kept kept_plan(const ModelPlan *p, int slots, int group, int max_prompt, int max_new) {
  Kept k = {.slots = slots, .group = group, .prompt = max_prompt, .completion = max_new - 1};
  k.store.rows = (size_t)slots * ((size_t)max_prompt + (size_t)group * (size_t)k.completion);
  k.store.columns = plan_kept_columns(p);
  return k;
}

size_t kept_bytes(const Kept *k) {
  return block_bytes(k->store.rows * k->store.columns * sizeof(real));
}

Status kept_take(Kept *k) {
  k->store.data = mem_alloc_aligned(kept_bytes(k));
  if (k->store.data) return GRPO_OK;
  return fail(GRPO_ENOMEM, "train.reuse_rollout: no memory for %zu MiB of activations",
              kept_bytes(k) >> 20);
}

void kept_free(Kept *k) {
  mem_free_aligned(k->store.data);
  *k = (Kept){0};
}

size_t kept_row(const Kept *k, int slot, int sample) {
  const size_t of_group = (size_t)k->prompt + (size_t)k->group * (size_t)k->completion;
  const size_t within = sample < 0 ? 0 : (size_t)k->prompt + (size_t)sample * (size_t)k->completion;
  return (size_t)slot * of_group + within;
}
