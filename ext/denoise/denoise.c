#include "denoise/denoise.h"

#include "base/clock.h"
#include "denoise/masked.h"
#include "kern/logits.h"
#include "rl/engine_impl.h"

/* ---- units --------------------------------------------------------------------------- */

/* A step in progress. */
typedef struct Denoise {
  Engine *e;
  Corrupted text;
  Unit *unit;
  int nunits;
} Denoise;

/* Puts as many consecutive texts into a unit as fit SFT_UNIT_ROWS rows. */
static int cut(const Corrupted *x, Unit *out) {
  int nunits = 0;
  Unit u = {0};
  for (int i = 0; i < x->n; i++) {
    const int rows = x->at[i + 1] - x->at[i];
    if (u.n && u.rows + rows > SFT_UNIT_ROWS) {
      out[nunits++] = u;
      u = (Unit){.first = i, .token0 = x->out_at[i]};
    }
    u.n++;
    u.rows += rows;
    u.tokens += x->out_at[i + 1] - x->out_at[i];
  }
  out[nunits++] = u;
  return nunits;
}

static Status begin(Denoise *d, int n, const Example *examples, const MaskOptions *mask) {
  Arena *a = &d->e->step;
  try(engine_check_policy(d->e));
  arena_reset(a);
  try(corrupt(a, model_config(d->e->policy), n, examples, mask, &d->text));
  d->unit = arena_alloc(a, (size_t)n * sizeof *d->unit);
  if (!d->unit) return fail(GRPO_ENOMEM, "denoise: %d texts", n);
  d->nunits = cut(&d->text, d->unit);
  return GRPO_OK;
}

static Status pack(void *user, Arena *a, const Unit *u, Pack *out) {
  const Denoise *d = user;
  const Corrupted *x = &d->text;
  MaskedSequence *seq = arena_alloc(a, (size_t)u->n * sizeof *seq);
  int32_t *rows = arena_alloc(a, (size_t)u->tokens * sizeof *rows);
  if (!seq || !rows) return fail(GRPO_ENOMEM, "denoise: no memory for packed texts");
  for (int i = 0; i < u->n; i++) {
    const int at = x->at[u->first + i];
    seq[i] = (MaskedSequence){x->ids + at, x->at[u->first + i + 1] - at};
  }
  for (int i = 0; i < u->tokens; i++) rows[i] = x->rows[u->token0 + i] - x->at[u->first];
  return masked_pack(a, model_config(d->e->policy), u->n, seq, u->tokens, rows,
                     x->targets + u->token0, out);
}

/* ---- a step -------------------------------------------------------------------------- */

Status engine_denoise(Engine *e, int n, const Example *examples, const MaskOptions *mask,
                      const SftOptions *train, StepMetrics *out, double *mask_ratio) {
  const double start = clock_seconds();
  Denoise d = {.e = e};
  try(begin(&d, n, examples, mask));
  Likelihood l = {
      .e = e, .what = "denoise", .unit = d.unit, .nunits = d.nunits, .pack = pack, .user = &d};
  try(likelihood_step(&l, train, out));
  int targets = 0;
  for (int i = 0; i < n; i++) targets += examples[i].target_len;
  out->num_tokens = d.text.at[n];
  *mask_ratio = (double)d.text.nout / targets;
  out->time_train = clock_seconds() - start;
  out->tokens_per_second_train = out->time_train > 0 ? out->num_tokens / out->time_train : 0;
  return GRPO_OK;
}

/* ---- held-out loss ------------------------------------------------------------------- */

/* Evaluates some rows of logits: the log-probability of each output's target, and whether it is the
 * most probable token. */
typedef struct Judge {
  const Ctx *cx;
  int vocab, first;
  const real *logits;
  const int32_t *targets; /* of the unit */
  double *logp;           /* [outputs of the unit] */
  bool *right;
} Judge;

static void judge_row(void *arg, int row, int worker) {
  (void)worker;
  const Judge *j = arg;
  const real *z = j->logits + (size_t)row * (size_t)j->vocab;
  const int32_t target = j->targets[j->first + row];
  LogitsRow head;
  int best = 0;
  logits_row(j->cx->cpu, j->vocab, z, 1, &head);
  for (int v = 1; v < j->vocab; v++)
    if (z[v] > z[best]) best = v;
  j->logp[j->first + row] = (double)logits_row_logp(&head, z[target], 1);
  j->right[j->first + row] = best == target;
}

static void judge(void *user, int first, int n, real *logits) {
  Judge *j = user;
  j->first = first;
  j->logits = logits;
  pool_run(j->cx->pool, n, judge_row, j);
}

static Status judge_unit(Denoise *d, const Unit *u, MaskedLoss *sum) {
  Tape *t = &d->e->tape;
  Pack p;
  tape_reset(t);
  try(pack(d, &t->arena, u, &p));
  Judge j = {.cx = &t->cx,
             .vocab = model_config(d->e->policy)->vocab_size,
             .targets = p.targets,
             .logp = arena_alloc(&t->arena, (size_t)p.nout * sizeof *j.logp),
             .right = arena_alloc(&t->arena, (size_t)p.nout * sizeof *j.right)};
  if (!j.logp || !j.right) return fail(GRPO_ENOMEM, "denoise: %d masked tokens", p.nout);
  try(masked_logits(d->e->policy, t, &p, judge, &j));
  for (int i = 0; i < p.nout; i++) {
    sum->nll -= j.logp[i];
    sum->right += j.right[i];
  }
  sum->tokens += p.nout;
  return GRPO_OK;
}

Status engine_masked_loss(Engine *e, int n, const Example *examples, const MaskOptions *mask,
                          MaskedLoss *sum) {
  Denoise d = {.e = e};
  try(begin(&d, n, examples, mask));
  for (int i = 0; i < d.nunits; i++) try(judge_unit(&d, &d.unit[i], sum));
  return GRPO_OK;
}
