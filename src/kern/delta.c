/* delta.c - first queries and keys are normed and gates computed, rows in chunks; then a chunk of
 * the pool is a key head of one run and of the runs that begin with its last state. */
#include "kern/delta.h"

#include <math.h>
#include <string.h>

#include "base/exponential.h"
#include "base/mem.h"
#include "base/minmax.h"
#include "kern/dispatch.h"
#include "kern/kernels.h"
#include "kern/scratch.h"

enum { DELTA_CHUNK = 64, ROWS_A_CHUNK = 16 };

static const double norm_eps = 1e-6;

typedef struct Gate {
  real decay, beta;
} Gate;

typedef struct Delta {
  const KernelClass *cpu;
  const DeltaShape *s;
  int rows, nruns;
  const DeltaRun *runs;
  const DeltaInputs *in;
  real *qk;    /* [rows, 2 key_heads, key_dim] normed */
  real *rstd;  /* [rows, 2 key_heads] */
  Gate *gate;  /* [rows, value_heads] */
  real *zeros; /* [key_dim] */
  real *o;
  Scratch scratch;
  int chunks; /* at most of a run */
  /* backward */
  const real *dout;
  const DeltaGrads *grads;
  real *dqk;    /* as qk */
  real *dgate;  /* [rows, value_heads, 2]: of log decay and of beta */
  real *dparts; /* [chunks of rows, value_heads, 2]: of a_log and dt_bias */
} Delta;

/* ---- sizes ------------------------------------------------------------------------- */

static int key_width(const DeltaShape *s) { return s->key_heads * s->key_dim; }
static int panels(const DeltaShape *s) { return ceil_div(s->value_dim, DELTA_COLUMNS); }
static size_t panel_reals(const DeltaShape *s) { return (size_t)s->key_dim * DELTA_COLUMNS; }
int delta_width(const DeltaShape *s) { return 2 * key_width(s) + s->value_heads * s->value_dim; }

size_t delta_state(const DeltaShape *s) {
  return (size_t)s->value_heads * (size_t)panels(s) * panel_reals(s);
}

/* ---- queries, keys and gates ---------------------------------------------------------- */

/* The factor of a normed query or key: the norm divides by the root of a mean, not of a sum. */
static real unit(const DeltaShape *s, int head) {
  const double root = sqrt(s->key_dim);
  return (real)(head < s->key_heads ? 1 / (root * root) : 1 / root);
}

static double softplus(double x) { return x > 20 ? x : math_log1p(math_exp(x)); }
static double sigmoid(double x) { return 1 / (1 + math_exp(-x)); }

static double log_decay(const Delta *j, int row, int h) {
  const double a = (double)j->in->a[(size_t)row * (size_t)j->s->value_heads + (size_t)h];
  return -math_exp((double)j->in->a_log[h]) * softplus(a + (double)j->in->dt_bias[h]);
}

static void prepare_row(const Delta *j, int row) {
  const DeltaShape *s = j->s;
  const size_t width = (size_t)delta_width(s), heads = 2 * (size_t)s->key_heads;
  const real *x = j->in->x + (size_t)row * width;
  real *qk = j->qk + (size_t)row * 2 * (size_t)key_width(s);
  for (int h = 0; h < 2 * s->key_heads; h++, x += s->key_dim, qk += s->key_dim)
    kernels(j->cpu)->rmsnorm(s->key_dim, x, j->zeros, unit(s, h), norm_eps / s->key_dim, qk,
                             &j->rstd[(size_t)row * heads + (size_t)h]);
  for (int h = 0; h < s->value_heads; h++) {
    const size_t at = (size_t)row * (size_t)s->value_heads + (size_t)h;
    j->gate[at] = (Gate){(real)math_exp(log_decay(j, row, h)), (real)sigmoid((double)j->in->b[at])};
  }
}

static void prepare_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Delta *j = arg;
  const int end = min_int(j->rows, (chunk + 1) * ROWS_A_CHUNK);
  for (int r = chunk * ROWS_A_CHUNK; r < end; r++) prepare_row(j, r);
}

static Status prepare(const Ctx *cx, Delta *j) {
  const size_t rows = (size_t)j->rows, heads = 2 * (size_t)j->s->key_heads;
  const size_t dim = (size_t)j->s->key_dim;
  j->qk = arena_alloc(cx->arena, rows * heads * dim * sizeof(real));
  j->rstd = arena_alloc(cx->arena, rows * heads * sizeof(real));
  j->gate = arena_alloc(cx->arena, rows * (size_t)j->s->value_heads * sizeof(Gate));
  j->zeros = arena_alloc(cx->arena, dim * sizeof(real));
  if (!j->qk || !j->rstd || !j->gate || !j->zeros)
    return fail(GRPO_ENOMEM, "delta rule: no memory for %d rows", j->rows);
  memset(j->zeros, 0, dim * sizeof(real));
  for (int i = 0; i < j->nruns; i++)
    j->chunks = max_int(j->chunks, ceil_div(j->runs[i].n, DELTA_CHUNK));
  pool_run(cx->pool, ceil_div(j->rows, ROWS_A_CHUNK), prepare_chunk, j);
  return GRPO_OK;
}

/* ---- a panel of a value head ------------------------------------------------------------- */

typedef struct Panel {
  const Delta *j;
  int head, key, from, n; /* value head, key head, columns */
} Panel;

static Panel panel_of(const Delta *j, int head, int panel) {
  const int per = j->s->value_heads / j->s->key_heads, from = panel * DELTA_COLUMNS;
  return (Panel){j, head, head / per, from, min_int(DELTA_COLUMNS, j->s->value_dim - from)};
}

static size_t state_at(const Panel *p) {
  const size_t panel = (size_t)(p->head * panels(p->j->s) + p->from / DELTA_COLUMNS);
  return panel * panel_reals(p->j->s);
}

static size_t value_at(const Panel *p, int row) {
  const DeltaShape *s = p->j->s;
  return ((size_t)row * (size_t)s->value_heads + (size_t)p->head) * (size_t)s->value_dim +
         (size_t)p->from;
}

/* The values' place in a row of x. */
static size_t x_at(const Panel *p, int row) {
  const DeltaShape *s = p->j->s;
  return (size_t)row * (size_t)delta_width(s) + 2 * (size_t)key_width(s) +
         (size_t)(p->head * s->value_dim + p->from);
}

static size_t key_at(const Panel *p, int row, bool key) {
  const DeltaShape *s = p->j->s;
  const size_t head = (size_t)(p->key + (key ? s->key_heads : 0));
  return ((size_t)row * 2 * (size_t)s->key_heads + head) * (size_t)s->key_dim;
}

/* Columns of a row, with zeros behind them. */
static void load(const Panel *p, const real *from, real *to) {
  memset(to, 0, DELTA_COLUMNS * sizeof(real));
  memcpy(to, from, (size_t)p->n * sizeof(real));
}

/* v: [DELTA_COLUMNS] */
static DeltaStep step_of(const Panel *p, int row, real *v) {
  const Delta *j = p->j;
  const Gate g = j->gate[(size_t)row * (size_t)j->s->value_heads + (size_t)p->head];
  load(p, j->in->x + x_at(p, row), v);
  return (DeltaStep){.n = j->s->key_dim,
                     .decay = g.decay,
                     .beta = g.beta,
                     .q = j->qk + key_at(p, row, false),
                     .k = j->qk + key_at(p, row, true),
                     .v = v};
}

static void copy_state(const Panel *p, const real *from, real *to) {
  const size_t bytes = panel_reals(p->j->s) * sizeof(real);
  if (!from)
    memset(to, 0, bytes);
  else if (from != to)
    memcpy(to, from, bytes);
}

/* ---- forward ---------------------------------------------------------------------- */

static void run_rows(const Panel *p, const DeltaRun *r, real *state) {
  real v[DELTA_COLUMNS], rest[DELTA_COLUMNS], o[DELTA_COLUMNS];
  for (int i = 0; i < r->n; i++) {
    const DeltaStep t = step_of(p, r->row + i, v);
    kernels(p->j->cpu)->delta_step(&t, state, rest, o);
    memcpy(p->j->o + value_at(p, r->row + i), o, (size_t)p->n * sizeof(real));
  }
}

static const real *begin_of(const Panel *p, const DeltaRun *r) {
  return r->begin ? r->begin + state_at(p) : NULL;
}

/* A run, and the runs that follow it.  scratch: two panels */
static void forward_panel(const Panel *p, int first, real *scratch) {
  const Delta *j = p->j;
  const DeltaRun *r = &j->runs[first];
  real *state = r->end ? r->end + state_at(p) : scratch, *copy = scratch + panel_reals(j->s);
  copy_state(p, begin_of(p, r), state);
  run_rows(p, r, state);
  for (int i = first + 1; i < j->nruns; i++) {
    if (j->runs[i].from != first) continue;
    copy_state(p, state, copy);
    run_rows(p, &j->runs[i], copy);
  }
}

static void forward_chunk(void *arg, int chunk, int worker) {
  const Delta *j = arg;
  const int per = j->s->value_heads / j->s->key_heads;
  const int first = chunk / j->s->key_heads, key = chunk % j->s->key_heads;
  if (j->runs[first].from >= 0) return;
  for (int h = key * per; h < (key + 1) * per; h++)
    for (int i = 0; i < panels(j->s); i++) {
      const Panel p = panel_of(j, h, i);
      forward_panel(&p, first, scratch_of(&j->scratch, worker));
    }
}

Status delta_forward(const Ctx *cx, const DeltaShape *s, int rows, int nruns, const DeltaRun *runs,
                     const DeltaInputs *in, real *o) {
  const ArenaMark mark = arena_mark(cx->arena);
  Delta j = {.cpu = cx->cpu, .s = s, .rows = rows, .nruns = nruns, .runs = runs, .in = in, .o = o};
  try(prepare(cx, &j));
  try(scratch_new(cx, 2 * panel_reals(s), "delta rule", &j.scratch));
  pool_run(cx->pool, nruns * s->key_heads, forward_chunk, &j);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

/* ---- backward --------------------------------------------------------------------- */

/* A worker's memory, in panels unless said otherwise. */
typedef struct Work {
  real *first, *next;    /* [chunks] the state before each chunk, of the first run and of others */
  real *inner;           /* [DELTA_CHUNK] the state before each row */
  real *rest;            /* [DELTA_CHUNK, DELTA_COLUMNS] */
  real *state, *last;    /* the current state, and the last of the first run */
  real *ds, *ds_of_last; /* gradients */
} Work;

static size_t work_reals(const Delta *j) {
  return (2 * (size_t)j->chunks + DELTA_CHUNK + 4) * panel_reals(j->s) +
         (size_t)DELTA_CHUNK * DELTA_COLUMNS;
}

static Work work_of(const Delta *j, int worker) {
  const size_t panel = panel_reals(j->s), chunks = (size_t)j->chunks;
  real *at = scratch_of(&j->scratch, worker);
  return (Work){.first = at,
                .next = at + chunks * panel,
                .inner = at + 2 * chunks * panel,
                .state = at + (2 * chunks + DELTA_CHUNK) * panel,
                .last = at + (2 * chunks + DELTA_CHUNK + 1) * panel,
                .ds = at + (2 * chunks + DELTA_CHUNK + 2) * panel,
                .ds_of_last = at + (2 * chunks + DELTA_CHUNK + 3) * panel,
                .rest = at + (2 * chunks + DELTA_CHUNK + 4) * panel};
}

/* Runs the rows from w->state on; starts [chunks] receives the state before each chunk. */
static void sweep(const Panel *p, const DeltaRun *r, const Work *w, real *starts) {
  real v[DELTA_COLUMNS], rest[DELTA_COLUMNS], o[DELTA_COLUMNS];
  for (int i = 0; i < r->n; i++) {
    if (i % DELTA_CHUNK == 0) {
      copy_state(p, w->state, starts);
      starts += panel_reals(p->j->s);
    }
    const DeltaStep t = step_of(p, r->row + i, v);
    kernels(p->j->cpu)->delta_step(&t, w->state, rest, o);
  }
}

static void keep_states(const Panel *p, int row, int n, const real *start, const Work *w) {
  const size_t panel = panel_reals(p->j->s);
  real v[DELTA_COLUMNS], o[DELTA_COLUMNS];
  copy_state(p, start, w->state);
  for (int i = 0; i < n; i++) {
    const DeltaStep t = step_of(p, row + i, v);
    copy_state(p, w->state, w->inner + (size_t)i * panel);
    kernels(p->j->cpu)->delta_step(&t, w->state, w->rest + (ptrdiff_t)i * DELTA_COLUMNS, o);
  }
}

static void row_back(const Panel *p, int row, const real *before, const real *rest, real *ds) {
  const Delta *j = p->j;
  real v[DELTA_COLUMNS], dout[DELTA_COLUMNS], dv[DELTA_COLUMNS];
  const DeltaStep t = step_of(p, row, v);
  real *dgate = j->dgate + 2 * ((size_t)row * (size_t)j->s->value_heads + (size_t)p->head);
  load(p, j->dout + value_at(p, row), dout);
  const DeltaStepGrad g = {.before = before,
                           .rest = rest,
                           .dout = dout,
                           .ds = ds,
                           .dv = dv,
                           .dq = j->dqk + key_at(p, row, false),
                           .dk = j->dqk + key_at(p, row, true),
                           .dlog = dgate,
                           .dbeta = dgate + 1};
  kernels(j->cpu)->delta_step_back(&t, &g);
  real *dx = j->grads->x ? j->grads->x + x_at(p, row) : NULL;
  for (int i = 0; dx && i < p->n; i++) dx[i] += dv[i];
}

/* w->ds, the gradient of the run's last state, becomes that of its first. */
static void run_back(const Panel *p, const DeltaRun *r, const Work *w, const real *starts) {
  const size_t panel = panel_reals(p->j->s);
  for (int c = ceil_div(r->n, DELTA_CHUNK); c-- > 0;) {
    const int at = c * DELTA_CHUNK, n = min_int(DELTA_CHUNK, r->n - at);
    keep_states(p, r->row + at, n, starts + (size_t)c * panel, w);
    for (int i = n; i-- > 0;)
      row_back(p, r->row + at + i, w->inner + (size_t)i * panel,
               w->rest + (ptrdiff_t)i * DELTA_COLUMNS, w->ds);
  }
}

static void backward_panel(const Panel *p, int first, const Work *w) {
  const Delta *j = p->j;
  const size_t panel = panel_reals(j->s);
  copy_state(p, begin_of(p, &j->runs[first]), w->state);
  sweep(p, &j->runs[first], w, w->first);
  copy_state(p, w->state, w->last);
  copy_state(p, NULL, w->ds_of_last);
  for (int i = first + 1; i < j->nruns; i++) {
    if (j->runs[i].from != first) continue;
    copy_state(p, w->last, w->state);
    sweep(p, &j->runs[i], w, w->next);
    copy_state(p, NULL, w->ds);
    run_back(p, &j->runs[i], w, w->next);
    for (size_t k = 0; k < panel; k++) w->ds_of_last[k] += w->ds[k];
  }
  copy_state(p, w->ds_of_last, w->ds);
  run_back(p, &j->runs[first], w, w->first);
}

static void backward_chunk(void *arg, int chunk, int worker) {
  const Delta *j = arg;
  const int per = j->s->value_heads / j->s->key_heads;
  const int first = chunk / j->s->key_heads, key = chunk % j->s->key_heads;
  const Work w = work_of(j, worker);
  if (j->runs[first].from >= 0) return;
  for (int h = key * per; h < (key + 1) * per; h++)
    for (int i = 0; i < panels(j->s); i++) {
      const Panel p = panel_of(j, h, i);
      backward_panel(&p, first, &w);
    }
}

static void keys_back(const Delta *j, int row) {
  const DeltaShape *s = j->s;
  const size_t heads = 2 * (size_t)s->key_heads, at = (size_t)row * (size_t)delta_width(s);
  const real *x = j->in->x + at, *dy = j->dqk + (size_t)row * 2 * (size_t)key_width(s);
  real *dx = j->grads->x + at;
  for (int h = 0; h < 2 * s->key_heads; h++, x += s->key_dim, dx += s->key_dim, dy += s->key_dim)
    kernels(j->cpu)->rmsnorm_dx(s->key_dim, x, j->zeros, unit(s, h),
                                j->rstd[(size_t)row * heads + (size_t)h], dy, dx, true);
}

static void gates_back(const Delta *j, int row, real *part) {
  for (int h = 0; h < j->s->value_heads; h++) {
    const size_t at = (size_t)row * (size_t)j->s->value_heads + (size_t)h;
    const double dlog = (double)j->dgate[2 * at], dbeta = (double)j->dgate[2 * at + 1];
    const double a = (double)j->in->a[at] + (double)j->in->dt_bias[h];
    const double da = -math_exp((double)j->in->a_log[h]) * sigmoid(a) * dlog;
    const double beta = sigmoid((double)j->in->b[at]);
    if (j->grads->a) j->grads->a[at] += (real)da;
    if (j->grads->b) j->grads->b[at] += (real)(dbeta * beta * (1 - beta));
    part[2 * h] += (real)(dlog * log_decay(j, row, h));
    part[2 * h + 1] += (real)da;
  }
}

static void finish_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Delta *j = arg;
  const size_t n = 2 * (size_t)j->s->value_heads;
  real *part = j->dparts + (size_t)chunk * n;
  const int end = min_int(j->rows, (chunk + 1) * ROWS_A_CHUNK);
  memset(part, 0, n * sizeof(real));
  for (int r = chunk * ROWS_A_CHUNK; r < end; r++) {
    if (j->grads->x) keys_back(j, r);
    gates_back(j, r, part);
  }
}

static void add_parts(const Delta *j, int chunks) {
  const DeltaGrads *g = j->grads;
  for (int c = 0; c < chunks; c++)
    for (int h = 0; h < j->s->value_heads; h++) {
      const real *part = j->dparts + 2 * ((size_t)c * (size_t)j->s->value_heads + (size_t)h);
      if (g->a_log) g->a_log[h] += part[0];
      if (g->dt_bias) g->dt_bias[h] += part[1];
    }
}

static Status allocate_gradients(const Ctx *cx, Delta *j) {
  const size_t heads = (size_t)j->s->value_heads, rows = (size_t)j->rows;
  const size_t keys = rows * 2 * (size_t)key_width(j->s), gates = rows * heads * 2;
  const size_t parts = (size_t)ceil_div(j->rows, ROWS_A_CHUNK) * heads * 2;
  j->dqk = arena_alloc(cx->arena, keys * sizeof(real));
  j->dgate = arena_alloc(cx->arena, gates * sizeof(real));
  j->dparts = arena_alloc(cx->arena, parts * sizeof(real));
  if (!j->dqk || !j->dgate || !j->dparts)
    return fail(GRPO_ENOMEM, "delta rule: no memory for gradients of %d rows", j->rows);
  mem_zero(j->dqk, keys * sizeof(real));
  mem_zero(j->dgate, gates * sizeof(real));
  return GRPO_OK;
}

Status delta_backward(const Ctx *cx, const DeltaShape *s, int rows, int nruns, const DeltaRun *runs,
                      const DeltaInputs *in, const real *dout, const DeltaGrads *out) {
  const ArenaMark mark = arena_mark(cx->arena);
  Delta j = {.cpu = cx->cpu, .s = s, .rows = rows, .nruns = nruns, .runs = runs, .in = in};
  const int chunks = ceil_div(rows, ROWS_A_CHUNK);
  j.dout = dout, j.grads = out;
  try(prepare(cx, &j));
  try(allocate_gradients(cx, &j));
  try(scratch_new(cx, work_reals(&j), "delta rule", &j.scratch));
  pool_run(cx->pool, nruns * s->key_heads, backward_chunk, &j);
  pool_run(cx->pool, chunks, finish_chunk, &j);
  if (!mem_measuring()) add_parts(&j, chunks);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}
