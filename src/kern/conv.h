/* conv.h - causal depthwise convolution over the rows of sequences.
 *
 *   y_t[c] = sum over j < taps of w[c, j] u_{t - taps + 1 + j}[c], then silu where it is wanted
 *
 * The last tap is the row's own.  Before a sequence begins there are zeros.
 */
#ifndef GRPO_KERN_CONV_H
#define GRPO_KERN_CONV_H

#include <stdbool.h>
#include <stddef.h>

#include "kern/kern.h"

enum { CONV_MAX_TAPS = 8 };

typedef struct ConvShape {
  int channels, taps;
  bool silu;
} ConvShape;

/* Consecutive rows of one sequence.  The rows before them are rows of u, or in `tail`. */
typedef struct ConvRun {
  int row, n;
  int before, nbefore; /* the rows before the run are the last of rows before .. + nbefore - 1 */
  const real *tail;    /* [taps - 1, channels] inputs before the run; NULL: rows of u, or zeros */
  real *end;           /* receives the tail behind the run; may be `tail`; NULL: not wanted */
} ConvRun;

size_t conv_tail(const ConvShape *s); /* reals */

/* u, y [rows, channels]; w [channels, taps] */
void conv_forward(const Ctx *cx, const ConvShape *s, int nruns, const ConvRun *runs, const real *u,
                  const real *w, real *y);
/* du [rows, channels] and dw [channels, taps] are added to; NULL: not wanted. */
void conv_backward(const Ctx *cx, const ConvShape *s, int nruns, const ConvRun *runs, const real *u,
                   const real *w, const real *dy, real *du, real *dw);

#endif
