#include "rl/likelihood.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/progress.h"
#include "model/forward.h"
#include "model/forward_logits.h"
#include "os/comm.h"
#include "rl/accumulate.h"
#include "rl/engine_impl.h"
#include "rl/share.h"
#include "rl/unit_forward.h"

static const Option option_rows[] = {
#define OPTIONS_OF SftOptions
#include "base/option_rows.h"
#include "rl/step_options.def"
};

const OptionSet sft_option_set = OPTION_SET("train.", option_rows);

void sft_options_init(SftOptions *o) {
  *o = (SftOptions){0};
  options_init_rows(&sft_option_set, o);
}

static Status count(Likelihood *l) {
  const Unit *last = &l->unit[l->nunits - 1];
  const int64_t all = (int64_t)last->token0 + last->tokens;
  l->tokens = l->mask ? 0 : all;
  for (int64_t i = 0; l->mask && i < all; i++) l->tokens += l->mask[i];
  l->nll = l->rows = 0;
  for (int i = 0; i < l->nunits; i++) l->rows += l->unit[i].rows;
  if (l->tokens) return GRPO_OK;
  return fail(GRPO_EARG, "%s: there is nothing to learn, because every target token is masked",
              l->what);
}

static bool counts(const Likelihood *l, const Unit *unit, int token) {
  return !l->mask || l->mask[unit->token0 + token];
}

/* o: training, with an adapter's dropout; NULL: the likelihood alone */
static Status forward(Likelihood *l, const Unit *unit, const SftOptions *o, double *aux_loss,
                      Tensor **out) {
  Tape *t = &l->e->tape;
  Model *m = l->e->policy;
  Tensor *hidden;
  tape_reset(t);
  Pack *pack = arena_alloc(&t->arena, sizeof *pack);
  RngKey *key = arena_alloc(&t->arena, sizeof *key);
  if (!pack || !key) return fail(GRPO_ENOMEM, "%s: no memory for examples", l->what);
  try(l->pack(l->user, &t->arena, unit, pack));
  if (l->nonfinite) l->nonfinite->unit = unit, l->nonfinite->pack = pack;
  if (o) {
    *key = dropout_key(o->seed, o->step, (int)(unit - l->unit), 0);
    pack->dropout = key;
    pack->one_pass = !l->nonfinite && !l->outputs;
    try(unit_count_routes(l->e, pack));
  }
  try(forward_hidden(m, t, pack, &hidden));
  *aux_loss = unit_balance(l->e, pack, unit->rows / l->rows);
  if (l->outputs) return l->outputs(l->user, t, unit, pack, hidden, out);
  return forward_logp(m, t, pack, hidden, 1, NULL, NULL, out);
}

/* The loss's derivative by an output, times N. */
static double slope_of(const Likelihood *l, const Unit *unit, int i) {
  return l->slope ? l->slope[unit->token0 + i] * (double)l->tokens : -1;
}

static void add_nll(Likelihood *l, const Unit *unit, const Tensor *out) {
  double sum = 0;
  for (int i = 0; i < unit->tokens; i++)
    if (counts(l, unit, i)) sum += slope_of(l, unit, i) * (double)out->data[i];
  l->nll += sum;
}

static Status backward(Likelihood *l, const Unit *unit, Tensor *out) {
  Tape *t = &l->e->tape;
  real *seed = arena_zalloc(&t->arena, out->n * sizeof *seed);
  if (!seed) return fail(GRPO_ENOMEM, "%s: no memory for %zu gradients", l->what, out->n);
  for (int i = 0; i < unit->tokens; i++)
    if (counts(l, unit, i)) seed[i] = (real)(slope_of(l, unit, i) / (double)l->tokens);
  gradient_tree_enter(l->e->tree, &t->cx, (int)(unit - l->unit));
  return tape_backward_from(t, out, seed);
}

typedef struct UnitSums {
  double nll, aux_loss;
} UnitSums;

static double loss_of(const Likelihood *l) {
  const double c = l->e->o.router_aux_loss_coef, nll = l->nll / (double)l->tokens;
  return c != 0 ? nll + c * l->aux_loss : nll;
}

/* Runs the units first .. end - 1; sums: of each unit. */
static Status run_units(Likelihood *l, const SftOptions *o, int first, int end, UnitSums *sums) {
  for (int i = first; i < end && isfinite(loss_of(l)); i++) {
    const double before = l->nll;
    Tensor *out;
    if (o->cancel && *o->cancel)
      return fail(GRPO_ELIMIT, "the update was cancelled; the weights are as before");
    try(progress_reached(l->what, i - first, end - first));
    try(forward(l, &l->unit[i], o, &sums[i].aux_loss, &out));
    try(backward(l, &l->unit[i], out));
    l->nll = 0;
    add_nll(l, &l->unit[i], out); /* backward has filled `out` in */
    sums[i].nll = l->nll;
    l->nll += before;
    l->aux_loss += sums[i].aux_loss;
  }
  return GRPO_OK;
}

/* Each rank has run its units. */
static Status gather(Likelihood *l, UnitSums *sums) {
  size_t at[COMM_RANKS + 1];
  for (int r = 0; r < comm_size(); r++) {
    int first, end;
    gradient_tree_range(l->e->tree, l->nunits, r, &first, &end);
    at[r] = (size_t)first * sizeof *sums;
    at[r + 1] = (size_t)end * sizeof *sums;
  }
  try(comm_share(sums, at));
  l->nll = l->aux_loss = 0;
  for (int i = 0; i < l->nunits; i++) {
    l->nll += sums[i].nll;
    l->aux_loss += sums[i].aux_loss;
  }
  return GRPO_OK;
}

/* The gradient of the step and its norm.  EDIVERGED: the loss or the norm is not finite. */
static Status measure(Likelihood *l, const SftOptions *o, double *norm) {
  Engine *e = l->e;
  const bool shared = share_splits_updates(e, l->nunits) && !l->nonfinite;
  int first = 0, end = l->nunits;
  UnitSums *sums = arena_zalloc(&e->step, (size_t)l->nunits * sizeof *sums);
  if (!sums) return fail(GRPO_ENOMEM, "%s: %d units", l->what, l->nunits);
  if (shared) gradient_tree_range(e->tree, l->nunits, comm_rank(), &first, &end);
  l->nll = l->aux_loss = 0;
  try(gradient_tree_begin(e->tree, l->nunits, shared));
  Status s = run_units(l, o, first, end, sums);
  if (shared) s = comm_agree(s);
  try(s);
  if (shared) try(gather(l, sums));
  try(gradient_tree_end(e->tree, &e->tape.cx));
  try(optimizer_grad_norm(e->optimizer, &e->tape.cx, norm));
  if (isfinite(loss_of(l)) && isfinite(*norm)) return GRPO_OK;
  return fail(GRPO_EDIVERGED, "the loss is %g and the gradient norm %g",
              nonfinite_shown(loss_of(l)), nonfinite_shown(*norm));
}

/* Computes the step once more, to say where the first value that is not finite came from. */
static Status explain(Likelihood *l, const SftOptions *o) {
  Nonfinite n;
  double norm;
  char what[96];
  snprintf(what, sizeof what, "%s", err_message());
  nonfinite_begin(&n, l->e, NULL);
  l->nonfinite = &n;
  measure(l, o, &norm);
  l->nonfinite = NULL;
  nonfinite_end(&n);
  return fail(GRPO_EDIVERGED,
              "training diverged at step %llu: %s, so the weights were not changed; %s%s%s",
              (unsigned long long)o->step, what, n.found, n.found[0] ? "; " : "", n.advice);
}

static Status step(Likelihood *l, const SftOptions *o, double *norm) {
  const Status s = measure(l, o, norm);
  if (s == GRPO_EDIVERGED) return explain(l, o);
  try(s);
  try(o->accumulate
          ? engine_accumulate(l->e)
          : optimizer_step(l->e->optimizer, &l->e->tape.cx, o->lr, o->max_grad_norm, *norm));
  l->e->update_tokens += (uint64_t)l->tokens;
  return GRPO_OK;
}

static void report(const Likelihood *l, const SftOptions *o, double norm, double seconds,
                   StepMetrics *m) {
  step_metrics_init(m);
  m->loss = loss_of(l);
  if (l->e->o.router_aux_loss_coef != 0) m->aux_loss = l->aux_loss;
  m->grad_norm = norm;
  m->learning_rate = o->lr;
  m->trained_tokens = m->num_tokens = (double)l->tokens;
  m->time_train = seconds;
  m->tokens_per_second_train = seconds > 0 ? (double)l->tokens / seconds : NAN;
}

Status likelihood_step(Likelihood *l, const SftOptions *o, StepMetrics *out) {
  const double start = clock_seconds();
  double norm = 0;
  if (!l->e->optimizer)
    return fail(GRPO_EARG, "%s: the engine was made without an optimizer", l->what);
  try(options_check(&sft_option_set, o));
  try(count(l));
  try(step(l, o, &norm));
  report(l, o, norm, clock_seconds() - start, out);
  return GRPO_OK;
}

/* Each rank has computed the outputs of its units. */
static Status share_outputs(const Likelihood *l, real *out) {
  const Unit *last = &l->unit[l->nunits - 1];
  size_t at[COMM_RANKS + 1];
  for (int r = 0; r < comm_size(); r++) {
    int first, end;
    gradient_tree_range(l->e->tree, l->nunits, r, &first, &end);
    const int from = first < l->nunits ? l->unit[first].token0 : last->token0 + last->tokens;
    const int to = end < l->nunits ? l->unit[end].token0 : last->token0 + last->tokens;
    at[r] = (size_t)from * sizeof *out;
    at[r + 1] = (size_t)to * sizeof *out;
  }
  return comm_share(out, at);
}

Status likelihood_outputs(Likelihood *l, real *out) {
  Engine *e = l->e;
  const bool shared = e->tree && share_splits_updates(e, l->nunits);
  int first = 0, end = l->nunits;
  Status s = GRPO_OK;
  try(count(l));
  if (shared) gradient_tree_range(e->tree, l->nunits, comm_rank(), &first, &end);
  e->tape.off = true;
  for (int i = first; i < end && s == GRPO_OK; i++) {
    Tensor *of_unit;
    double aux_loss;
    s = forward(l, &l->unit[i], NULL, &aux_loss, &of_unit);
    if (s == GRPO_OK)
      memcpy(out + l->unit[i].token0, of_unit->data, (size_t)l->unit[i].tokens * sizeof *out);
  }
  e->tape.off = false;
  if (!shared) return s;
  try(comm_agree(s));
  return share_outputs(l, out);
}

Status likelihood_sum(Likelihood *l) {
  Status s = GRPO_OK;
  try(count(l));
  l->e->tape.off = true;
  for (int i = 0; i < l->nunits && s == GRPO_OK; i++) {
    double aux_loss;
    Tensor *out;
    s = forward(l, &l->unit[i], NULL, &aux_loss, &out);
    if (s == GRPO_OK) add_nll(l, &l->unit[i], out);
  }
  l->e->tape.off = false;
  return s;
}
