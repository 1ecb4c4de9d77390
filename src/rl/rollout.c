/* rollout.c - sampling into a batch: requests for the decoder, completions back to their slots. */
#include "rl/rollout.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "os/comm.h"
#include "rl/engine_impl.h"
#include "rl/nonfinite.h"
#include "rl/share.h"

#include <stdio.h>

/* Makes room for the decoder's call; it grows to the largest rollout and is kept. */
static Status scratch(Engine *e, int requests, int completions) {
  if (requests > e->max_requests) {
    Request *r = mem_realloc(e->request, (size_t)requests * sizeof *r);
    if (!r) return fail(GRPO_ENOMEM, "rollout: %d prompts", requests);
    e->request = r;
    e->max_requests = requests;
  }
  if (completions > e->max_completions) {
    Completion *c = mem_fits((double)completions * sizeof *c)
                        ? mem_realloc(e->completion, (size_t)completions * sizeof *c)
                        : NULL;
    if (!c) return fail(GRPO_ENOMEM, "rollout: %d completions", completions);
    e->completion = c;
    e->max_completions = completions;
  }
  return GRPO_OK;
}

static uint32_t stream_of(BatchSlot slot) { return slot == BATCH_EVAL ? RNG_EVAL : RNG_SAMPLE; }

/* The slot that is trained on records which tokens the filters leave. */
static Status record_masks(const Engine *e, Batch *b, BatchSlot slot, int group,
                           const RolloutOptions *o) {
  const bool filtered = e->o.renormalize && sampling_is_truncated(&o->sampling);
  return batch_record_masks(b, group, slot == BATCH_SAMPLE && filtered);
}

/* The groups at slots (NULL: 0, 1, ...) are of these prompts; what was sampled for them is
 * forgotten. */
static Status set_prompts(const Engine *e, Batch *b, BatchSlot slot, int n, const int *slots,
                          const Prompt *prompts, const RolloutOptions *o) {
  for (int i = 0; i < n; i++) {
    const int at = slots ? slots[i] : i;
    try(batch_set_prompt(b, at, &prompts[i]));
    try(record_masks(e, b, slot, at, o));
    for (int k = 0; k < b->group; k++) {
      Completion *c = &b->completion[at * b->group + k];
      c->request = i;
      c->sample = k;
      c->len = 0;
    }
  }
  return GRPO_OK;
}

/* Request i is for the completions of the batch's group slots[i] (NULL: i). */
static void make_requests(Engine *e, Batch *b, BatchSlot slot, int n, const int *slots,
                          const Prompt *prompts, const RolloutOptions *o) {
  for (int i = 0; i < n; i++) {
    const int at = slots ? slots[i] : i;
    Request *r = &e->request[i];
    *r = (Request){.n = o->group,
                   .target = prompts[i].target,
                   .target_len = prompts[i].target_len,
                   .key = {.seed = o->seed,
                           .stream = stream_of(slot),
                           .step = o->step,
                           .prompt = prompts[i].index,
                           .sample = o->before}};
    r->prompt = batch_prompt(b, at, &r->prompt_len);
    for (int k = 0; k < o->group; k++) {
      Completion *c = &b->completion[at * b->group + k];
      if (c->sampling_mask) c->sampling_mask->len = 0;
      e->completion[i * o->group + k] = *c;
    }
  }
}

/* The logits for the next token of a completion were not finite. */
static Status say_diverged(Engine *e, Batch *b, BatchSlot slot, const int *slots,
                           const Completion *bad, unsigned long step) {
  char when[64];
  if (slot == BATCH_SAMPLE)
    snprintf(when, sizeof when, "at step %lu", step + 1);
  else
    snprintf(when, sizeof when, "in the evaluation after step %lu", step);
  return nonfinite_rollout(e, b, slots ? slots[bad->request] : bad->request, bad, when);
}

static Status roll_out(Engine *e, Batch *b, BatchSlot slot, int n, const int *slots,
                       const Prompt *prompts, const RolloutOptions *o) {
  const double start = clock_seconds();
  try(scratch(e, n, n * o->group));
  make_requests(e, b, slot, n, slots, prompts, o);
  decoder_on_token(e->decoder, o->on_token, o->on_token_user);
  decoder_on_turn(e->decoder, o->on_turn, o->on_turn_user);
  decoder_record(e->decoder, slot == BATCH_SAMPLE && e->has_activations ? &e->activations : NULL,
                 slots);
  const Status s = decoder_run(e->decoder, n, e->request, &o->sampling, e->completion, o->cancel);
  decoder_on_token(e->decoder, NULL, NULL);
  decoder_on_turn(e->decoder, NULL, NULL);
  const Completion *bad = s == GRPO_EDIVERGED ? decoder_diverged(e->decoder) : NULL;
  if (bad) return say_diverged(e, b, slot, slots, bad, o->step);
  try(s);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < o->group; k++)
      b->completion[(slots ? slots[i] : i) * b->group + k] = e->completion[i * o->group + k];
  b->seconds += clock_seconds() - start;
  return GRPO_OK;
}

/* The places of a rank's prompts in the batch, and their numbers in the call. */
typedef struct Own {
  int *slot, *number;
  Prompt *prompt;
  const RolloutOptions *o;
} Own;

/* on_turn expects a prompt's index within the caller's list, not within this rank's part. */
static Status answer_own(void *user, const Completion *c, int first, Reply *reply) {
  const Own *own = user;
  Completion numbered = *c;
  numbered.request = own->number[c->request];
  return own->o->on_turn(own->o->on_turn_user, &numbered, first, reply);
}

/* Rolls out the groups of this rank. */
static Status roll_out_own(Engine *e, Batch *b, BatchSlot slot, int n, const int *slots,
                           const Prompt *prompts, Own *own) {
  RolloutOptions o = *own->o;
  int count = 0;
  if (o.on_turn) o.on_turn = answer_own, o.on_turn_user = own;
  for (int i = 0; i < n; i++) {
    const int at = slots ? slots[i] : i;
    if (share_owner(e, slot, b->nprompts, at) != comm_rank()) continue;
    own->slot[count] = at;
    own->number[count] = i;
    own->prompt[count++] = prompts[i];
  }
  return count ? roll_out(e, b, slot, count, own->slot, own->prompt, &o) : GRPO_OK;
}

/* Ranks roll out what is theirs, and tell one another. */
static Status roll_out_shared(Engine *e, Batch *b, BatchSlot slot, int n, const int *slots,
                              const Prompt *prompts, const RolloutOptions *o) {
  if (comm_size() == 1) return roll_out(e, b, slot, n, slots, prompts, o);
  Own own = {.o = o};
  own.slot = mem_alloc((size_t)n * sizeof *own.slot);
  own.number = mem_alloc((size_t)n * sizeof *own.number);
  own.prompt = mem_alloc((size_t)n * sizeof *own.prompt);
  Status s = own.slot && own.number && own.prompt
                 ? roll_out_own(e, b, slot, n, slots, prompts, &own)
                 : fail(GRPO_ENOMEM, "rollout: %d prompts", n);
  mem_free(own.slot);
  mem_free(own.number);
  mem_free(own.prompt);
  try(comm_agree(s));
  return share_completions(e, slot, n, slots);
}

static Status check(const Engine *e, int n, const RolloutOptions *o) {
  try(engine_check_policy(e));
  if (n < 1) return fail(GRPO_EARG, "rollout: no prompts");
  if (o->group < 1) return fail(GRPO_EARG, "rollout: n is %d, want at least 1", o->group);
  if (o->on_turn && !e->o.turns)
    return fail(GRPO_EARG, "rollout: turns, but the engine was made without");
  if (o->sampling.max_new_tokens < 1 || o->sampling.max_new_tokens > e->o.max_new_tokens)
    return fail(GRPO_EARG,
                "rollout: max_new_tokens is %d, want 1 to %d, what the engine was made for",
                o->sampling.max_new_tokens, e->o.max_new_tokens);
  return GRPO_OK;
}

/* The activations of a rollout larger than the engine was made for are not recorded. */
static void begin_keeping(Engine *e, int prompts, int group) {
  RolloutActivations *k = &e->activations;
  e->has_activations = k->store.data && prompts <= k->slots && group <= k->group;
  e->own_activations = comm_size() > 1;
  k->store.operations = 0;
}

/* An evaluation measures the KL where there is something to measure it against. */
static bool wants_reference(const Engine *e, BatchSlot slot) {
  return slot == BATCH_SAMPLE || engine_has_reference(e);
}

Status rollout_begin(Engine *e, BatchSlot slot, int n, const Prompt *prompts,
                     const RolloutOptions *o) {
  Batch *b = &e->batch[slot];
  try(check(e, n, o));
  if ((int64_t)n * o->group > INT32_MAX / e->o.max_new_tokens)
    return fail(GRPO_EARG, "rollout: %d prompts of %d completions are too many", n, o->group);
  try(batch_reserve(b, n, n * o->group, e->o.max_prompt_tokens, e->o.max_new_tokens,
                    (wants_reference(e, slot) ? BATCH_REF : 0) | (e->o.turns ? BATCH_TURNS : 0)));
  b->generation++;
  b->nprompts = n;
  b->group = o->group;
  b->has_ref = b->has_ref_prompts = false;
  b->temperature = o->sampling.temperature > 0 ? o->sampling.temperature : 1;
  b->longest = o->sampling.max_new_tokens;
  b->seconds = 0;
  b->version = model_version(e->policy);
  if (slot == BATCH_SAMPLE) begin_keeping(e, n, o->group);
  const Status s = set_prompts(e, b, slot, n, NULL, prompts, o);
  if (s != GRPO_OK) b->nprompts = 0;
  return s;
}

static Status begin_again(Engine *e, BatchSlot slot, int n, const int *slots, const Prompt *prompts,
                          const RolloutOptions *o) {
  Batch *b = &e->batch[slot];
  try(check(e, n, o));
  if (o->group != b->group)
    return fail(GRPO_EARG, "replace: n is %d, the batch has groups of %d", o->group, b->group);
  if (o->sampling.max_new_tokens != b->longest)
    return fail(GRPO_EARG, "replace: max_new_tokens is %d, the batch was sampled with %d",
                o->sampling.max_new_tokens, b->longest);
  for (int i = 0; i < n; i++)
    if (slots[i] < 0 || slots[i] >= b->nprompts)
      return fail(GRPO_EARG, "replace: there is no group %d of %d", slots[i] + 1, b->nprompts);
  b->has_ref = b->has_ref_prompts = false;
  if (b->version != model_version(e->policy)) b->version = 0;
  return set_prompts(e, b, slot, n, slots, prompts, o);
}

/* Without all groups' activations none are used. */
static Status keep_activations_if(Engine *e, BatchSlot slot, Status s) {
  if (s != GRPO_OK && slot == BATCH_SAMPLE) e->has_activations = false;
  return s;
}

Status engine_rollout(Engine *e, BatchSlot slot, int n, const Prompt *prompts,
                      const RolloutOptions *o) {
  Batch *b = &e->batch[slot];
  try(rollout_begin(e, slot, n, prompts, o));
  const Status s = roll_out_shared(e, b, slot, n, NULL, prompts, o);
  if (s != GRPO_OK) b->nprompts = 0;
  return keep_activations_if(e, slot, s);
}

Status engine_replace(Engine *e, BatchSlot slot, int n, const int *slots, const Prompt *prompts,
                      const RolloutOptions *o) {
  if (n == 0) return GRPO_OK;
  try(begin_again(e, slot, n, slots, prompts, o));
  return keep_activations_if(e, slot,
                             roll_out_shared(e, &e->batch[slot], slot, n, slots, prompts, o));
}
