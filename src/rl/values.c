#include "rl/values.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "model/forward.h"
#include "os/comm.h"
#include "rl/update_ranks.h"

static Status take(Arena *a, Values *v, int nseq, int nunits) {
  real **const arrays[] = {&v->mask, &v->old, &v->target, &v->now, &v->slope};
  v->first = arena_alloc(a, (size_t)nunits * sizeof *v->first);
  v->count = arena_alloc(a, (size_t)nunits * sizeof *v->count);
  v->out = arena_zalloc(a, (size_t)nunits * sizeof(Tensor *));
  bool ok = v->first && v->count && v->out;
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    ok &= (*arrays[i] = arena_zalloc(a, (size_t)v->n * sizeof(real))) != NULL;
  return ok ? GRPO_OK : fail(GRPO_ENOMEM, "ppo: no memory for values of %d completions", nseq);
}

/* A completion that is in the loss has values at all its positions, before injected tokens too. */
static void fill_masks(const Plan *p, Values *v) {
  const real *mask = p->mask;
  real *to = v->mask;
  for (int i = 0; i < p->nseq; i++) {
    real any = 0;
    for (int t = 0; t < p->length[i]; t++)
      if (mask[t] != 0) any = 1;
    for (int t = 0; t < v->positions[i]; t++) to[t] = any;
    mask += p->length[i];
    to += v->positions[i];
  }
}

Status values_begin(Update *u, Values *v, const PpoOptions *o) {
  const Plan *p = &u->plan;
  Arena *a = &u->e->step;
  *v = (Values){.coef = o->value_coef, .clip = o->clip_value};
  v->positions = arena_alloc(a, (size_t)p->nseq * sizeof *v->positions);
  if (!v->positions) return fail(GRPO_ENOMEM, "ppo: %d completions", p->nseq);
  for (int i = 0; i < p->nseq; i++) {
    v->positions[i] = p->length[i] + (p->length[i] < u->e->o.max_new_tokens);
    v->n += v->positions[i];
  }
  try(take(a, v, p->nseq, p->nunits));
  for (int i = 0, at = 0; i < p->nunits; at += v->count[i++]) {
    v->first[i] = at;
    v->count[i] = 0;
    for (int k = 0; k < p->unit[i].n; k++) v->count[i] += v->positions[p->unit[i].first + k];
  }
  fill_masks(p, v);
  u->values = v;
  return GRPO_OK;
}

bool values_shared(const Update *u) { return u->values && !critic_trunk(u->e->critic); }

void values_store(Update *u, int i) {
  Values *v = u->values;
  memcpy(v->now + v->first[i], v->out[i]->data, v->out[i]->n * sizeof(real));
}

/* Runs the forward whose hidden states the critic reads: the trunk's, or the policy's. */
static Status forward_critic(Update *u, int i, bool dropout) {
  Engine *e = u->e;
  Tape *t = &e->tape;
  Model *m = critic_trunk(e->critic) ? critic_trunk(e->critic) : e->policy;
  Tensor *hidden;
  Pack *p = arena_alloc(&t->arena, sizeof *p);
  RngKey *key = arena_alloc(&t->arena, sizeof *key);
  if (!p || !key) return fail(GRPO_ENOMEM, "ppo: no memory for a group");
  update_name_unit(u, &u->plan.unit[i], true);
  *key = dropout_key(u->o->seed, u->o->step, i, u->iteration);
  try(unit_pack_batch(&t->arena, model_config(m), u->b, &u->plan.unit[i], e->o.max_new_tokens, p));
  if (dropout) p->dropout = key;
  try(forward_hidden(m, t, p, &hidden));
  try(critic_values(e->critic, t, p, hidden, &u->values->out[i]));
  values_store(u, i);
  return GRPO_OK;
}

Status values_of_rollout(Update *u) {
  Tape *t = &u->e->tape;
  const double start = clock_seconds();
  Status s = GRPO_OK;
  t->off = true;
  int first, end;
  update_units_of_rank(u, comm_rank(), &first, &end);
  for (int i = first; i < end && s == GRPO_OK; i++) {
    tape_reset(t);
    if (u->o->cancel && *u->o->cancel)
      s = fail(GRPO_ELIMIT, "the update was cancelled; the weights are as before");
    else
      s = forward_critic(u, i, false);
  }
  t->off = false;
  s = comm_agree(s);
  if (s == GRPO_OK) s = update_gather_values(u);
  memcpy(u->values->old, u->values->now, (size_t)u->values->n * sizeof(real));
  u->forward += clock_seconds() - start;
  return s;
}

static double deviation(const Values *v, int i) {
  double most = 0;
  for (int k = v->first[i]; k < v->first[i] + v->count[i]; k++)
    most = fmax(most, fabs((double)v->now[k] - (double)v->old[k]));
  return most;
}

static void measure_policy(const Update *u, const Unit *unit, ValueSums *s) {
  const Plan *p = &u->plan;
  double sum = 0;
  for (int t = unit->token0; t < unit->token0 + unit->tokens; t++) {
    const double d = (double)p->logp[t] - (double)p->old_logp[t];
    if (p->mask[t] == 0) continue;
    sum += d * d / 2;
    s->tokens++;
  }
  s->approx_kl += sum;
}

Status values_loss(Update *u, int place) {
  Tape *t = &u->e->loss_tape;
  Values *v = u->values;
  const int i = u->plan.order[place];
  ValueSums sums = {0};
  double most = 0;
  const size_t at = (size_t)v->first[i], n = (size_t)v->count[i];
  const ValueLossAttr a = {.old = v->old + at,
                           .returns = v->target + at,
                           .mask = v->mask + at,
                           .clip = v->clip,
                           .count = v->num,
                           .clipped = &sums.clipped};
  Tensor value = tensor_view(v->now + at, 1, &v->count[i]), *loss;
  value.needs_grad = true;
  tape_reset(t);
  try(tape_apply(t, OP_value_loss, (Tensor *[]){&value}, &(Attr){.p = &a}, &loss));
  sums.value_loss = (double)loss->data[0];
  try(tape_backward(t, loss));
  for (size_t k = 0; k < n; k++) {
    v->slope[at + k] = (real)v->coef * value.grad[k];
    sums.positions += v->mask[at + k] != 0;
  }
  measure_policy(u, &u->plan.unit[i], &sums);
  if (u->iteration == 0) most = deviation(v, i);
  value_sums_add(&v->sums, &sums);
  v->deviation = fmax(v->deviation, most);
  if (u->of_place) u->of_place[place].values = sums, u->of_place[place].deviation = most;
  return GRPO_OK;
}

Status values_train_trunk(Update *u, const MicroBatch *mb) {
  Tape *t = &u->e->tape;
  const int *order = u->plan.order + mb->first;
  double start = clock_seconds();
  tape_reset(t);
  for (int k = 0; k < mb->n; k++) try(forward_critic(u, order[k], true));
  u->forward += clock_seconds() - start;
  for (int k = 0; k < mb->n; k++) try(values_loss(u, mb->first + k));
  if (!isfinite(update_loss(u))) return GRPO_OK; /* the caller says so */
  start = clock_seconds();
  for (int k = 0; k < mb->n; k++) {
    const ArenaMark mark = arena_mark(&t->arena);
    update_name_unit(u, &u->plan.unit[order[k]], true);
    gradient_tree_enter(u->e->critic_tree, &t->cx, u->plan.place[order[k]]);
    try(tape_backward_from(t, u->values->out[order[k]],
                           u->values->slope + u->values->first[order[k]]));
    arena_release(&t->arena, mark);
  }
  u->backward += clock_seconds() - start;
  return GRPO_OK;
}
