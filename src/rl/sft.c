/* sft.c - maximum likelihood on demonstrations, and the likelihood alone.
 *
 * loss = -sum over target tokens of log p / N, N of the whole step: its gradient by every
 * log-probability is -1/N, so a unit needs no loss to be evaluated before its backward, and the
 * head gives log-probabilities and gradient in one pass.
 */
#include <math.h>

#include "rl/engine_impl.h"

/* A pass over examples in progress. */
typedef struct Pass {
  Engine *e;
  const Example *examples;
  Unit *unit;
  int nunits;
  int64_t tokens; /* of all targets that are learned */
  uint8_t *mask;  /* of all target tokens in order; NULL: all are learned */
  double nll;     /* their sum */
} Pass;

static Status check_examples(const Engine *e, int n, const Example *examples) {
  const int context = model_config(e->policy)->max_position_embeddings;
  if (n < 1) return fail(GRPO_EARG, "sft: no examples");
  for (int i = 0; i < n; i++) {
    const Example *x = &examples[i];
    if (x->target_len < (x->prompt_len ? 1 : 2))
      return fail(GRPO_EARG, "sft: example %d has no target token", i + 1);
    if ((int64_t)x->prompt_len + x->target_len > context)
      return fail(GRPO_EARG,
                  "sft: example %d has %d prompt and %d target tokens, the model's context is %d; "
                  "shorten or drop it",
                  i + 1, x->prompt_len, x->target_len, context);
  }
  return GRPO_OK;
}

static bool has_masks(int n, const Example *examples) {
  for (int i = 0; i < n; i++)
    if (examples[i].mask) return true;
  return false;
}

/* all: target tokens that are outputs; a target without a prompt gives one less. */
static Status take_masks(Pass *p, int n, int64_t all) {
  p->tokens = all;
  if (!has_masks(n, p->examples)) return GRPO_OK;
  p->mask = arena_alloc(&p->e->step, (size_t)all);
  if (!p->mask) return fail(GRPO_ENOMEM, "sft: masks of %lld tokens", (long long)all);
  p->tokens = 0;
  for (int64_t i = 0, at = 0; i < n; i++) {
    const Example *x = &p->examples[i];
    for (int t = x->prompt_len ? 0 : 1; t < x->target_len; t++)
      p->tokens += p->mask[at++] = !x->mask || x->mask[t];
  }
  return p->tokens ? GRPO_OK : fail(GRPO_EARG, "sft: no target token is to be learned");
}

static bool learned(const Pass *p, const Unit *unit, int token) {
  return !p->mask || p->mask[unit->token0 + token];
}

static Status begin(Pass *p, int n) {
  try(check_examples(p->e, n, p->examples));
  arena_reset(&p->e->step);
  p->unit = arena_alloc(&p->e->step, (size_t)n * sizeof *p->unit);
  if (!p->unit) return fail(GRPO_ENOMEM, "sft: %d examples", n);
  p->nunits = units_of_examples(n, p->examples, p->unit);
  const Unit *last = &p->unit[p->nunits - 1];
  return take_masks(p, n, (int64_t)last->token0 + last->tokens);
}

/* o: training, with an adapter's dropout; NULL: the likelihood alone */
static Status forward(Pass *p, const Unit *unit, const SftOptions *o, Tensor **out) {
  Tape *t = &p->e->tape;
  Model *m = p->e->policy;
  Tensor *hidden;
  tape_reset(t);
  Pack *pack = arena_alloc(&t->arena, sizeof *pack);
  RngKey *key = arena_alloc(&t->arena, sizeof *key);
  if (!pack || !key) return fail(GRPO_ENOMEM, "sft: no memory for examples");
  try(unit_pack_examples(&t->arena, model_config(m), p->examples, unit, pack));
  if (o) {
    *key = dropout_key(o->seed, o->step, (int)(unit - p->unit), 0);
    pack->dropout = key;
    pack->one_pass = true;
  }
  try(model_hidden(m, t, pack, &hidden));
  return model_logp(m, t, pack, hidden, 1, NULL, NULL, out);
}

static void add_nll(Pass *p, const Unit *unit, const Tensor *out) {
  for (int i = 0; i < unit->tokens; i++)
    if (learned(p, unit, i)) p->nll -= (double)out->data[i];
}

static Status backward(Pass *p, const Unit *unit, Tensor *out) {
  Tape *t = &p->e->tape;
  real *seed = arena_zalloc(&t->arena, out->n * sizeof *seed);
  if (!seed) return fail(GRPO_ENOMEM, "sft: no memory for %zu gradients", out->n);
  for (int i = 0; i < unit->tokens; i++)
    if (learned(p, unit, i)) seed[i] = (real)(-1 / (double)p->tokens);
  return tape_backward_from(t, out, seed);
}

static Status step(Pass *p, const SftOptions *o, double *norm) {
  Engine *e = p->e;
  model_zero_grad(e->policy);
  for (int i = 0; i < p->nunits && isfinite(p->nll); i++) {
    Tensor *out;
    try(forward(p, &p->unit[i], o, &out));
    try(backward(p, &p->unit[i], out));
    add_nll(p, &p->unit[i], out); /* which backward has filled in */
  }
  *norm = optimizer_grad_norm(e->optimizer, &e->tape.cx);
  if (!isfinite(p->nll) || !isfinite(*norm))
    return fail(GRPO_EDIVERGED,
                "training diverged at step %llu: the loss is %g, the gradient norm %g; the weights "
                "are as before. Lower train.lr",
                (unsigned long long)o->step, p->nll / (double)p->tokens, *norm);
  return optimizer_step(e->optimizer, &e->tape.cx, o->lr, o->max_grad_norm, *norm);
}

static void report(const Pass *p, const SftOptions *o, double norm, double seconds,
                   StepMetrics *m) {
  step_metrics_init(m);
  m->loss = p->nll / (double)p->tokens;
  m->grad_norm = norm;
  m->learning_rate = o->lr;
  m->trained_tokens = m->num_tokens = (double)p->tokens;
  m->time_train = seconds;
  m->tokens_per_second_train = seconds > 0 ? (double)p->tokens / seconds : NAN;
}

Status engine_sft(Engine *e, int n, const Example *examples, const SftOptions *o,
                  StepMetrics *out) {
  const double start = seconds_now();
  Pass p = {.e = e, .examples = examples};
  double norm = 0;
  if (!e->optimizer) return fail(GRPO_EARG, "sft: the engine was made without an optimizer");
  if (!(o->lr >= 0) || isinf(o->lr))
    return fail(GRPO_EARG, "train.lr: %g, want a finite number of at least 0", o->lr);
  try(begin(&p, n));
  try(step(&p, o, &norm));
  report(&p, o, norm, seconds_now() - start, out);
  return GRPO_OK;
}

Status engine_nll(Engine *e, int n, const Example *examples, double *mean, int64_t *tokens) {
  Pass p = {.e = e, .examples = examples};
  Status s = GRPO_OK;
  try(begin(&p, n));
  e->tape.off = true;
  for (int i = 0; i < p.nunits && s == GRPO_OK; i++) {
    Tensor *out;
    s = forward(&p, &p.unit[i], NULL, &out);
    if (s == GRPO_OK) add_nll(&p, &p.unit[i], out);
  }
  e->tape.off = false;
  *tokens = p.tokens;
  *mean = p.nll / (double)p.tokens;
  return s;
}
