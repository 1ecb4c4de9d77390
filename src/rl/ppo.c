/* ppo.c - proximal policy optimization: a critic's values, GAE, and passes over the rollout.
 *
 * The values of the rollout are computed in a forward of their own, with the rows that training
 * will pack, so the values of the first training pass equal them, bit for bit.  A minibatch
 * consists of whole groups, which are dealt again in each epoch; its losses are divided by its
 * own counts.
 *
 * The policy's part of a pass is update.c's, which also runs a shared critic.  A separate critic
 * has its own forward and backward after each micro-batch, in the memory that the policy has
 * left.
 */
#include "rl/ppo.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "grad/policy.h"
#include "model/lora.h"
#include "rl/gae.h"
#include "rl/report.h"
#include "rl/update_impl.h"
#include "rl/values.h"

/* ---- targets ------------------------------------------------------------------------- */

static Status targets(Update *u, const PpoOptions *o, const double *score, TargetMetrics *m) {
  Plan *p = &u->plan;
  Values *v = u->values;
  const TargetOptions to = {.gamma = o->gamma,
                            .lambda = o->lambda,
                            .kl_coef = o->kl_coef,
                            .kl_estimator = o->kl_estimator,
                            .whiten_rewards = o->whiten_rewards};
  const TargetInput in = {.nseq = p->nseq,
                          .length = p->length,
                          .positions = v->positions,
                          .score = score,
                          .token_reward = o->token_reward,
                          .logp = p->old_logp,
                          .ref_logp = p->ref_logp,
                          .mask = p->mask,
                          .value_mask = v->mask,
                          .value = v->old};
  return ppo_targets(&u->e->step, &to, &in, p->advantage, v->target, NULL, m);
}

static void copy_advantages(const Plan *p, double *out) {
  const real *a = p->advantage;
  for (int i = 0; i < p->nseq; i++)
    for (int t = 0; t < p->length[i]; t++) *out++ = (double)*a++;
}

/* ---- minibatches --------------------------------------------------------------------- */

/* Is prompt `slot` in minibatch k of this epoch?  Each epoch deals the prompts again. */
static bool is_dealt(const Update *u, const PpoOptions *o, int epoch, int k, int slot) {
  const int n = u->b->nprompts, m = o->minibatches;
  const RngKey key = {.seed = o->update.seed,
                      .stream = RNG_MINIBATCH,
                      .step = (uint32_t)o->update.step,
                      .sample = (uint32_t)epoch};
  if (m == 1) return true;
  const int place = (int)rng_permute(rng_u64(&key, 0), (uint64_t)n, (uint64_t)slot);
  return place >= (int)((int64_t)n * k / m) && place < (int)((int64_t)n * (k + 1) / m);
}

static void count(Update *u) {
  Plan *p = &u->plan;
  Values *v = u->values;
  p->num_sequences = p->num_tokens = p->num_kept = v->num = 0;
  for (int i = 0; i < u->norder; i++) {
    const int k = p->order[i];
    const Unit *unit = &p->unit[k];
    p->num_sequences += unit->n;
    for (int t = unit->token0; t < unit->token0 + unit->tokens; t++) {
      p->num_tokens += (double)p->mask[t];
      p->num_kept += (double)(p->mask[t] * p->top_entropy[t]);
    }
    for (int t = v->first[k]; t < v->first[k] + v->count[k]; t++) v->num += (double)v->mask[t];
  }
  if (v->num < 1) v->num = 1;
}

/* The units of a minibatch, in the step's order, and the numbers that its losses divide by. */
static void deal(Update *u, const PpoOptions *o, int epoch, int k) {
  Plan *p = &u->plan;
  u->norder = 0;
  for (int i = 0; i < p->nunits; i++)
    if (is_dealt(u, o, epoch, k, p->unit[i].first / u->b->group)) p->order[u->norder++] = i;
  p->nbatches = plan_cut(u->norder, p->order, p->unit, u->e->o.micro_batch_tokens, p->batch);
  count(u);
}

/* ---- the step ------------------------------------------------------------------------ */

static Status check(const Engine *e, const Batch *b, const PpoOptions *o) {
  try(update_check_numbers(e, b, &o->update));
  if (!e->critic) return fail(GRPO_EARG, "ppo: the engine was made without a critic");
  if (!o->score) return fail(GRPO_EARG, "ppo: no scores");
  try(ppo_options_check(o, b->nprompts));
  if (o->kl_coef > 0 && !b->has_ref)
    return fail(GRPO_EARG,
                "ppo: kl_coef is %g but the batch has no reference log-probabilities; call "
                "reference() first",
                o->kl_coef);
  return loss_options_check(&o->update.loss);
}

static void add_metrics(const Update *u, const PpoOptions *o, const TargetMetrics *t,
                        StepMetrics *m) {
  const Values *v = u->values;
  const double steps = (double)o->update.iterations * o->minibatches;
  const bool has_ref = u->plan.ref_logp != NULL;
  m->beta = o->kl_coef;
  m->policy_loss = u->loss / steps;
  m->value_loss = v->sums.value_loss / steps;
  m->value_clip_fraction = v->sums.positions > 0 ? v->sums.clipped / v->sums.positions : 0;
  m->approx_kl = v->sums.tokens > 0 ? v->sums.approx_kl / v->sums.tokens : 0;
  m->sequence_kl = has_ref ? t->kl : NAN;
  m->penalty = has_ref ? t->penalty : NAN;
  m->value_mean = t->value_mean;
  m->return_mean = t->return_mean;
  m->explained_variance = t->explained_variance;
  m->value_max_deviation = lora_dropout(u->e->policy) > 0 ? NAN : v->deviation;
}

/* Reads the scores; a completion without a score is left out, with score 0. */
static Status read_scores(Arena *a, const Batch *b, const PpoOptions *o, double **score,
                          bool **left_out) {
  const size_t n = (size_t)batch_size(b);
  *score = arena_alloc(a, n * sizeof **score);
  *left_out = arena_alloc(a, n * sizeof **left_out);
  if (!*score || !*left_out) return fail(GRPO_ENOMEM, "ppo: %zu completions", n);
  for (size_t i = 0; i < n; i++) {
    (*left_out)[i] = isnan(o->score[i]);
    (*score)[i] = (*left_out)[i] ? 0 : o->score[i];
  }
  return GRPO_OK;
}

/* uo: the options that u reads */
static Status passes(Update *u, const PpoOptions *o, UpdateOptions *uo, double *norms) {
  int done = 0;
  for (int epoch = 0; epoch < o->update.iterations; epoch++)
    for (int k = 0; k < o->minibatches; k++) {
      double norm = 0;
      if (done) try(update_ask(u, uo));
      deal(u, o, epoch, k);
      try(update_iterate(u, done++, &norm));
      *norms += norm;
    }
  return GRPO_OK;
}

Status engine_ppo(Engine *e, Batch *b, const PpoOptions *o, double *advantage, StepMetrics *out) {
  const double start = clock_seconds();
  UpdateOptions uo = o->update;
  Update u = {.e = e, .b = b, .o = &uo};
  Values v;
  TargetMetrics t;
  double norms = 0, *score;
  bool *left_out;
  try(check(e, b, o));
  uo.loss.kl_estimator = o->kl_estimator; /* of the metric */
  uo.advantage = uo.token_advantage = NULL;
  uo.loss_fn = NULL;
  arena_reset(&e->step);
  try(read_scores(&e->step, b, o, &score, &left_out));
  try(update_begin(&u, left_out, e->o.max_new_tokens));
  try(values_begin(&u, &v, o));
  try(values_of_rollout(&u));
  try(targets(&u, o, score, &t));
  if (advantage) copy_advantages(&u.plan, advantage);
  try(passes(&u, o, &uo, &norms));
  update_report(&u, o->update.iterations * o->minibatches, norms, clock_seconds() - start, out);
  add_metrics(&u, o, &t, out);
  return GRPO_OK;
}
