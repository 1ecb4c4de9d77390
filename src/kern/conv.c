/* conv.c - a chunk of the pool is a block of channels, through all rows in order. */
#include "kern/conv.h"

#include <string.h>

#include "base/minmax.h"
#include "kern/dispatch.h"
#include "kern/kernels.h"

typedef struct Conv {
  const KernelClass *cpu;
  const ConvShape *shape;
  int nruns;
  const ConvRun *runs;
  const real *u, *w, *dy;
  real *y, *du, *dw;
} Conv;

/* A block of channels. */
typedef struct Block {
  const Conv *conv;
  int from, n;
  real w[CONV_MAX_TAPS * CONV_BLOCK], dw[CONV_MAX_TAPS * CONV_BLOCK];
  real lost[CONV_BLOCK]; /* gradients of rows before a sequence */
} Block;

static const real zeros[CONV_BLOCK];

size_t conv_tail(const ConvShape *s) { return (size_t)(s->taps - 1) * (size_t)s->channels; }

static void begin_block(Block *b, const Conv *c, int chunk) {
  const ConvShape *s = c->shape;
  b->conv = c;
  b->from = chunk * CONV_BLOCK;
  b->n = min_int(CONV_BLOCK, s->channels - b->from);
  memset(b->w, 0, sizeof b->w);
  memset(b->dw, 0, sizeof b->dw);
  for (int i = 0; i < b->n; i++)
    for (int j = 0; j < s->taps; j++) b->w[j * CONV_BLOCK + i] = c->w[(b->from + i) * s->taps + j];
}

static size_t place(const Block *b, int row) {
  return (size_t)row * (size_t)b->conv->shape->channels + (size_t)b->from;
}

/* The row of u that is `at` rows behind the run's first; -1: there is none. */
static int row_at(const ConvRun *r, int at) {
  if (at >= 0) return r->row + at;
  return at + r->nbefore >= 0 ? r->before + r->nbefore + at : -1;
}

static const real *input(const Block *b, const ConvRun *r, int at) {
  const int row = row_at(r, at);
  if (at < 0 && r->tail) return r->tail + place(b, at + b->conv->shape->taps - 1);
  return row < 0 ? zeros : b->conv->u + place(b, row);
}

static void inputs(const Block *b, const ConvRun *r, int at, const real **x) {
  const int taps = b->conv->shape->taps;
  for (int j = 0; j < taps; j++) x[j] = input(b, r, at - taps + 1 + j);
}

/* Copies earlier rows first, so that a new tail may lie in the memory of the old one. */
static void put_tail(const Block *b, const ConvRun *r) {
  const int kept = b->conv->shape->taps - 1;
  for (int j = 0; j < kept; j++)
    memmove(r->end + place(b, j), input(b, r, r->n - kept + j), (size_t)b->n * sizeof(real));
}

static void forward_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Conv *c = arg;
  const Kernels *kn = kernels(c->cpu);
  const real *x[CONV_MAX_TAPS];
  Block b;
  begin_block(&b, c, chunk);
  for (const ConvRun *r = c->runs; r < c->runs + c->nruns; r++) {
    for (int i = 0; i < r->n; i++) {
      inputs(&b, r, i, x);
      kn->conv_step(b.n, c->shape->taps, x, b.w, c->shape->silu, c->y + place(&b, r->row + i));
    }
    if (r->end) put_tail(&b, r);
  }
}

static void gradients(Block *b, const ConvRun *r, int at, real **dx) {
  const int taps = b->conv->shape->taps;
  for (int j = 0; j < taps; j++) {
    const int row = row_at(r, at - taps + 1 + j);
    dx[j] = row < 0 || !b->conv->du ? b->lost : b->conv->du + place(b, row);
  }
}

static void backward_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Conv *c = arg;
  const int taps = c->shape->taps;
  const Kernels *kn = kernels(c->cpu);
  const real *x[CONV_MAX_TAPS];
  real *dx[CONV_MAX_TAPS];
  Block b;
  begin_block(&b, c, chunk);
  memset(b.lost, 0, sizeof b.lost);
  for (const ConvRun *r = c->runs; r < c->runs + c->nruns; r++)
    for (int i = 0; i < r->n; i++) {
      inputs(&b, r, i, x);
      gradients(&b, r, i, dx);
      kn->conv_step_back(b.n, taps, x, b.w, c->shape->silu, c->dy + place(&b, r->row + i), dx,
                         b.dw);
    }
  for (int i = 0; c->dw && i < b.n; i++)
    for (int j = 0; j < taps; j++) c->dw[(b.from + i) * taps + j] += b.dw[j * CONV_BLOCK + i];
}

void conv_forward(const Ctx *cx, const ConvShape *s, int nruns, const ConvRun *runs, const real *u,
                  const real *w, real *y) {
  Conv c = {.cpu = cx->cpu, .shape = s, .nruns = nruns, .runs = runs, .u = u, .w = w, .y = y};
  pool_run(cx->pool, ceil_div(s->channels, CONV_BLOCK), forward_chunk, &c);
}

void conv_backward(const Ctx *cx, const ConvShape *s, int nruns, const ConvRun *runs, const real *u,
                   const real *w, const real *dy, real *du, real *dw) {
  Conv c = {.cpu = cx->cpu, .shape = s, .nruns = nruns, .runs = runs, .u = u, .w = w, .dy = dy};
  c.du = du, c.dw = dw;
  pool_run(cx->pool, ceil_div(s->channels, CONV_BLOCK), backward_chunk, &c);
}
