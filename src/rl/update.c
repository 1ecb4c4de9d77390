/* update.c - one optimizer step on a rolled-out batch: pack, forward, loss, backward, step.
 *
 * For every micro-batch: run the forward of its units, evaluate the loss's gradient by each
 * token's log-probability, entropy and KL, and send that back through each unit in order.  A
 * built-in loss is evaluated unit by unit, a user's function once per micro-batch (user_loss.c).
 * In the first iteration much of the forward is not needed, because sampling has recorded it
 * (record.c).  With a critic each unit also has values, with a loss and a gradient of their own
 * (values.c).
 */
#include "rl/update.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "grad/policy.h"
#include "model/forward.h"
#include "model/forward_logits.h"
#include "os/comm.h"
#include "rl/accumulate.h"
#include "rl/record.h"
#include "rl/report.h"
#include "rl/unit_forward.h"
#include "rl/update_impl.h"
#include "rl/update_ranks.h"
#include "rl/user_loss.h"
#include "rl/values.h"

/* ---- forward --------------------------------------------------------------------- */

/* The reference runs the policy's pack p, unless it has prompts of its own. */
static Status reference_packs(Update *u, const Unit *unit, const Pack *p, RefPacks *out) {
  Arena *a = &u->e->tape.arena;
  if (u->b->has_ref_prompts)
    return unit_pack_reference(a, model_config(u->e->reference), u->b, unit, out);
  *out = (RefPacks){1, arena_alloc(a, sizeof *out->pack)};
  if (!out->pack) return fail(GRPO_ENOMEM, "update: no memory for a group");
  *out->pack = (RefPack){.pack = *p};
  return GRPO_OK;
}

static Status forward_unit(Update *u, int i) {
  Engine *e = u->e;
  const Unit *unit = &u->plan.unit[i];
  const bool values = values_shared(u);
  u->out[i] = NULL;
  update_name_unit(u, unit, values);
  if (!record_needs_forward(u, i)) {
    record_use(u, unit);
    return GRPO_OK;
  }
  Pack *p = arena_alloc(&e->tape.arena, sizeof *p);
  RngKey *key = arena_alloc(&e->tape.arena, sizeof *key);
  if (!p || !key) return fail(GRPO_ENOMEM, "update: no memory for a group");
  *key = dropout_key(u->o->seed, u->o->step, i, u->iteration);
  try(unit_pack_batch(&e->tape.arena, model_config(e->policy), u->b, unit,
                      values ? e->o.max_new_tokens : 0, p));
  try(unit_token_sets(&e->tape.arena, model_config(e->policy)->vocab_size, u->b, unit,
                      &p->token_sets));
  p->dropout = key;
  p->one_pass = u->one_pass;
  p->divergence = update_divergence(u);
  if (u->routers) u->routers[i] = p;
  if (u->replay) try(unit_replay(&e->tape.arena, &e->activations, u->b, unit, p, &p->replay));
  RefPacks ref;
  if (update_wants_full_kl(u)) try(reference_packs(u, unit, p, &ref));
  try(unit_forward(e, p, update_wants_full_kl(u) ? &ref : NULL, u->b->temperature,
                   values ? &u->values->out[i] : NULL, &u->out[i]));
  if (values) values_store(u, i);
  if (u->one_pass)
    record_use(u, unit);
  else
    record_result(u, unit, u->out[i]);
  return GRPO_OK;
}

/* ---- loss ------------------------------------------------------------------------ */

static Status unit_loss(Update *u, const MicroBatch *mb, int place) {
  Tape *t = &u->e->loss_tape;
  Plan *p = &u->plan;
  const int i = p->order[place];
  const Unit *unit = &p->unit[i];
  const size_t at = (size_t)unit->token0;
  const bool full = u->out[i] && u->out[i]->dim[0] == 3;
  PolicyLossAttr a;
  LossMetrics of_unit;
  const Attr attr = {.p = &a};
  Tensor logp = tensor_view(p->logp + at, 1, &unit->tokens), *loss;
  Tensor entropy = tensor_view(p->entropy + at, 1, &unit->tokens), kl = {0};
  logp.needs_grad = entropy.needs_grad = true;
  if (full) {
    kl = tensor_view(u->out[i]->data + 2 * (size_t)unit->tokens, 1, &unit->tokens);
    kl.needs_grad = true;
  }
  plan_loss(p, mb, unit, &a);
  a.options = u->o->loss;
  a.metrics = &of_unit;
  loss_metrics_init(&of_unit);
  tape_reset(t);
  Tensor *in[] = {&logp, &entropy, full ? &kl : NULL};
  try(tape_apply(t, OP_policy_loss, in, &attr, &loss));
  u->loss += (double)loss->data[0];
  loss_metrics_add(&u->sums, &of_unit);
  if (u->of_place) u->of_place[place] = (UnitLoss){.loss = (double)loss->data[0], .sums = of_unit};
  if (!u->out[i]) return GRPO_OK;
  try(tape_backward(t, loss));
  update_store_gradient(&logp, p->dlogp + at);
  update_store_gradient(&entropy, p->dentropy + at);
  update_store_gradient(full ? &kl : NULL, p->dkl + at);
  return GRPO_OK;
}

/* A sequence counts as long as it is, so a prompt in each of its unit's completions. */
static double rows_of(const Update *u, const Unit *unit) {
  return unit->rows + (unit->n - 1.0) * u->b->prompt_len[unit->first / u->b->group];
}

static void count_rows(Update *u) {
  u->rows = 0;
  for (int i = 0; i < u->norder; i++) u->rows += rows_of(u, &u->plan.unit[u->plan.order[i]]);
}

/* The auxiliary loss of a unit's routers, which counts for as much as the unit has rows. */
static void routers_loss(Update *u, int place) {
  const int i = u->plan.order[place];
  const double share = rows_of(u, &u->plan.unit[i]) / u->rows;
  const double loss = unit_balance(u->e, u->routers[i], share);
  u->aux_loss += loss;
  if (u->of_place) u->of_place[place].aux_loss = loss;
}

/* ---- values that are not finite --------------------------------------------------- */

/* Looks at what a loss reads and sends back.  EDIVERGED: it is found. */
static Status look_at_seeds(Update *u, const Unit *unit) {
  const Plan *p = &u->plan;
  const char *const loss = u->o->loss_fn ? "look at train.loss" : NULL;
  const struct {
    const real *x;
    const char *what, *advice;
  } rows[] = {
      {p->advantage, "the advantage", "look at the rewards of this step"},
      {p->ref_logp, "the reference's log-probability", "look at the reference model"},
      {p->old_logp, "the log-probability that sampling recorded", NULL},
      {p->dlogp, "the loss's gradient by the log-probability", loss},
      {p->dentropy, "the loss's gradient by the entropy", loss},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (nonfinite_tokens(u->nonfinite, unit, rows[i].x, p->mask, rows[i].what, rows[i].advice))
      return fail(GRPO_EDIVERGED, "%s", u->nonfinite->found);
  return GRPO_OK;
}

/* The loss of this micro-batch is not finite, though every result of the model is. */
static Status look_at_loss(Update *u, const MicroBatch *mb) {
  for (int i = mb->first; i < mb->first + mb->n; i++)
    try(look_at_seeds(u, &u->plan.unit[u->plan.order[i]]));
  if (u->o->loss_fn) u->nonfinite->advice = "look at train.loss";
  return fail(GRPO_EDIVERGED, "the loss is not finite");
}

/* ---- backward -------------------------------------------------------------------- */

static Status backward_unit(Update *u, int i) {
  Tape *t = &u->e->tape;
  const Unit *unit = &u->plan.unit[i];
  const size_t at = (size_t)unit->token0, n = (size_t)unit->tokens;
  if (!u->out[i]) return GRPO_OK;
  update_name_unit(u, unit, values_shared(u));
  if (u->nonfinite) try(look_at_seeds(u, unit));
  gradient_tree_enter(u->e->tree, &t->cx, u->plan.place[i]);
  const ArenaMark mark = arena_mark(&t->arena);
  real *seed = arena_zalloc(&t->arena, u->out[i]->n * sizeof *seed);
  if (!seed) return fail(GRPO_ENOMEM, "update: no memory for %zu gradients", u->out[i]->n);
  memcpy(seed, u->plan.dlogp + at, n * sizeof *seed);
  memcpy(seed + n, u->plan.dentropy + at, n * sizeof *seed);
  if (u->out[i]->dim[0] == 3) memcpy(seed + 2 * n, u->plan.dkl + at, n * sizeof *seed);
  record_silence_injected(u, unit, seed, (size_t)u->out[i]->dim[0]);
  if (values_shared(u))
    try(tape_seed(t, u->values->out[i], u->values->slope + u->values->first[i]));
  try(tape_backward_from(t, u->out[i], seed));
  arena_release(&t->arena, mark);
  if (!u->one_pass) return GRPO_OK;
  u->mismatch |= !record_agrees(u, unit, u->out[i]);
  return GRPO_OK;
}

static void notice_large_unit(Engine *e, const Unit *unit) {
  if (!e->o.micro_batch_tokens || unit->rows <= e->o.micro_batch_tokens || e->told_large_unit)
    return;
  e->told_large_unit = true;
  log_message(LOG_INFO, "train.micro_batch_tokens is %d but a group takes %d rows; raised to that",
              e->o.micro_batch_tokens, unit->rows);
}

/* Copies the record of the units that other ranks own, because a user's loss reads the whole
 * micro-batch. */
static void use_record_of_others(Update *u, const MicroBatch *mb) {
  for (int i = mb->first; i < mb->first + mb->n; i++)
    if (i < u->first || i >= u->end) record_use(u, &u->plan.unit[u->plan.order[i]]);
}

/* all: the micro-batch, of which this rank has a part */
static Status run_micro_batch(Update *u, const MicroBatch *all) {
  const MicroBatch own = update_own_part(u, all), *mb = &own;
  const int *order = u->plan.order, end = mb->first + mb->n;
  double start = clock_seconds();
  if (mb->n == 0) return GRPO_OK;
  tape_reset(&u->e->tape);
  for (int i = mb->first; i < end; i++) {
    notice_large_unit(u->e, &u->plan.unit[order[i]]);
    try(forward_unit(u, order[i]));
  }
  u->forward += clock_seconds() - start;
  if (u->o->loss_fn) {
    if (u->one_pass) use_record_of_others(u, all);
    try(user_loss(u, all, mb));
  } else {
    for (int i = mb->first; i < end; i++) try(unit_loss(u, mb, i));
  }
  for (int i = mb->first; u->routers && i < end; i++) routers_loss(u, i);
  if (values_shared(u))
    for (int i = mb->first; i < end; i++) try(values_loss(u, i));
  if (u->nonfinite && !isfinite(update_loss(u))) return look_at_loss(u, mb);
  if (!isfinite(update_loss(u))) return GRPO_OK; /* the caller says so */
  start = clock_seconds();
  for (int i = mb->first; i < end; i++) try(backward_unit(u, order[i]));
  u->backward += clock_seconds() - start;
  return u->values && !values_shared(u) ? values_train_trunk(u, mb) : GRPO_OK;
}

/* ---- the step -------------------------------------------------------------------- */

/* Computes what a loss of the user's reads of other ranks' units.  The forward of a micro-batch
 * that several ranks have a part of runs twice, now and in its turn. */
static Status forward_common_batches(Update *u) {
  Tape *t = &u->e->tape;
  Status s = GRPO_OK;
  if (!u->o->loss_fn || u->one_pass || !update_has_common_batch(u)) return GRPO_OK;
  t->off = true;
  for (int i = 0; i < u->plan.nbatches; i++) {
    const MicroBatch own = update_own_part(u, &u->plan.batch[i]);
    if (own.n == u->plan.batch[i].n) continue;
    for (int k = own.first; k < own.first + own.n && s == GRPO_OK; k++) {
      tape_reset(t);
      s = forward_unit(u, u->plan.order[k]);
    }
  }
  t->off = false;
  try(comm_agree(s));
  return update_gather_tokens(u);
}

static Status gradients_of_process(Update *u) {
  const double before = update_loss(u);
  try(gradient_tree_begin(u->e->tree, u->groups, u->shared));
  if (u->e->critic_tree) try(gradient_tree_begin(u->e->critic_tree, u->groups, u->shared));
  for (int i = 0; i < u->plan.nbatches; i++) {
    if (u->iteration == 0 && u->o->cancel && *u->o->cancel)
      return fail(GRPO_ELIMIT, "the update was cancelled; the weights are as before");
    try(progress_reached("update", (int64_t)u->iteration * u->plan.nbatches + i,
                         (int64_t)u->o->iterations * u->plan.nbatches));
    try(run_micro_batch(u, &u->plan.batch[i]));
    const double loss = update_loss(u);
    if (!isfinite(loss))
      return fail(GRPO_EDIVERGED, "the loss is %g", nonfinite_shown(loss - before));
  }
  return GRPO_OK;
}

static Status gradients(Update *u) {
  const UnitLoss before = update_sums(u);
  try(forward_common_batches(u));
  Status s = gradients_of_process(u);
  if (u->nonfinite) return s; /* it looks for itself, at what it has */
  if (u->shared) s = comm_agree(s);
  try(s);
  if (u->shared) try(update_gather_losses(u, &before));
  try(gradient_tree_end(u->e->tree, &u->e->tape.cx));
  return u->e->critic_tree ? gradient_tree_end(u->e->critic_tree, &u->e->tape.cx) : GRPO_OK;
}

/* The norm over everything that the step trains. */
static Status gradient_norm(const Update *u, double *norm) {
  const Ctx *cx = &u->e->tape.cx;
  double of_values;
  try(optimizer_grad_norm(u->e->optimizer, cx, norm));
  if (!u->values) return GRPO_OK;
  try(critic_grad_norm(u->e->critic, cx, &of_values));
  *norm = sqrt(*norm * *norm + of_values * of_values);
  return GRPO_OK;
}

/* The gradient of the step and its norm.  EDIVERGED: the loss or the norm is not finite. */
static Status measure(Update *u, double *norm) {
  const UnitLoss before = update_sums(u);
  try(gradients(u));
  if (u->mismatch) {
    u->one_pass = u->replay = u->mismatch = false;
    update_restore(u, &before);
    try(gradients(u));
  }
  const double start = clock_seconds();
  try(gradient_norm(u, norm));
  u->optimizer += clock_seconds() - start;
  if (isfinite(*norm)) return GRPO_OK;
  return fail(GRPO_EDIVERGED, "the gradient norm is %g", nonfinite_shown(*norm));
}

static Status diverged(const Update *u, const char *what, const Nonfinite *n) {
  char taken[128] = "the weights were not changed";
  if (u->iteration == 1)
    snprintf(taken, sizeof taken,
             "optimizer step 2 from this rollout was not taken, but the one "
             "before it was, and stays");
  else if (u->iteration > 1)
    snprintf(taken, sizeof taken,
             "optimizer step %d from this rollout was not taken, but the %d before it were, and "
             "stay",
             u->iteration + 1, u->iteration);
  return fail(GRPO_EDIVERGED, "training diverged at step %llu: %s, so %s; %s%s%s",
              (unsigned long long)u->o->step, what, taken, n->found, n->found[0] ? "; " : "",
              n->advice);
}

/* Computes the step once more, every result by itself, to say where the first value that is not
 * finite came from. */
static Status explain(Update *u, const UnitLoss *before) {
  Nonfinite n;
  char what[64];
  snprintf(what, sizeof what, "%s", err_message());
  nonfinite_begin(&n, u->e, u->b);
  u->nonfinite = &n;
  u->one_pass = u->replay = false;
  update_restore(u, before);
  gradients(u);
  u->nonfinite = NULL;
  nonfinite_end(&n);
  if (u->shared) try(comm_agree(n.found[0] ? diverged(u, what, &n) : GRPO_OK));
  return diverged(u, what, &n);
}

static Status optimize(Update *u, double norm) {
  Engine *e = u->e;
  if (u->o->accumulate) return engine_accumulate(e);
  const double lr = u->o->lr, most = u->o->max_grad_norm;
  try(optimizer_step(e->optimizer, &e->tape.cx, lr, most, norm));
  return u->values ? critic_step(e->critic, &e->tape.cx, lr, most, norm) : GRPO_OK;
}

Status update_iterate(Update *u, int iteration, double *norm) {
  const UnitLoss before = update_sums(u);
  u->iteration = iteration;
  update_divide(u);
  count_rows(u);
  record_begin(u);
  const Status s = measure(u, norm);
  if (s == GRPO_EDIVERGED) return explain(u, &before);
  try(s);
  if (iteration == 0) record_check_ratio(u);
  if (iteration == 0 && u->shared) try(update_gather_deviation(&u->ratio_deviation));
  const double start = clock_seconds();
  try(optimize(u, *norm));
  u->e->update_tokens += (uint64_t)u->plan.num_tokens;
  u->optimizer += clock_seconds() - start;
  return GRPO_OK;
}

Status update_check_numbers(const Engine *e, const Batch *b, const UpdateOptions *o) {
  try(engine_check_policy(e));
  if (!e->optimizer) return fail(GRPO_EARG, "update: the engine was made without an optimizer");
  if (batch_size(b) == 0) return fail(GRPO_EARG, "update: the batch is empty; roll out first");
  return options_check(&update_option_set, o);
}

static Status check_kl(const Engine *e, const Batch *b, const UpdateOptions *o) {
  const LossOptions *l = &o->loss;
  if (!o->loss_fn) try(loss_options_check(l));
  try(options_check(&distill_option_set, &o->distill));
  if (l->kl != 0 && !engine_has_reference(e))
    return fail(GRPO_EARG, "train.kl: %g needs a reference, and the trainer has none", l->kl);
  if (b->has_ref_prompts && !e->reference)
    return fail(GRPO_EARG,
                "train.distill.prompt: the reference is not a model, so it cannot read a prompt");
  if (l->kl != 0 && l->kl_estimator != KL_FULL && !b->has_ref)
    return fail(
        GRPO_EARG,
        "update: kl is %g but the batch has no reference log-probabilities; call reference() first",
        l->kl);
  return GRPO_OK;
}

static Status check(const Engine *e, const Batch *b, const UpdateOptions *o) {
  try(update_check_numbers(e, b, o));
  if (o->accumulate && o->iterations > 1)
    return fail(GRPO_EARG,
                "update: iterations is %d, but an update that accumulates changes no weight; set "
                "iterations to 1",
                o->iterations);
  if (!o->advantage && !o->token_advantage) return fail(GRPO_EARG, "update: no advantages");
  return check_kl(e, b, o);
}

Status update_ask(const Update *u, UpdateOptions *o) {
  if (!o->before) return GRPO_OK;
  try(o->before(o->before_user, &o->lr, &o->loss.kl));
  try(options_check(&update_option_set, o));
  return check_kl(u->e, u->b, o);
}

Status update_begin(Update *u, const bool *left_out, int end_below) {
  Engine *e = u->e;
  const PlanCut cut = {e->o.micro_batch_tokens, end_below, left_out};
  try(plan_make(&e->step, u->b, u->o, &cut, &u->plan));
  u->out = arena_zalloc(&e->step, (size_t)u->plan.nunits * sizeof *u->out);
  if (!u->out) return fail(GRPO_ENOMEM, "update: %d groups", u->plan.nunits);
  if (e->o.router_aux_loss_coef != 0) {
    u->routers = arena_zalloc(&e->step, (size_t)u->plan.nunits * sizeof *u->routers);
    if (!u->routers) return fail(GRPO_ENOMEM, "update: %d groups", u->plan.nunits);
  }
  if (comm_size() > 1) {
    u->of_place = arena_alloc(&e->step, (size_t)u->plan.nunits * sizeof *u->of_place);
    if (!u->of_place) return fail(GRPO_ENOMEM, "update: %d groups", u->plan.nunits);
  }
  loss_metrics_init(&u->sums);
  u->norder = u->plan.nunits;
  u->tokens = u->plan.num_tokens;
  return GRPO_OK;
}

Status engine_update(Engine *e, Batch *b, const UpdateOptions *o, StepMetrics *out) {
  const double start = clock_seconds();
  UpdateOptions uo = *o;
  Update u = {.e = e, .b = b, .o = &uo};
  double norms = 0;
  try(check(e, b, o));
  arena_reset(&e->step);
  try(update_begin(&u, NULL, 0));
  for (int i = 0; i < o->iterations; i++) {
    double norm = 0;
    if (i) try(update_ask(&u, &uo));
    try(update_iterate(&u, i, &norm));
    norms += norm;
  }
  update_report(&u, o->iterations, norms, clock_seconds() - start, out);
  return GRPO_OK;
}
