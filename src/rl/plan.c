#include "rl/plan.h"

#include <string.h>

#include "grad/covariance.h"
#include "grad/quantile.h"

/* One of them is scratch memory for the quantile, two are for covariances. */
enum { PER_TOKEN_ARRAYS = 16 };

size_t plan_bytes(int sequences, int max_new) {
  const size_t n = (size_t)sequences, tokens = n * (size_t)max_new;
  return tokens * (PER_TOKEN_ARRAYS * sizeof(real) + 2 * sizeof(uint8_t)) +
         n * (3 * sizeof(int) + sizeof(Unit) + sizeof(bool) + sizeof(MicroBatch)) + 4096;
}

static Status take(Arena *a, Plan *p, const Batch *b, bool with_sampler) {
  const size_t n = (size_t)p->nseq, bytes = (size_t)p->ntokens * sizeof(real);
  p->length = arena_alloc(a, n * sizeof *p->length);
  p->unit = arena_alloc(a, n * sizeof *p->unit);
  p->order = arena_alloc(a, n * sizeof *p->order);
  p->place = arena_alloc(a, n * sizeof *p->place);
  p->silent = arena_alloc(a, n * sizeof *p->silent);
  p->batch = arena_alloc(a, n * sizeof *p->batch);
  real **const arrays[] = {&p->advantage,   &p->mask, &p->top_entropy, &p->old_logp,
                           &p->old_entropy, &p->logp, &p->entropy,     &p->dlogp,
                           &p->dentropy,    &p->dkl,  &p->ref_logp};
  const int count = (int)(sizeof arrays / sizeof *arrays) - !b->has_ref;
  bool ok = p->length && p->unit && p->order && p->place && p->silent && p->batch;
  for (int i = 0; i < count; i++) ok &= (*arrays[i] = arena_alloc(a, bytes)) != NULL;
  if (b->has_ref_prompts) ok &= (p->kl_mask = arena_alloc(a, bytes)) != NULL;
  if (b->sampled) ok &= (p->sampled = arena_alloc(a, (size_t)p->ntokens)) != NULL;
  if (with_sampler) ok &= (p->sampler_logp = arena_alloc(a, bytes)) != NULL;
  return ok ? GRPO_OK : fail(GRPO_ENOMEM, "update: no memory for %d tokens", p->ntokens);
}

/* ---- masks ----------------------------------------------------------------------- */

/* The model did not sample injected tokens: their mask, advantage and log-probabilities are 0. */
static void mask_injected(Plan *p, const Completion *c, int at) {
  memcpy(p->sampled + at, c->sampled, (size_t)c->len);
  for (int t = 0; t < c->len; t++) {
    if (c->sampled[t]) continue;
    p->mask[at + t] = p->advantage[at + t] = 0;
    p->old_logp[at + t] = p->old_entropy[at + t] = 0;
    if (p->ref_logp) p->ref_logp[at + t] = 0;
    if (p->sampler_logp) p->sampler_logp[at + t] = 0;
  }
}

static void fill_sequence(Plan *p, const Batch *b, const UpdateOptions *o, bool left_out, int i,
                          int at) {
  const Completion *c = &b->completion[i];
  const bool out = left_out || (o->loss.mask_truncated && c->finish == FINISH_LENGTH);
  p->length[i] = c->len;
  for (int t = 0; t < c->len; t++) {
    double a = o->advantage ? o->advantage[i] : 0;
    if (o->token_advantage) a += o->token_advantage[at + t];
    p->advantage[at + t] = (real)a;
    p->mask[at + t] = out ? 0 : 1;
    p->top_entropy[at + t] = 1;
    if (p->kl_mask) p->kl_mask[at + t] = b->ref_prompt_len[i] > 0;
    p->old_logp[at + t] = c->logp[t];
    if (p->sampler_logp) p->sampler_logp[at + t] = c->logp[t];
    p->old_entropy[at + t] = c->entropy ? c->entropy[t] : 0;
    if (p->ref_logp)
      p->ref_logp[at + t] = p->kl_mask && p->kl_mask[at + t] == 0
                                ? 0
                                : b->ref_logp[(size_t)i * (size_t)b->max_new + (size_t)t];
  }
  if (p->sampled) mask_injected(p, c, at);
}

/* Masks the group of completions first .. first + n - 1, whose tokens begin at `at`, when all its
 * advantages are 0; returns where the next group's tokens begin. */
static int mask_tied_group(Plan *p, int first, int n, int at) {
  int tokens = 0;
  bool tied = true;
  for (int i = first; i < first + n; i++) tokens += p->length[i];
  for (int t = at; t < at + tokens; t++) tied &= p->advantage[t] == 0;
  if (tied) memset(p->mask + at, 0, (size_t)tokens * sizeof *p->mask);
  return at + tokens;
}

static Status keep_high_entropy(Arena *a, Plan *p, double share) {
  uint32_t *scratch = arena_alloc(a, (size_t)p->ntokens * sizeof *scratch);
  if (!scratch) return fail(GRPO_ENOMEM, "update: no memory for the entropy quantile");
  top_entropy_mask((size_t)p->ntokens, p->mask, p->old_entropy, share, scratch, p->top_entropy);
  return GRPO_OK;
}

static Status choose_by_covariance(Arena *a, Plan *p, const UpdateOptions *o) {
  const size_t n = (size_t)p->ntokens;
  real *x = arena_alloc(a, n * sizeof *x);
  uint32_t *at = arena_alloc(a, n * sizeof *at);
  p->chosen = arena_alloc(a, n);
  if (!x || !at || !p->chosen)
    return fail(GRPO_ENOMEM, "update: no memory for the covariances of %d tokens", p->ntokens);
  const CovarianceInput in = {
      .n = n,
      .mask = p->mask,
      .logp = p->old_logp,
      .advantage = p->advantage,
      .key = {.seed = o->seed, .stream = RNG_COVARIANCE, .step = (uint32_t)o->step}};
  covariance_choose(&o->loss, &in, x, at, p->chosen);
  return GRPO_OK;
}

/* ---- units ------------------------------------------------------------------------ */

int plan_cut(int n, const int *order, const Unit *unit, int micro_batch_tokens, MicroBatch *out) {
  int count = 0, rows = 0;
  for (int i = 0; i < n; i++) {
    if (!count || rows + unit[order[i]].rows > micro_batch_tokens) {
      out[count++] = (MicroBatch){.first = i};
      rows = 0;
    }
    out[count - 1].n++;
    rows += unit[order[i]].rows;
  }
  return count;
}

static void count(Plan *p) {
  p->num_sequences = p->nseq;
  for (int t = 0; t < p->ntokens; t++) {
    p->num_tokens += (double)p->mask[t];
    p->num_kept += (double)(p->mask[t] * p->top_entropy[t]);
  }
  for (int i = 0; i < p->nbatches; i++)
    for (int u = p->batch[i].first; u < p->batch[i].first + p->batch[i].n; u++) {
      p->silent[u] = true;
      for (int t = p->unit[u].token0; t < p->unit[u].token0 + p->unit[u].tokens; t++) {
        p->batch[i].tokens += (double)p->mask[t];
        if (p->mask[t] * p->advantage[t] != 0) p->silent[u] = false;
      }
    }
}

Status plan_make(Arena *a, const Batch *b, const UpdateOptions *o, const PlanCut *cut, Plan *out) {
  Plan p = {.nseq = batch_size(b)};
  const int64_t tokens = batch_tokens(b);
  if (tokens > INT32_MAX / 4)
    return fail(GRPO_ELIMIT, "update: %lld tokens are too many", (long long)tokens);
  p.ntokens = (int)tokens;
  try(take(a, &p, b, o->older_sampler));
  for (int i = 0, at = 0; i < p.nseq; at += p.length[i++])
    fill_sequence(&p, b, o, cut->left_out && cut->left_out[i], i, at);
  if (o->skip_zero_std_groups)
    for (int g = 0, at = 0; g < b->nprompts; g++)
      at = mask_tied_group(&p, g * b->group, b->group, at);
  if (covariance_is_used(&o->loss)) try(choose_by_covariance(a, &p, o));
  if (o->loss.top_entropy_quantile < 1) try(keep_high_entropy(a, &p, o->loss.top_entropy_quantile));
  p.nunits = units_of_batch(b, cut->end_below, p.unit);
  for (int i = 0; i < p.nunits; i++) p.order[i] = i;
  p.nbatches = plan_cut(p.nunits, p.order, p.unit, cut->micro_batch_tokens, p.batch);
  count(&p);
  *out = p;
  return GRPO_OK;
}

void plan_loss(const Plan *p, const MicroBatch *mb, const Unit *unit, PolicyLossAttr *out) {
  const size_t at = (size_t)unit->token0;
  *out = (PolicyLossAttr){
      .nseq = unit->n,
      .lengths = p->length + unit->first,
      .mask = p->mask + at,
      .kept = p->top_entropy + at,
      .advantage = p->advantage + at,
      .old_logp = p->old_logp + at,
      .kl_mask = p->kl_mask ? p->kl_mask + at : NULL,
      .ref_logp = p->ref_logp ? p->ref_logp + at : NULL,
      .sampler_logp = plan_sampler_logp(p) + at,
      .chosen = p->chosen ? p->chosen + at : NULL,
      .num_sequences = p->num_sequences,
      .num_tokens = p->num_tokens,
      .num_kept_tokens = p->num_kept,
      .batch_tokens = mb->tokens,
      .batch_share = 1.0 / p->nbatches,
  };
}
