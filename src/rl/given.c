#include "rl/given.h"

#include <string.h>

#include "model/sampler.h"
#include "rl/engine_impl.h"
#include "rl/reference.h"
#include "rl/rollout.h"

static Status check_text(const Engine *e, int i, const GivenText *t) {
  const int vocab = model_config(e->policy)->vocab_size;
  if (t->len < 1 || t->len > e->o.max_new_tokens)
    return fail(GRPO_EARG,
                "given: text %d has %d tokens, want 1 to %d, what the engine was made for", i + 1,
                t->len, e->o.max_new_tokens);
  if (t->sampled && !e->o.turns)
    return fail(GRPO_EARG,
                "given: text %d has injected tokens, but the engine was made without turns", i + 1);
  for (int k = 0; k < t->len; k++)
    if (t->ids[k] < 0 || t->ids[k] >= vocab)
      return fail(GRPO_EARG, "given: text %d: token id %d is outside the vocabulary of %d", i + 1,
                  (int)t->ids[k], vocab);
  return GRPO_OK;
}

/* The completion's log-probabilities become logp [len], or zeros. */
static void set_text(Completion *c, const GivenText *t, const float *logp) {
  const size_t n = (size_t)t->len;
  c->len = t->len;
  c->finish = t->finish;
  memcpy(c->ids, t->ids, n * sizeof *c->ids);
  memset(c->entropy, 0, n * sizeof *c->entropy);
  if (logp)
    memcpy(c->logp, logp, n * sizeof *c->logp);
  else
    memset(c->logp, 0, n * sizeof *c->logp);
  if (!c->sampled) return;
  if (t->sampled)
    memcpy(c->sampled, t->sampled, n);
  else
    memset(c->sampled, 1, n);
}

/* The rollout writes 0 for tokens that it injects. */
static void clear_injected(Batch *b) {
  for (int i = 0; b->sampled && i < batch_size(b); i++) {
    Completion *c = &b->completion[i];
    for (int t = 0; t < c->len; t++)
      if (!c->sampled[t]) c->logp[t] = c->entropy[t] = 0;
  }
}

static Status set_texts(Engine *e, Batch *b, const GivenText *text, const GivenOptions *o) {
  const size_t width = (size_t)e->o.max_new_tokens;
  for (int i = 0; i < batch_size(b); i++) {
    try(check_text(e, i, &text[i]));
    set_text(&b->completion[i], &text[i], o->logp ? o->logp + (size_t)i * width : NULL);
  }
  if (o->logp)
    b->version = 0;
  else
    try(reference_rows(e, e->policy, b, b->logp, b->entropy));
  clear_injected(b);
  return GRPO_OK;
}

Status engine_batch_given(Engine *e, BatchSlot slot, int n, const Prompt *prompts,
                          const GivenText *text, const GivenOptions *o) {
  RolloutOptions r = {.group = o->group};
  Batch *b = &e->batch[slot];
  sampling_init(&r.sampling);
  r.sampling.temperature = o->temperature;
  r.sampling.max_new_tokens = e->o.max_new_tokens;
  try(rollout_begin(e, slot, n, prompts, &r));
  for (int i = 0; i < n; i++) b->target_len[i] = 0; /* nothing was compared with the targets */
  if (slot == BATCH_SAMPLE) e->has_activations = false;
  const Status s = set_texts(e, b, text, o);
  if (s != GRPO_OK) b->nprompts = 0;
  return s;
}
