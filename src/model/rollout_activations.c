#include "model/rollout_activations.h"

#include "base/mem.h"
#include "model/forward.h"
#include "model/model_struct.h"

/* The columns that a forward over one row records. */
static Status count_columns(Model *m, Tape *t, ReplayStore *s) {
  const int32_t id = 0, pos = 0;
  const PackSpan span = {0, 1, -1};
  const ReplayRun run = {0, 1, 0};
  Replay r = {.store = s, .nruns = 1, .run = &run};
  const Pack p = {.nrows = 1, .ids = &id, .pos = &pos, .nspans = 1, .spans = &span, .replay = &r};
  Tensor *x;
  try(forward_hidden(m, t, &p, &x));
  s->columns = r.column;
  return GRPO_OK;
}

Status rollout_activations_measure(RolloutActivations *a, Model *m) {
  Tape t;
  ReplayStore s = {.columns = SIZE_MAX / 2};
  Status st = model_tape(m, &t);
  t.off = true;
  if (st == GRPO_OK) st = count_columns(m, &t, &s);
  tape_free(&t);
  a->store.columns = s.columns;
  a->store.operations = s.operations;
  return st;
}

RolloutActivations rollout_activations_of(int slots, int group, int max_prompt, int max_new) {
  RolloutActivations a = {
      .slots = slots, .group = group, .prompt = max_prompt, .completion = max_new - 1};
  a.store.rows = (size_t)slots * ((size_t)max_prompt + (size_t)group * (size_t)a.completion);
  return a;
}

size_t rollout_activations_bytes(const RolloutActivations *a) {
  const bool fits = mem_fits((double)a->store.rows * a->store.columns * sizeof(real));
  return mem_aligned_size(fits ? a->store.rows * a->store.columns * sizeof(real) : SIZE_MAX);
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
