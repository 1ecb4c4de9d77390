/* optimizers.c - every number has its own step, and every block of 8-bit moments its own scale, so
 * pieces of whole blocks are cut for the pool. */
#include "kern/optimizers.h"

#include <math.h>

#include "kern/dispatch.h"
#include "kern/kernels.h"

enum { PIECE = 1 << 14 };
_Static_assert(PIECE % MOMENT8_BLOCK == 0, "a block is in one piece");

typedef struct Step Step;
struct Step {
  const KernelClass *cpu;
  size_t n;
  void (*run)(const Step *s, size_t at, size_t n);
  real *p;
  const real *g;
  real *m, *v;
  Moment8 m8, v8;
  AdamScalars adam;
  LionScalars lion;
};

static void piece(void *arg, int chunk, int worker) {
  (void)worker;
  const Step *s = arg;
  const size_t at = (size_t)chunk * PIECE, left = s->n - at;
  s->run(s, at, left < PIECE ? left : PIECE);
}

static void run(const Ctx *cx, Step *s) {
  s->cpu = cx->cpu;
  pool_run(cx->pool, (int)((s->n + PIECE - 1) / PIECE), piece, s);
}

static AdamScalars adam_scalars(const AdamW *o) {
  return (AdamScalars){.grad_scale = (real)o->grad_scale,
                       .rest1 = (real)(1 - o->beta1),
                       .beta2 = (real)o->beta2,
                       .rest2 = (real)(1 - o->beta2),
                       .keep = (real)(1 - o->lr * o->weight_decay),
                       .step = (real)(o->lr / o->bias1),
                       .eps = (real)o->eps,
                       .root2 = (real)(1 / sqrt(o->bias2))};
}

static void run_adamw(const Step *s, size_t at, size_t n) {
  kernels(s->cpu)->adamw(n, s->p + at, s->g + at, s->m + at, s->v + at, &s->adam);
}
void adamw_step(const Ctx *cx, size_t n, real *p, const real *g, real *m, real *v, const AdamW *o) {
  run(cx,
      &(Step){.n = n, .run = run_adamw, .p = p, .g = g, .m = m, .v = v, .adam = adam_scalars(o)});
}

static void run_adamw8(const Step *s, size_t from, size_t n) {
  const Moment8 *m8 = &s->m8, *v8 = &s->v8;
  real m[MOMENT8_BLOCK], v[MOMENT8_BLOCK];
  for (size_t at = from; at < from + n; at += MOMENT8_BLOCK) {
    const size_t left = from + n - at, block = at / MOMENT8_BLOCK;
    const int k = left < MOMENT8_BLOCK ? (int)left : MOMENT8_BLOCK;
    moment8_read(m8->map, k, m8->code + at, m8->scale[block], m);
    moment8_read(v8->map, k, v8->code + at, v8->scale[block], v);
    kernels(s->cpu)->adamw((size_t)k, s->p + at, s->g + at, m, v, &s->adam);
    moment8_write(m8->map, k, m, m8->code + at, &m8->scale[block]);
    moment8_write(v8->map, k, v, v8->code + at, &v8->scale[block]);
  }
}
void adamw8_step(const Ctx *cx, size_t n, real *p, const real *g, const Moment8 *m,
                 const Moment8 *v, const AdamW *o) {
  run(cx,
      &(Step){
          .n = n, .run = run_adamw8, .p = p, .g = g, .m8 = *m, .v8 = *v, .adam = adam_scalars(o)});
}

static void run_lion(const Step *s, size_t at, size_t n) {
  kernels(s->cpu)->lion(n, s->p + at, s->g + at, s->m + at, &s->lion);
}
void lion_step(const Ctx *cx, size_t n, real *p, const real *g, real *m, const AdamW *o) {
  const LionScalars s = {.grad_scale = (real)o->grad_scale,
                         .keep = (real)(1 - o->lr * o->weight_decay),
                         .lr = (real)o->lr,
                         .beta1 = (real)o->beta1,
                         .rest1 = (real)(1 - o->beta1),
                         .beta2 = (real)o->beta2,
                         .rest2 = (real)(1 - o->beta2)};
  run(cx, &(Step){.n = n, .run = run_lion, .p = p, .g = g, .m = m, .lion = s});
}
