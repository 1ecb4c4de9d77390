#include "rl/batch.h"

#include <string.h>

#include "base/mem.h"

void batch_free(Batch *b) {
  for (int i = 0; b->sampling_mask && i < b->max_sequences; i++)
    sampling_mask_free(&b->sampling_mask[i]);
  mem_free(b->sampling_mask);
  mem_free(b->prompt_ids);
  mem_free(b->prompt_len);
  mem_free(b->target_len);
  mem_free(b->completion);
  mem_free(b->ids);
  mem_free(b->logp);
  mem_free(b->entropy);
  mem_free(b->target_logp);
  mem_free(b->ref_logp);
  mem_free(b->ref_prompt_ids);
  mem_free(b->ref_prompt_len);
  mem_free(b->sampled);
  *b = (Batch){.generation = b->generation + 1};
}

static Status no_memory(int sequences, int max_new) {
  return fail(GRPO_ENOMEM,
              "rollout: no memory for %d completions of %d tokens; lower "
              "sampling.max_new_tokens or train.prompts_per_step",
              sequences, max_new);
}

/* Would the arrays of a step fit into memory, whatever is free now?  In each array (also of plan.c
 * and gae.c) a completion and a token take no more bytes than these. */
static bool batch_fits(int prompts, int sequences, int max_prompt, int max_new) {
  enum { OF_COMPLETION = 512, OF_TOKEN = 64 };
  return mem_fits((double)prompts * max_prompt * OF_TOKEN) &&
         mem_fits((double)sequences * ((double)max_new * OF_TOKEN + OF_COMPLETION));
}

static Status take(Batch *b, int prompts, int sequences, int max_prompt, int max_new, int parts) {
  const size_t tokens = (size_t)sequences * (size_t)max_new;
  if (!batch_fits(prompts, sequences, max_prompt, max_new)) return no_memory(sequences, max_new);
  b->prompt_ids = mem_alloc((size_t)prompts * (size_t)max_prompt * sizeof *b->prompt_ids);
  b->prompt_len = mem_alloc((size_t)prompts * sizeof *b->prompt_len);
  b->target_len = mem_alloc((size_t)prompts * sizeof *b->target_len);
  b->completion = mem_zalloc((size_t)sequences * sizeof *b->completion);
  b->ids = mem_alloc(tokens * sizeof *b->ids);
  b->logp = mem_alloc(tokens * sizeof *b->logp);
  b->entropy = mem_alloc(tokens * sizeof *b->entropy);
  b->target_logp = mem_alloc(tokens * sizeof *b->target_logp);
  b->ref_logp = parts & BATCH_REF ? mem_alloc(tokens * sizeof *b->ref_logp) : NULL;
  b->sampled = parts & BATCH_TURNS ? mem_alloc(tokens) : NULL;
  if (!b->prompt_ids || !b->prompt_len || !b->target_len || !b->completion || !b->ids || !b->logp ||
      !b->entropy || !b->target_logp || (parts & BATCH_REF && !b->ref_logp) ||
      (parts & BATCH_TURNS && !b->sampled))
    return no_memory(sequences, max_new);
  b->max_prompts = prompts;
  b->max_sequences = sequences;
  b->max_prompt = max_prompt;
  b->max_new = max_new;
  for (int i = 0; i < sequences; i++) {
    const size_t at = (size_t)i * (size_t)max_new;
    b->completion[i] = (Completion){.ids = b->ids + at,
                                    .logp = b->logp + at,
                                    .entropy = b->entropy + at,
                                    .target_logp = b->target_logp + at};
    if (b->sampled) b->completion[i].sampled = b->sampled + at;
  }
  return GRPO_OK;
}

Status batch_reserve(Batch *b, int prompts, int sequences, int max_prompt, int max_new, int parts) {
  if (prompts <= b->max_prompts && sequences <= b->max_sequences && max_prompt <= b->max_prompt &&
      max_new <= b->max_new && (!(parts & BATCH_REF) || b->ref_logp) &&
      (!(parts & BATCH_TURNS) || b->sampled))
    return GRPO_OK;
  batch_free(b);
  const Status s = take(b, prompts, sequences, max_prompt, max_new, parts);
  if (s != GRPO_OK) batch_free(b);
  return s;
}

Status batch_reserve_ref_prompts(Batch *b, int max_ref_prompt) {
  const size_t n = (size_t)b->max_sequences;
  if (max_ref_prompt <= b->max_ref_prompt) return GRPO_OK;
  mem_free(b->ref_prompt_ids);
  mem_free(b->ref_prompt_len);
  b->ref_prompt_ids = mem_fits((double)n * max_ref_prompt * sizeof *b->ref_prompt_ids)
                          ? mem_alloc(n * (size_t)max_ref_prompt * sizeof *b->ref_prompt_ids)
                          : NULL;
  b->ref_prompt_len = mem_zalloc(n * sizeof *b->ref_prompt_len);
  b->max_ref_prompt = b->ref_prompt_ids && b->ref_prompt_len ? max_ref_prompt : 0;
  return b->max_ref_prompt
             ? GRPO_OK
             : fail(GRPO_ENOMEM, "rollout: no memory for %zu prompts of the reference", n);
}

Status batch_record_masks(Batch *b, int slot, bool record) {
  if (record && !b->sampling_mask &&
      !(b->sampling_mask = mem_zalloc((size_t)b->max_sequences * sizeof *b->sampling_mask)))
    return fail(GRPO_ENOMEM, "rollout: no memory for %d completions", b->max_sequences);
  for (int i = slot * b->group; i < (slot + 1) * b->group; i++) {
    b->completion[i].sampling_mask = record ? &b->sampling_mask[i] : NULL;
    if (record) b->sampling_mask[i].len = 0;
  }
  return GRPO_OK;
}

int batch_size(const Batch *b) { return b->nprompts * b->group; }

int64_t batch_tokens(const Batch *b) {
  int64_t n = 0;
  for (int i = 0; i < batch_size(b); i++) n += b->completion[i].len;
  return n;
}

int batch_sampled(const Batch *b, int i) {
  const Completion *c = &b->completion[i];
  int n = 0;
  if (!c->sampled) return c->len;
  for (int t = 0; t < c->len; t++) n += c->sampled[t];
  return n;
}

const int32_t *batch_prompt(const Batch *b, int prompt, int *len) {
  *len = b->prompt_len[prompt];
  return b->prompt_ids + (size_t)prompt * (size_t)b->max_prompt;
}

Status batch_set_prompt(Batch *b, int slot, const Prompt *p) {
  if (p->len < 1)
    return fail(GRPO_EARG, "rollout: prompt %d is empty, but a prompt needs at least one token",
                slot + 1);
  if (p->len > b->max_prompt)
    return fail(GRPO_EARG,
                "rollout: prompt %d has %d tokens, but there is room for %d; raise "
                "data.max_prompt_tokens, or lower sampling.max_new_tokens where the model's "
                "context is the limit",
                slot + 1, p->len, b->max_prompt);
  memcpy(b->prompt_ids + (size_t)slot * (size_t)b->max_prompt, p->ids,
         (size_t)p->len * sizeof *p->ids);
  b->prompt_len[slot] = p->len;
  b->target_len[slot] = p->target_len < b->max_new ? p->target_len : b->max_new;
  return GRPO_OK;
}

Status batch_set_ref_prompt(Batch *b, int i, const int32_t *ids, int len) {
  if (!b->max_ref_prompt)
    return fail(GRPO_EARG,
                "reference: the engine was made without prompts for the reference alone");
  if (len > b->max_ref_prompt)
    return fail(GRPO_EARG,
                "reference: prompt %d has %d tokens, but the engine was made for %d; raise "
                "train.distill.max_prompt_tokens",
                i + 1, len, b->max_ref_prompt);
  if (len)
    memcpy(b->ref_prompt_ids + (size_t)i * (size_t)b->max_ref_prompt, ids,
           (size_t)len * sizeof *ids);
  b->ref_prompt_len[i] = len;
  return GRPO_OK;
}

const int32_t *batch_ref_prompt(const Batch *b, int i, int *len) {
  if (!b->has_ref_prompts) return batch_prompt(b, i / b->group, len);
  *len = b->ref_prompt_len[i];
  return b->ref_prompt_ids + (size_t)i * (size_t)b->max_ref_prompt;
}
