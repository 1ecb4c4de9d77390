/* delta.h - the gated delta rule (Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2024), as
 * Qwen3-Next and Qwen3.5 have it, over the rows of sequences.
 *
 * A row holds q and k of each key head, and v of each value head; value head h reads key head
 * h / (value_heads / key_heads).  With u / |u| = u / sqrt(sum u^2 + 1e-6):
 *
 *   q' = q / |q| / sqrt(key_dim), k' = k / |k|
 *   decay = exp(-exp(a_log) softplus(a + dt_bias)), beta = sigmoid(b)
 *   d = beta (v - decay S^T k'),  S <- decay S + k' d^T,  o = S^T q'
 *
 * The state S [key_dim, value_dim] of each value head is 0 at first.  Tokens follow one another in
 * one order everywhere, so that a row has the same bits in decoding, in a prefill and in training.
 * The backward pass computes the states again, from one every DELTA_CHUNK rows.
 */
#ifndef GRPO_KERN_DELTA_H
#define GRPO_KERN_DELTA_H

#include "base/err.h"
#include "kern/kern.h"

typedef struct DeltaShape {
  int key_heads, value_heads; /* value_heads is a multiple of key_heads */
  int key_dim, value_dim;
} DeltaShape;

/* Consecutive rows of one sequence. */
typedef struct DeltaRun {
  int row, n;
  int from;          /* the run, an earlier one, whose last state it begins with; -1: none */
  const real *begin; /* from -1: the state that it begins with; NULL: zeros */
  real *end;         /* receives its last state; may be `begin`; NULL: not wanted */
} DeltaRun;

typedef struct DeltaInputs {
  const real *x;               /* [rows, delta_width] q, k, v */
  const real *a, *b;           /* [rows, value_heads] */
  const real *a_log, *dt_bias; /* [value_heads] */
} DeltaInputs;

/* Added to; NULL: not wanted. */
typedef struct DeltaGrads {
  real *x, *a, *b, *a_log, *dt_bias;
} DeltaGrads;

int delta_width(const DeltaShape *s);    /* of a row of x */
size_t delta_state(const DeltaShape *s); /* reals of the states of all heads, in panels */

/* o [rows, value_heads value_dim]; a run with `from` begins where a run without one ends. */
Status delta_forward(const Ctx *cx, const DeltaShape *s, int rows, int nruns, const DeltaRun *runs,
                     const DeltaInputs *in, real *o);
Status delta_backward(const Ctx *cx, const DeltaShape *s, int rows, int nruns, const DeltaRun *runs,
                      const DeltaInputs *in, const real *dout, const DeltaGrads *out);

#endif
