/* optimizers.h - one step of AdamW, of AdamW with moments in 8 bits, and of Lion, on n numbers. */
#ifndef GRPO_KERN_OPTIMIZERS_H
#define GRPO_KERN_OPTIMIZERS_H

#include "kern/kern.h"
#include "kern/moment8.h"

typedef struct AdamW {
  double lr, beta1, beta2, eps, weight_decay;
  double bias1, bias2; /* 1 - beta^t */
  double grad_scale;   /* of the gradient before use: clipping */
} AdamW;
/* AdamW of PyTorch: p *= 1 - lr wd; p -= lr m^ / (sqrt(v^) + eps) */
void adamw_step(const Ctx *cx, size_t n, real *p, const real *g, real *m, real *v, const AdamW *o);

/* A moment of n numbers: code [n], scale [moment8_blocks(n)]. */
typedef struct Moment8 {
  const Moment8Map *map;
  uint8_t *code;
  float *scale;
} Moment8;
/* The same step, from and to moments in 8 bits; m has signs, v has none. */
void adamw8_step(const Ctx *cx, size_t n, real *p, const real *g, const Moment8 *m,
                 const Moment8 *v, const AdamW *o);

/* Lion (arXiv:2302.06675): u = beta1 m + (1 - beta1) g; p *= 1 - lr wd; p -= lr sign(u);
 * m = beta2 m + (1 - beta2) g.  It reads neither eps nor the bias corrections. */
void lion_step(const Ctx *cx, size_t n, real *p, const real *g, real *m, const AdamW *o);

#endif
