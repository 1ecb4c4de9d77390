/* update.c - one optimizer step on a rolled-out batch.
 *
 * For every micro-batch: forward its units, ask the loss for d loss / d (log-probability, entropy,
 * KL) of each token, send that back through each unit in order.  The built-in losses are asked unit
 * by unit, a user's function once per micro-batch.
 *
 * A unit whose tokens all have advantage 0 has no gradient when nothing else is in the loss: its
 * forward is left out and the record made while sampling stands in for it.
 *
 * In the first iteration the policy is still the one that sampled, and the record is what its head
 * will give, bit for bit.  The loss is then asked before the head has run, which makes its logits
 * in backward only (one pass).  Each unit is held to the record; should one differ, the iteration
 * starts again in two passes, as if nothing had been.  Where sampling has kept its activations
 * (train.reuse_rollout), that iteration's layers take them instead of computing.
 *
 * With a critic (ppo.c) each unit also has values, a loss of theirs and its gradient.
 */
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "grad/policy.h"
#include "model/lora.h"
#include "rl/options.h"
#include "rl/update_impl.h"

void update_options_init(UpdateOptions *o, LossKind kind) {
  *o = (UpdateOptions){
      .lr = option_number("train.lr"),
      .max_grad_norm = option_number("train.max_grad_norm"),
      .iterations = (int)option_number("train.iterations"),
      .mask_truncated = option_boolean("train.mask_truncated"),
      .skip_zero_std_groups = option_boolean("train.skip_zero_std_groups"),
      .top_entropy_quantile = option_number("train.top_entropy_quantile"),
  };
  loss_options_init(&o->loss, kind);
}

static bool has_reference(const Engine *e) { return e->reference || e->o.bigram; }

static bool wants_full_kl(const Update *u) {
  return has_reference(u->e) && u->o->loss.kl != 0 && u->o->loss.kl_estimator == KL_FULL;
}

/* Is the policy still the one that sampled? */
static bool fresh(const Update *u) {
  const Engine *e = u->e;
  return !e->two_passes && u->iteration == 0 && u->b->version == model_version(e->policy) &&
         model_lora_dropout(e->policy) == 0;
}

static bool is_kept(const Update *u) {
  const Engine *e = u->e;
  return e->kept_whole && u->b == &e->batch[BATCH_SAMPLE];
}

static bool needs_forward(const Update *u, int unit) {
  const LossOptions *l = &u->o->loss;
  return !u->plan.silent[unit] || u->values || u->o->loss_fn || l->kl != 0 || l->entropy != 0;
}

/* ---- forward --------------------------------------------------------------------- */

/* The reference's hidden rows for full KL; everything else of its forward is dropped again. */
static Status reference_hidden(Engine *e, const Pack *p, real **out) {
  Tape *t = &e->tape;
  const size_t n = (size_t)p->nout * (size_t)model_config(e->reference)->hidden_size;
  Tensor *hidden;
  real *rows;
  *out = arena_alloc(&t->arena, n * sizeof **out);
  if (!*out) return fail(GRPO_ENOMEM, "update: no memory for the reference's states");
  const ArenaMark mark = arena_mark(&t->arena);
  t->off = true;
  Status s = model_hidden(e->reference, t, p, &hidden);
  if (s == GRPO_OK) s = model_out_hidden(t, p, hidden, &rows);
  t->off = false;
  try(s);
  memcpy(*out, rows, n * sizeof **out);
  arena_release(&t->arena, mark);
  return GRPO_OK;
}

static void use_record(Update *u, const Unit *unit) {
  const size_t at = (size_t)unit->token0, bytes = (size_t)unit->tokens * sizeof(real);
  memcpy(u->plan.logp + at, u->plan.old_logp + at, bytes);
  memcpy(u->plan.entropy + at, u->plan.old_entropy + at, bytes);
}

static bool put_in(const Plan *p, size_t token) { return p->sampled && !p->sampled[token]; }

static void use_result(Update *u, const Unit *unit, const Tensor *out) {
  const size_t at = (size_t)unit->token0, n = (size_t)unit->tokens;
  memcpy(u->plan.logp + at, out->data, n * sizeof(real));
  memcpy(u->plan.entropy + at, out->data + n, n * sizeof(real));
  for (size_t t = at; u->plan.sampled && t < at + n; t++)
    if (put_in(&u->plan, t)) u->plan.logp[t] = u->plan.entropy[t] = 0;
}

/* What backward filled in, against what the loss was asked about. */
static bool as_recorded(const Update *u, const Unit *unit, const Tensor *out) {
  const size_t at = (size_t)unit->token0, n = (size_t)unit->tokens;
  for (size_t t = 0; t < n; t++) {
    if (put_in(&u->plan, at + t)) continue;
    if (memcmp(u->plan.logp + at + t, out->data + t, sizeof(real)) != 0) return false;
    if (memcmp(u->plan.entropy + at + t, out->data + n + t, sizeof(real)) != 0) return false;
  }
  return true;
}

static Status forward_unit(Update *u, int i) {
  Engine *e = u->e;
  const Unit *unit = &u->plan.unit[i];
  real *ref_hidden = NULL;
  Tensor *hidden;
  u->out[i] = NULL;
  if (!needs_forward(u, i)) {
    use_record(u, unit);
    return GRPO_OK;
  }
  Pack *p = arena_alloc(&e->tape.arena, sizeof *p);
  RngKey *key = arena_alloc(&e->tape.arena, sizeof *key);
  if (!p || !key) return fail(GRPO_ENOMEM, "update: no memory for a group");
  *key = dropout_key(u->o->seed, u->o->step, i, u->iteration);
  try(unit_pack_batch(&e->tape.arena, model_config(e->policy), u->b, unit,
                      values_shared(u) ? e->o.max_new_tokens : 0, p));
  p->dropout = key;
  p->one_pass = u->one_pass;
  if (wants_full_kl(u) && e->o.bigram)
    p->ref_table = bigram_logits(e->o.bigram);
  else if (wants_full_kl(u))
    try(reference_hidden(e, p, &ref_hidden));
  if (u->replay) {
    try(unit_replay(&e->tape.arena, &e->kept, u->b, unit, p, &p->replay));
    e->replayed_units++;
  }
  try(model_hidden(e->policy, &e->tape, p, &hidden));
  if (values_shared(u)) try(values_forward(u, i, p, hidden));
  try(model_logp(e->policy, &e->tape, p, hidden, u->b->temperature,
                 ref_hidden ? e->reference : NULL, ref_hidden, &u->out[i]));
  if (u->one_pass)
    use_record(u, unit);
  else
    use_result(u, unit, u->out[i]);
  return GRPO_OK;
}

/* ---- built-in losses ------------------------------------------------------------- */

static void loss_attributes(Update *u, const MicroBatch *mb, const Unit *unit, PolicyLossAttr *a) {
  const Plan *p = &u->plan;
  const size_t at = (size_t)unit->token0;
  *a = (PolicyLossAttr){
      .options = u->o->loss,
      .nseq = unit->n,
      .lengths = p->length + unit->first,
      .mask = p->mask + at,
      .kept = p->kept + at,
      .advantage = p->advantage + at,
      .old_logp = p->old_logp + at,
      .ref_logp = p->ref_logp ? p->ref_logp + at : NULL,
      .sampler_logp = p->old_logp + at,
      .num_sequences = p->num_sequences,
      .num_tokens = p->num_tokens,
      .num_kept_tokens = p->num_kept,
      .batch_tokens = mb->tokens,
      .batch_share = 1.0 / p->nbatches,
      .metrics = &u->sums,
  };
}

static void keep_gradient(const Tensor *x, real *to) {
  if (x && x->grad_live)
    memcpy(to, x->grad, x->n * sizeof *to);
  else if (x)
    memset(to, 0, x->n * sizeof *to);
}

static Status unit_loss(Update *u, const MicroBatch *mb, int i) {
  Tape *t = &u->e->loss_tape;
  Plan *p = &u->plan;
  const Unit *unit = &p->unit[i];
  const size_t at = (size_t)unit->token0;
  const bool full = u->out[i] && u->out[i]->dim[0] == 3;
  PolicyLossAttr a;
  const Attr attr = {.p = &a};
  Tensor logp = tensor_view(p->logp + at, 1, &unit->tokens), *loss;
  Tensor entropy = tensor_view(p->entropy + at, 1, &unit->tokens), kl = {0};
  logp.needs_grad = entropy.needs_grad = true;
  if (full) {
    kl = tensor_view(u->out[i]->data + 2 * (size_t)unit->tokens, 1, &unit->tokens);
    kl.needs_grad = true;
  }
  loss_attributes(u, mb, unit, &a);
  tape_reset(t);
  Tensor *in[] = {&logp, &entropy, full ? &kl : NULL};
  try(tape_apply(t, OP_policy_loss, in, &attr, &loss));
  u->loss += (double)loss->data[0];
  if (!u->out[i]) return GRPO_OK;
  try(tape_backward(t, loss));
  keep_gradient(&logp, p->dlogp + at);
  keep_gradient(&entropy, p->dentropy + at);
  keep_gradient(full ? &kl : NULL, p->dkl + at);
  return GRPO_OK;
}

/* ---- a user's loss --------------------------------------------------------------- */

enum { NVALUES = 7 };

static Status new_value(const real *data, int n, bool needs_grad, Value **out) {
  *out = NULL;
  if (!data) return GRPO_OK;
  try(value_new(out, 1, &n));
  Tensor *t = value_tensor(*out);
  memcpy(t->data, data, (size_t)n * sizeof *data);
  t->needs_grad = needs_grad;
  return GRPO_OK;
}

static Status call_user(Update *u, const LossInput *in) {
  Value *loss = NULL;
  Status s = u->o->loss_fn(u->o->loss_user, in, &loss);
  if (s == GRPO_OK && (!loss || value_tensor(loss)->n != 1))
    s = fail(GRPO_EARG,
             "train.loss: the function must return a tensor with one number; sum() or mean() it");
  if (s == GRPO_OK && !value_tensor(loss)->needs_grad)
    s = fail(
        GRPO_EARG,
        "train.loss: the result does not depend on t.logp or t.entropy: nothing would be learned");
  if (s == GRPO_OK) {
    u->loss += (double)value_tensor(loss)->data[0];
    s = value_backward(&u->e->loss_tape.cx, loss);
  }
  value_release(loss);
  return s;
}

static Status user_loss(Update *u, const MicroBatch *mb) {
  Plan *p = &u->plan;
  const Unit *first = &p->unit[mb->first], *last = first + mb->n - 1;
  const size_t at = (size_t)first->token0;
  const int n = last->token0 + last->tokens - first->token0;
  const real *const data[NVALUES] = {
      p->logp + at,     p->entropy + at,   p->old_logp + at, p->ref_logp ? p->ref_logp + at : NULL,
      p->old_logp + at, p->advantage + at, p->mask + at};
  Value *v[NVALUES] = {NULL};
  Status s = GRPO_OK;
  tape_reset(&u->e->loss_tape);
  for (int i = 0; i < NVALUES && s == GRPO_OK; i++) s = new_value(data[i], n, i < 2, &v[i]);
  if (s == GRPO_OK)
    s = call_user(u, &(LossInput){.logp = v[0],
                                  .entropy = v[1],
                                  .old_logp = v[2],
                                  .ref_logp = v[3],
                                  .sampler_logp = v[4],
                                  .advantage = v[5],
                                  .mask = v[6],
                                  .nseq = last->first + last->n - first->first,
                                  .ntokens = n,
                                  .lengths = p->length + first->first,
                                  .num_sequences = p->num_sequences,
                                  .num_tokens = p->num_tokens < 1 ? 1 : p->num_tokens,
                                  .max_new_tokens = u->o->loss.max_new_tokens});
  if (s == GRPO_OK) {
    keep_gradient(value_tensor(v[0]), p->dlogp + at);
    keep_gradient(value_tensor(v[1]), p->dentropy + at);
  }
  for (int i = 0; i < NVALUES; i++) value_release(v[i]);
  return s;
}

/* The metrics that a built-in loss would have left behind. */
static void measure_user_batch(Update *u, const MicroBatch *mb) {
  const Plan *p = &u->plan;
  for (int i = mb->first; i < mb->first + mb->n; i++)
    for (int t = p->unit[i].token0; t < p->unit[i].token0 + p->unit[i].tokens; t++) {
      if (p->mask[t] == 0) continue;
      u->sums.tokens++;
      u->sums.entropy_sum += (double)p->entropy[t];
      if (!p->ref_logp) continue;
      const double d = (double)p->ref_logp[t] - (double)p->logp[t];
      u->sums.kl_sum += exp(d > 20 ? 20 : d) - d - 1;
    }
}

/* ---- backward -------------------------------------------------------------------- */

/* A loss of the user's may forget the mask: what was put in sends nothing back all the same. */
static void silence_put_in(Update *u, const Unit *unit, real *seed, size_t rows) {
  const size_t at = (size_t)unit->token0, n = (size_t)unit->tokens;
  for (size_t t = 0; u->plan.sampled && t < n; t++)
    if (put_in(&u->plan, at + t))
      for (size_t r = 0; r < rows; r++) seed[r * n + t] = 0;
}

static Status backward_unit(Update *u, int i) {
  Tape *t = &u->e->tape;
  const Unit *unit = &u->plan.unit[i];
  const size_t at = (size_t)unit->token0, n = (size_t)unit->tokens;
  if (!u->out[i]) return GRPO_OK;
  const ArenaMark mark = arena_mark(&t->arena);
  real *seed = arena_zalloc(&t->arena, u->out[i]->n * sizeof *seed);
  if (!seed) return fail(GRPO_ENOMEM, "update: no memory for %zu gradients", u->out[i]->n);
  memcpy(seed, u->plan.dlogp + at, n * sizeof *seed);
  memcpy(seed + n, u->plan.dentropy + at, n * sizeof *seed);
  if (u->out[i]->dim[0] == 3) memcpy(seed + 2 * n, u->plan.dkl + at, n * sizeof *seed);
  silence_put_in(u, unit, seed, (size_t)u->out[i]->dim[0]);
  if (values_shared(u))
    try(tape_seed(t, u->values->out[i], u->values->slope + u->values->first[i]));
  try(tape_backward_from(t, u->out[i], seed));
  arena_release(&t->arena, mark);
  if (!u->one_pass) return GRPO_OK;
  u->e->one_pass_units++;
  u->surprise |= !as_recorded(u, unit, u->out[i]);
  return GRPO_OK;
}

static void notice_large_unit(Engine *e, const Unit *unit) {
  if (!e->o.micro_batch_tokens || unit->rows <= e->o.micro_batch_tokens || e->told_large_unit)
    return;
  e->told_large_unit = true;
  log_message(LOG_INFO, "train.micro_batch_tokens is %d but a group takes %d rows; raised to that",
              e->o.micro_batch_tokens, unit->rows);
}

double update_loss(const Update *u) {
  const Values *v = u->values;
  return v ? u->loss + v->coef * v->sums.value_loss : u->loss;
}

static Status run_micro_batch(Update *u, const MicroBatch *mb) {
  const int *order = u->plan.order, end = mb->first + mb->n;
  double start = seconds_now();
  tape_reset(&u->e->tape);
  for (int i = mb->first; i < end; i++) {
    notice_large_unit(u->e, &u->plan.unit[order[i]]);
    try(forward_unit(u, order[i]));
  }
  u->forward += seconds_now() - start;
  if (u->o->loss_fn) {
    try(user_loss(u, mb));
    measure_user_batch(u, mb);
  } else {
    for (int i = mb->first; i < end; i++) try(unit_loss(u, mb, order[i]));
  }
  if (values_shared(u))
    for (int i = mb->first; i < end; i++) try(values_loss(u, order[i]));
  if (!isfinite(update_loss(u))) return GRPO_OK; /* the caller says so */
  start = seconds_now();
  for (int i = mb->first; i < end; i++) try(backward_unit(u, order[i]));
  u->backward += seconds_now() - start;
  return u->values && !values_shared(u) ? values_train_trunk(u, mb) : GRPO_OK;
}

/* ---- the step -------------------------------------------------------------------- */

/* How far the first iteration's ratios are from 1: sampling and training must agree to the bit,
 * unless an adapter's dropout, which sampling has not, is on. */
static void compare_with_sampling(Update *u) {
  if (model_lora_dropout(u->e->policy) > 0) {
    u->ratio_deviation = NAN;
    return;
  }
  for (int i = 0; i < u->norder; i++) {
    const Unit *unit = &u->plan.unit[u->plan.order[i]];
    for (int t = unit->token0; t < unit->token0 + unit->tokens; t++) {
      const double d = fabs(exp((double)u->plan.logp[t] - (double)u->plan.old_logp[t]) - 1);
      if (!(d <= u->ratio_deviation)) u->ratio_deviation = d;
    }
  }
  if (u->ratio_deviation > 0)
    log_message(LOG_WARNING,
                "step %llu: the first iteration's ratio is off 1 by %.3g: sampling and training "
                "disagree; please report this",
                (unsigned long long)u->o->step, u->ratio_deviation);
}

static Status diverged(const Update *u, const char *what, double value) {
  return fail(
      GRPO_EDIVERGED,
      "training diverged at step %llu: the %s is %g; the weights are as before. Lower train.lr "
      "or train.max_grad_norm, or look at the rewards of this step",
      (unsigned long long)u->o->step, what, value);
}

static Status gradients(Update *u) {
  const double before = update_loss(u);
  model_zero_grad(u->e->policy);
  if (u->values) critic_zero_grad(u->e->critic);
  for (int i = 0; i < u->plan.nbatches; i++) {
    if (u->iteration == 0 && u->o->cancel && *u->o->cancel)
      return fail(GRPO_ELIMIT, "the update was cancelled; the weights are as before");
    try(run_micro_batch(u, &u->plan.batch[i]));
    const double loss = update_loss(u);
    if (!isfinite(loss)) return diverged(u, "loss", loss - before);
  }
  return GRPO_OK;
}

/* Of everything that the step trains. */
static double gradient_norm(const Update *u) {
  const Ctx *cx = &u->e->tape.cx;
  const double policy = optimizer_grad_norm(u->e->optimizer, cx);
  return u->values ? hypot(policy, critic_grad_norm(u->e->critic, cx)) : policy;
}

static Status optimize(Update *u, double norm) {
  Engine *e = u->e;
  const double lr = u->o->lr, most = u->o->max_grad_norm;
  if (!isfinite(norm)) return diverged(u, "gradient norm", norm);
  try(optimizer_step(e->optimizer, &e->tape.cx, lr, most, norm));
  return u->values ? critic_step(e->critic, &e->tape.cx, lr, most, norm) : GRPO_OK;
}

Status update_iterate(Update *u, int iteration, double *norm) {
  const double loss = u->loss;
  const LossMetrics sums = u->sums;
  const ValueSums value_sums = u->values ? u->values->sums : (ValueSums){0};
  u->iteration = iteration;
  u->one_pass = fresh(u) && !wants_full_kl(u); /* which was not recorded */
  u->replay = fresh(u) && is_kept(u);
  try(gradients(u));
  if (u->surprise) {
    u->one_pass = u->replay = u->surprise = false;
    u->loss = loss;
    u->sums = sums;
    if (u->values) u->values->sums = value_sums;
    try(gradients(u));
  }
  if (iteration == 0) compare_with_sampling(u);
  const double start = seconds_now();
  *norm = gradient_norm(u);
  try(optimize(u, *norm));
  u->optimizer += seconds_now() - start;
  return GRPO_OK;
}

Status update_check_numbers(const Engine *e, const Batch *b, double lr, int iterations) {
  if (!e->optimizer) return fail(GRPO_EARG, "update: the engine was made without an optimizer");
  if (batch_size(b) == 0) return fail(GRPO_EARG, "update: the batch is empty; roll out first");
  if (iterations < 1) return fail(GRPO_EARG, "train.iterations: %d, want at least 1", iterations);
  if (!(lr >= 0) || isinf(lr))
    return fail(GRPO_EARG, "train.lr: %g, want a finite number of at least 0", lr);
  return GRPO_OK;
}

static Status check(const Engine *e, const Batch *b, const UpdateOptions *o) {
  const LossOptions *l = &o->loss;
  try(update_check_numbers(e, b, o->lr, o->iterations));
  if (!o->advantage) return fail(GRPO_EARG, "update: no advantages");
  if (!o->loss_fn) try(loss_options_check(l));
  if (l->kl != 0 && !has_reference(e))
    return fail(GRPO_EARG, "train.kl: %g needs a reference, but reference is false", l->kl);
  if (l->kl != 0 && l->kl_estimator != KL_FULL && !b->has_ref)
    return fail(
        GRPO_EARG,
        "update: kl is %g but the batch has no reference log-probabilities; call reference() first",
        l->kl);
  return GRPO_OK;
}

Status update_begin(Update *u, const bool *left_out, int end_below) {
  Engine *e = u->e;
  const PlanOptions po = {.advantage = u->o->advantage,
                          .token_advantage = u->o->token_advantage,
                          .left_out = left_out,
                          .end_below = end_below,
                          .mask_truncated = u->o->mask_truncated,
                          .skip_zero_std_groups = u->o->skip_zero_std_groups,
                          .top_entropy_quantile = u->o->top_entropy_quantile,
                          .micro_batch_tokens = e->o.micro_batch_tokens};
  try(plan_make(&e->step, u->b, &po, &u->plan));
  u->out = arena_zalloc(&e->step, (size_t)u->plan.nunits * sizeof *u->out);
  if (!u->out) return fail(GRPO_ENOMEM, "update: %d groups", u->plan.nunits);
  loss_metrics_init(&u->sums);
  u->norder = u->plan.nunits;
  return GRPO_OK;
}

static double ratio_of(double a, double b) { return b > 0 ? a / b : NAN; }

/* A completion's length is what the model drew of it. */
static void length_metrics(const Batch *b, StepMetrics *m) {
  double sum = 0, cut = 0, terminated = 0;
  m->min_length = INFINITY;
  m->max_length = m->num_tokens = 0;
  for (int i = 0; i < batch_size(b); i++) {
    const Completion *c = &b->completion[i];
    const int drawn = batch_drawn(b, i);
    sum += drawn;
    if (c->finish == FINISH_LENGTH)
      cut++;
    else
      terminated += drawn;
    m->min_length = fmin(m->min_length, drawn);
    m->max_length = fmax(m->max_length, drawn);
    m->num_tokens += c->len + b->prompt_len[i / b->group];
  }
  m->mean_length = sum / batch_size(b);
  m->clipped_ratio = cut / batch_size(b);
  m->mean_terminated_length = batch_size(b) > cut ? terminated / (batch_size(b) - cut) : 0;
  m->time_generate = b->seconds;
  m->tokens_per_second_generate = ratio_of(sum, b->seconds);
}

void update_report(const Update *u, int iterations, double norm, double seconds, StepMetrics *m) {
  const LossMetrics *s = &u->sums;
  const bool has_kl = u->plan.ref_logp || wants_full_kl(u), clips = s->clip_count > 0;
  step_metrics_init(m);
  length_metrics(u->b, m);
  m->loss = update_loss(u) / iterations;
  m->grad_norm = norm / iterations;
  m->learning_rate = u->o->lr;
  m->beta = u->o->loss.kl;
  m->kl = has_kl ? ratio_of(s->kl_sum, s->tokens) : NAN;
  m->entropy = ratio_of(s->entropy_sum, s->tokens);
  m->clip_low_mean = ratio_of(s->clip_low, s->clip_count);
  m->clip_high_mean = ratio_of(s->clip_high, s->clip_count);
  m->clip_region_mean = ratio_of(s->clip_low + s->clip_high, s->clip_count);
  m->clip_low_min = clips ? s->clip_low_min : NAN;
  m->clip_high_max = clips ? s->clip_high_max : NAN;
  m->ratio_max_deviation = u->ratio_deviation;
  m->trained_tokens = u->plan.num_tokens;
  m->time_train = seconds;
  m->time_forward = u->forward;
  m->time_backward = u->backward;
  m->time_optimizer = u->optimizer;
  m->tokens_per_second_train = ratio_of(u->plan.ntokens * iterations, seconds);
}

Status engine_update(Engine *e, Batch *b, const UpdateOptions *o, StepMetrics *out) {
  const double start = seconds_now();
  Update u = {.e = e, .b = b, .o = o};
  double norms = 0;
  try(check(e, b, o));
  arena_reset(&e->step);
  try(update_begin(&u, NULL, 0));
  for (int i = 0; i < o->iterations; i++) {
    double norm = 0;
    try(update_iterate(&u, i, &norm));
    norms += norm;
  }
  update_report(&u, o->iterations, norms, seconds_now() - start, out);
  return GRPO_OK;
}

/* ---- reference log-probabilities ------------------------------------------------- */

static void store_reference(Batch *b, const Unit *unit, const real *logp) {
  for (int i = unit->first; i < unit->first + unit->n; i++) {
    const int len = b->completion[i].len;
    memcpy(b->ref_logp + (size_t)i * (size_t)b->max_new, logp, (size_t)len * sizeof *logp);
    logp += len;
  }
}

static Status reference_unit(Engine *e, Batch *b, const Unit *unit) {
  Tape *t = &e->tape;
  Tensor *hidden, *out;
  Pack p;
  tape_reset(t);
  try(unit_pack_batch(&t->arena, model_config(e->reference), b, unit, 0, &p));
  try(model_hidden(e->reference, t, &p, &hidden));
  try(model_logp(e->reference, t, &p, hidden, b->temperature, NULL, NULL, &out));
  store_reference(b, unit, out->data);
  return GRPO_OK;
}

static void bigram_reference(const Bigram *bigram, Batch *b) {
  const size_t v = (size_t)bigram_vocab(bigram);
  const real inv_temp = (real)(1 / b->temperature);
  for (int i = 0; i < batch_size(b); i++) {
    const Completion *c = &b->completion[i];
    int n;
    const int32_t *prompt = batch_prompt(b, i / b->group, &n);
    for (int t = 0; t < c->len; t++) {
      const int32_t prev = t ? c->ids[t - 1] : prompt[n - 1];
      const real *logits = bigram_logits(bigram) + (size_t)prev * v;
      HeadRow row;
      head_row((int)v, logits, inv_temp, &row);
      b->ref_logp[(size_t)i * (size_t)b->max_new + (size_t)t] =
          head_row_logp(&row, logits[c->ids[t]], inv_temp);
    }
  }
  b->has_ref = true;
}

Status engine_reference(Engine *e, Batch *b) {
  if (!has_reference(e)) return fail(GRPO_EARG, "reference: the engine has none");
  if (!b->ref_logp)
    return fail(GRPO_EARG, "reference: this batch keeps no reference log-probabilities");
  if (e->o.bigram) {
    bigram_reference(e->o.bigram, b);
    return GRPO_OK;
  }
  arena_reset(&e->step);
  Unit *unit = arena_alloc(&e->step, (size_t)batch_size(b) * sizeof *unit);
  if (!unit) return fail(GRPO_ENOMEM, "reference: %d completions", batch_size(b));
  const int n = units_of_batch(b, 0, unit);
  Status s = GRPO_OK;
  e->tape.off = true;
  for (int i = 0; i < n && s == GRPO_OK; i++) s = reference_unit(e, b, &unit[i]);
  e->tape.off = false;
  b->has_ref = s == GRPO_OK;
  return s;
}
