/* norm_rope.h - RMSNorm, LayerNorm and rotary positions, row by row: [rows, c]. */
#ifndef GRPO_KERN_NORM_ROPE_H
#define GRPO_KERN_NORM_ROPE_H

#include <stdint.h>

#include "base/err.h"
#include "kern/kern.h"

/* y = x * rstd * (base + w), rstd[rows] = 1 / sqrt(mean x^2 + eps); base: 0, or 1 as gemma has
 * it */
void rmsnorm_forward(const Ctx *cx, int rows, int c, const real *x, const real *w, real base,
                     double eps, real *y, real *rstd);
Status rmsnorm_backward(const Ctx *cx, int rows, int c, const real *x, const real *w, real base,
                        const real *rstd, const real *dy, real *dx, bool add_dx, real *dw /* += */);
/* y = (x - mean) * rstd * (base + w) + b, b may be NULL; mean[rows], rstd[rows] = 1 / sqrt(var +
 * eps), var over c (biased) */
void layernorm_forward(const Ctx *cx, int rows, int c, const real *x, const real *w, const real *b,
                       real base, double eps, real *y, real *mean, real *rstd);
Status layernorm_backward(const Ctx *cx, int rows, int c, const real *x, const real *w, real base,
                          const real *mean, const real *rstd, const real *dy, real *dx, bool add_dx,
                          real *dw /* += */, real *db /* += */);
/* Rotates halves: in each head of d channels, (x_i, x_{i+r/2}) for i < r/2 by the angle
 * pos * inv_freq[i]; or, with `pairs`, (x_2i, x_2i+1).  Channels r .. d - 1 stay.  cs[positions,
 * r/2, 2] holds cosines and sines.  inverse = true is the backward. */
void rope_apply(const Ctx *cx, int rows, int heads, int d, int r, bool pairs, const real *x,
                int ldx, const int32_t *pos, const real *cs, bool inverse, real *y, int ldy,
                bool add);
/* Rotates neighbours: (x_2i, x_2i+1) of r channels of each head by pos * inv_freq[i].  Heads
 * begin x_head (y_head) apart; cs and inverse are as above. */
typedef struct RopePairs {
  int rows, heads, r;
  const real *x;
  ptrdiff_t ldx, x_head;
  real *y;
  ptrdiff_t ldy, y_head;
  const int32_t *pos;
  const real *cs;
  bool inverse, add;
} RopePairs;
void rope_pairs(const Ctx *cx, const RopePairs *p);

#endif
