/* norm_rope.c - norms and rotary positions, with rows in runs of RUN for the pool.  Sums over rows
 * (dw, db) keep one partial result per run and add them in order. */
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/pool.h"
#include "kern/dispatch.h"
#include "kern/kernels.h"
#include "kern/norm_rope.h"

enum { RUN = 64, SMALL_RUN = 8, ROPE_STEP = 128 };

/* Forward rows are independent: few rows (decoding) are cut finer. */
static int run_of(int rows) { return rows > 2 * RUN ? 16 : SMALL_RUN; }

typedef struct Norm {
  const KernelClass *cpu;
  int rows, c, run;
  const real *x, *w, *b, *mean, *rstd, *dy;
  double eps;
  real base; /* added to w */
  real *y, *mean_out, *rstd_out, *dx;
  real *part; /* [runs, parts, c] of dw and db */
  int parts;  /* 1: dw; 2: dw and db */
  bool layer, add_dx, want_dw;
} Norm;

static void norm_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Norm *j = arg;
  const Kernels *kn = kernels(j->cpu);
  const int end = min_int(j->rows, (chunk + 1) * j->run);
  for (int r = chunk * j->run; r < end; r++) {
    const size_t at = (size_t)r * (size_t)j->c;
    real mean, rstd;
    if (j->layer)
      kn->layernorm(j->c, j->x + at, j->w, j->b, j->base, j->eps, j->y + at, &mean, &rstd);
    else
      kn->rmsnorm(j->c, j->x + at, j->w, j->base, j->eps, j->y + at, &rstd);
    if (j->layer && j->mean_out) j->mean_out[r] = mean;
    if (j->rstd_out) j->rstd_out[r] = rstd;
  }
}

static void norm_forward(const Ctx *cx, Norm *j) {
  j->run = run_of(j->rows);
  pool_run(cx->pool, ceil_div(j->rows, j->run), norm_chunk, j);
}

void rmsnorm_forward(const Ctx *cx, int rows, int c, const real *x, const real *w, real base,
                     double eps, real *y, real *rstd) {
  Norm j = {.cpu = cx->cpu, .rows = rows, .c = c, .x = x, .w = w, .base = base, .eps = eps, .y = y};
  j.rstd_out = rstd;
  norm_forward(cx, &j);
}

void layernorm_forward(const Ctx *cx, int rows, int c, const real *x, const real *w, const real *b,
                       real base, double eps, real *y, real *mean, real *rstd) {
  Norm j = {.cpu = cx->cpu, .layer = true, .rows = rows, .c = c, .x = x, .w = w, .b = b};
  j.base = base, j.eps = eps, j.y = y;
  j.mean_out = mean, j.rstd_out = rstd;
  norm_forward(cx, &j);
}

static void norm_grad_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Norm *j = arg;
  const Kernels *kn = kernels(j->cpu);
  const size_t c = (size_t)j->c;
  const int end = min_int(j->rows, (chunk + 1) * RUN);
  real *dw = j->want_dw ? j->part + (size_t)chunk * (size_t)j->parts * c : NULL;
  if (dw) memset(dw, 0, sizeof(real) * c * (size_t)j->parts);
  for (int r = chunk * RUN; r < end; r++) {
    const real *x = j->x + (size_t)r * c, *dy = j->dy + (size_t)r * c, rstd = j->rstd[r];
    const real mean = j->layer ? j->mean[r] : 0;
    if (dw) kn->norm_dw(j->c, x, mean, rstd, dy, dw, j->parts > 1 ? dw + c : NULL);
    if (!j->dx) continue;
    real *dx = j->dx + (size_t)r * c;
    if (j->layer)
      kn->layernorm_dx(j->c, x, j->w, j->base, mean, rstd, dy, dx, j->add_dx);
    else
      kn->rmsnorm_dx(j->c, x, j->w, j->base, rstd, dy, dx, j->add_dx);
  }
}

static Status norm_backward(const Ctx *cx, Norm *j, real *dw, real *db) {
  const ArenaMark mark = arena_mark(cx->arena);
  const int runs = ceil_div(j->rows, RUN);
  const size_t c = (size_t)j->c;
  j->want_dw = dw || db;
  j->parts = db ? 2 : 1;
  if (j->want_dw) {
    j->part = arena_alloc(cx->arena, sizeof(real) * c * (size_t)j->parts * (size_t)runs);
    if (!j->part) return fail(GRPO_ENOMEM, "norm backward: scratch memory");
  }
  pool_run(cx->pool, runs, norm_grad_chunk, j);
  for (int i = 0; j->want_dw && i < runs; i++) {
    const real *p = j->part + (size_t)i * (size_t)j->parts * c;
    if (dw) kernels(cx->cpu)->add(c, dw, p, dw);
    if (db) kernels(cx->cpu)->add(c, db, p + c, db);
  }
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

Status rmsnorm_backward(const Ctx *cx, int rows, int c, const real *x, const real *w, real base,
                        const real *rstd, const real *dy, real *dx, bool add_dx, real *dw) {
  Norm j = {.cpu = cx->cpu, .rows = rows, .c = c, .x = x, .w = w, .base = base, .rstd = rstd};
  j.dy = dy, j.dx = dx, j.add_dx = add_dx;
  return norm_backward(cx, &j, dw, NULL);
}

Status layernorm_backward(const Ctx *cx, int rows, int c, const real *x, const real *w, real base,
                          const real *mean, const real *rstd, const real *dy, real *dx, bool add_dx,
                          real *dw, real *db) {
  Norm j = {.cpu = cx->cpu, .layer = true, .rows = rows, .c = c, .x = x, .w = w, .base = base};
  j.mean = mean, j.rstd = rstd;
  j.dy = dy, j.dx = dx, j.add_dx = add_dx;
  return norm_backward(cx, &j, dw, db);
}

/* ---- rotary positions ---- */

static void pairs_row(const RopePairs *p, int row) {
  const real *cs = p->cs + (ptrdiff_t)p->pos[row] * p->r;
  for (int h = 0; h < p->heads; h++) {
    const real *x = p->x + row * p->ldx + h * p->x_head;
    real *y = p->y + row * p->ldy + h * p->y_head;
    for (int i = 0; i < p->r; i += 2) {
      const real c = cs[i], s = p->inverse ? -cs[i + 1] : cs[i + 1];
      const real a = x[i] * c - x[i + 1] * s, b = x[i] * s + x[i + 1] * c;
      y[i] = p->add ? y[i] + a : a;
      y[i + 1] = p->add ? y[i + 1] + b : b;
    }
  }
}

static void pairs_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const RopePairs *p = arg;
  const int run = run_of(p->rows), end = min_int(p->rows, (chunk + 1) * run);
  for (int r = chunk * run; r < end; r++) pairs_row(p, r);
}

void rope_pairs(const Ctx *cx, const RopePairs *p) {
  RopePairs j = *p;
  pool_run(cx->pool, ceil_div(p->rows, run_of(p->rows)), pairs_chunk, &j);
}

typedef struct Rope {
  const KernelClass *cpu;
  int rows, heads, d, r, run;
  const real *x, *cs;
  ptrdiff_t ldx, ldy;
  const int32_t *pos;
  real *y;
  bool inverse, add, pairs;
} Rope;

/* Copies the channels of each head that do not rotate. */
static void rope_rest(const Rope *j, int row) {
  const size_t n = (size_t)(j->d - j->r);
  for (int h = 0; n && h < j->heads; h++) {
    const real *x = j->x + row * j->ldx + h * j->d + j->r;
    real *y = j->y + row * j->ldy + h * j->d + j->r;
    if (j->add)
      kernels(j->cpu)->add(n, y, x, y);
    else if (x != y)
      memcpy(y, x, n * sizeof *y);
  }
}

static void halves_row(const Rope *j, int r) {
  real c[ROPE_STEP], s[ROPE_STEP];
  const int half = j->r / 2;
  for (int at = 0; at < half; at += ROPE_STEP) {
    const real *cs = j->cs + ((ptrdiff_t)j->pos[r] * half + at) * 2;
    const int n = min_int(ROPE_STEP, half - at);
    for (int i = 0; i < n; i++) {
      c[i] = cs[2 * i];
      s[i] = j->inverse ? -cs[2 * i + 1] : cs[2 * i + 1];
    }
    kernels(j->cpu)->rope(j->heads, j->d, half, n, j->x + r * j->ldx + at, c, s,
                          j->y + r * j->ldy + at, j->add);
  }
}

static void rope_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Rope *j = arg;
  const RopePairs pairs = {.heads = j->heads,
                           .r = j->r,
                           .x = j->x,
                           .ldx = j->ldx,
                           .x_head = j->d,
                           .y = j->y,
                           .ldy = j->ldy,
                           .y_head = j->d,
                           .pos = j->pos,
                           .cs = j->cs,
                           .inverse = j->inverse,
                           .add = j->add};
  const int end = min_int(j->rows, (chunk + 1) * j->run);
  for (int r = chunk * j->run; r < end; r++) {
    if (j->pairs)
      pairs_row(&pairs, r);
    else
      halves_row(j, r);
    rope_rest(j, r);
  }
}

void rope_apply(const Ctx *cx, int rows, int heads, int d, int r, bool pairs, const real *x,
                int ldx, const int32_t *pos, const real *cs, bool inverse, real *y, int ldy,
                bool add) {
  Rope j = {cx->cpu, rows, heads, d, r, run_of(rows), x, cs, ldx, ldy, pos, y, inverse, add, pairs};
  pool_run(cx->pool, ceil_div(rows, j.run), rope_chunk, &j);
}
