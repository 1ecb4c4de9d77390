/* elementwise.c - operations on n independent elements, cut into pieces of one size for the
 * pool. */
#include <math.h>
#include <string.h>

#include "base/erf.h"
#include "base/exponential.h"
#include "base/pool.h"
#include "kern/dispatch.h"
#include "kern/elementwise.h"
#include "kern/kernels.h"

enum { PIECE = SUMSQ_PIECE };

typedef struct Elements Elements;
struct Elements {
  const KernelClass *cpu;
  size_t n;
  void (*run)(const Elements *e, size_t at, size_t n);
  const real *a, *b, *c;
  real *x, *y, *z;
  bool add_x, add_y, gelu;
  Act act;
  real alpha;
};

typedef struct Pieces {
  size_t n;
  PieceFn fn;
  void *arg;
} Pieces;

static void piece(void *arg, int chunk, int worker) {
  (void)worker;
  const Pieces *p = arg;
  const size_t at = (size_t)chunk * PIECE, left = p->n - at;
  p->fn(p->arg, at, left < PIECE ? left : PIECE);
}

void each_piece(const Ctx *cx, size_t n, PieceFn fn, void *arg) {
  pool_run(cx->pool, (int)((n + PIECE - 1) / PIECE), piece, &(Pieces){n, fn, arg});
}

static void run_piece(void *arg, size_t at, size_t n) {
  const Elements *e = arg;
  e->run(e, at, n);
}

static void run(const Ctx *cx, Elements *e) {
  e->cpu = cx->cpu;
  each_piece(cx, e->n, run_piece, e);
}

static real *shift(real *p, size_t at) { return p ? p + at : NULL; }

static void run_gated(const Elements *e, size_t at, size_t n) {
  (e->gelu ? kernels(e->cpu)->geglu : kernels(e->cpu)->swiglu)(n, e->a + at, e->b + at, e->x + at);
}
void gated_forward(const Ctx *cx, GateAct act, size_t n, const real *gate, const real *up,
                   real *y) {
  run(cx,
      &(Elements){.n = n, .run = run_gated, .a = gate, .b = up, .x = y, .gelu = act == GATE_GELU});
}

static void run_gated_grad(const Elements *e, size_t at, size_t n) {
  (e->gelu ? kernels(e->cpu)->geglu_grad : kernels(e->cpu)->swiglu_grad)(
      n, e->a + at, e->b + at, e->c + at, shift(e->x, at), e->add_x, shift(e->y, at), e->add_y);
}
void gated_backward(const Ctx *cx, GateAct act, size_t n, const real *gate, const real *up,
                    const real *dy, real *dgate, bool add_gate, real *dup, bool add_up) {
  run(cx, &(Elements){.n = n,
                      .run = run_gated_grad,
                      .gelu = act == GATE_GELU,
                      .a = gate,
                      .b = up,
                      .c = dy,
                      .x = dgate,
                      .y = dup,
                      .add_x = add_gate,
                      .add_y = add_up});
}

static void run_softcap(const Elements *e, size_t at, size_t n) {
  kernels(e->cpu)->softcap(n, 1, e->alpha, e->a + at, e->x + at);
}
void softcap_forward(const Ctx *cx, size_t n, real cap, const real *x, real *y) {
  run(cx, &(Elements){.n = n, .run = run_softcap, .a = x, .x = y, .alpha = cap});
}

static void run_softcap_grad(const Elements *e, size_t at, size_t n) {
  kernels(e->cpu)->softcap_grad(n, e->alpha, e->a + at, e->b + at, e->x + at, e->add_x);
}
void softcap_backward(const Ctx *cx, size_t n, real cap, const real *y, const real *dy, real *dx,
                      bool add) {
  run(cx,
      &(Elements){
          .n = n, .run = run_softcap_grad, .a = y, .b = dy, .x = dx, .add_x = add, .alpha = cap});
}

static real act_of(Act act, real x) {
  if (act == ACTIVATE_GELU) return (real)(0.5 * (double)x * (1 + math_erf((double)x * M_SQRT1_2)));
  const real y = x > 0 ? x : 0;
  return act == ACTIVATE_RELU2 ? y * y : y;
}

static real act_slope(Act act, real x) {
  const double z = (double)x;
  if (act == ACTIVATE_GELU)
    return (real)(0.5 * (1 + math_erf(z * M_SQRT1_2)) +
                  z * math_exp(-0.5 * z * z) / sqrt(2 * M_PI));
  return x > 0 ? (act == ACTIVATE_RELU2 ? 2 * x : 1) : 0;
}

static void run_act(const Elements *e, size_t at, size_t n) {
  for (size_t i = at; i < at + n; i++) e->x[i] = act_of(e->act, e->a[i]);
}
void act_forward(const Ctx *cx, Act act, size_t n, const real *x, real *y) {
  run(cx, &(Elements){.n = n, .run = run_act, .act = act, .a = x, .x = y});
}

static void run_act_grad(const Elements *e, size_t at, size_t n) {
  for (size_t i = at; i < at + n; i++) {
    const real d = act_slope(e->act, e->a[i]) * e->b[i];
    e->x[i] = e->add_x ? e->x[i] + d : d;
  }
}
void act_backward(const Ctx *cx, Act act, size_t n, const real *x, const real *dy, real *dx,
                  bool add) {
  run(cx,
      &(Elements){.n = n, .run = run_act_grad, .act = act, .a = x, .b = dy, .x = dx, .add_x = add});
}

static void run_scale(const Elements *e, size_t at, size_t n) {
  for (size_t i = at; i < at + n; i++)
    e->x[i] = e->add_x ? e->x[i] + e->alpha * e->a[i] : e->alpha * e->a[i];
}
void vec_scale(const Ctx *cx, size_t n, real factor, const real *x, real *y, bool add) {
  run(cx, &(Elements){.n = n, .run = run_scale, .alpha = factor, .a = x, .x = y, .add_x = add});
}

static void run_gelu(const Elements *e, size_t at, size_t n) {
  kernels(e->cpu)->gelu(n, e->a + at, e->x + at);
}
void gelu_forward(const Ctx *cx, size_t n, const real *x, real *y) {
  run(cx, &(Elements){.n = n, .run = run_gelu, .a = x, .x = y});
}

static void run_gelu_grad(const Elements *e, size_t at, size_t n) {
  kernels(e->cpu)->gelu_grad(n, e->a + at, e->b + at, e->x + at, e->add_x);
}
void gelu_backward(const Ctx *cx, size_t n, const real *x, const real *dy, real *dx, bool add) {
  run(cx, &(Elements){.n = n, .run = run_gelu_grad, .a = x, .b = dy, .x = dx, .add_x = add});
}

static void run_add(const Elements *e, size_t at, size_t n) {
  kernels(e->cpu)->add(n, e->a + at, e->b + at, e->x + at);
}
void vec_add(const Ctx *cx, size_t n, const real *a, const real *b, real *y) {
  run(cx, &(Elements){.n = n, .run = run_add, .a = a, .b = b, .x = y});
}
void vec_acc(const Ctx *cx, size_t n, const real *x, real *y) { vec_add(cx, n, y, x, y); }

static void run_copy(const Elements *e, size_t at, size_t n) {
  memcpy(e->x + at, e->a + at, n * sizeof *e->x);
}
void vec_copy(const Ctx *cx, size_t n, const real *x, real *y) {
  run(cx, &(Elements){.n = n, .run = run_copy, .a = x, .x = y});
}

static void run_lerp(const Elements *e, size_t at, size_t n) {
  kernels(e->cpu)->lerp(n, e->alpha, e->a + at, e->x + at);
}
void vec_lerp(const Ctx *cx, size_t n, const real *x, real alpha, real *y) {
  run(cx, &(Elements){.n = n, .run = run_lerp, .a = x, .x = y, .alpha = alpha});
}

/* ---- the sum of squares: pieces in waves, so that their sums need no heap ---- */
enum { WAVE = 256 };

typedef struct Squares {
  const KernelClass *cpu;
  size_t n;
  const real *x;
  double *part;
} Squares;

static void squares_piece(void *arg, int chunk, int worker) {
  (void)worker;
  const Squares *s = arg;
  const size_t at = (size_t)chunk * PIECE, left = s->n - at;
  s->part[chunk] = kernels(s->cpu)->sumsq(left < PIECE ? left : PIECE, s->x + at);
}

void vec_sumsq_pieces(const Ctx *cx, size_t n, const real *x, double *part) {
  Squares s = {cx->cpu, n, x, part};
  pool_run(cx->pool, (int)((n + PIECE - 1) / PIECE), squares_piece, &s);
}

double vec_sumsq(const Ctx *cx, size_t n, const real *x) {
  double total = 0, part[WAVE];
  for (size_t at = 0; at < n; at += (size_t)WAVE * PIECE) {
    const size_t wave = n - at < (size_t)WAVE * PIECE ? n - at : (size_t)WAVE * PIECE;
    vec_sumsq_pieces(cx, wave, x + at, part);
    for (size_t i = 0; i < (wave + PIECE - 1) / PIECE; i++) total += part[i];
  }
  return total;
}
