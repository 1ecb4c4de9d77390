/* rates.h - what this machine's cores and memory do: the rates that floors are computed from.
 *
 * Each measures for about `seconds`: the best repetition, and the median one.  Memory comes from mem.h and is
 * given back; ENOMEM is the only failure.
 */
#ifndef GRPO_KERN_RATES_H
#define GRPO_KERN_RATES_H

#include "kern/kern.h"

/* Work a second: by the clock, and by the time that our threads had a core, as if all had one all
 * the time, both of the best repetition; by the clock of the median one.  The second does not fall when
 * neighbours keep the cores busy; it says nothing where the work is too small for all threads. */
typedef struct Rate {
  double clock, cores, median;
} Rate;

/* A weight of n outputs and k inputs, m rows: y = x w^T, dx = dy w, dw = dy^T x in float32; the same
 * three with operands rounded to bf16; the same through OpenBLAS in float32 (it exports no bf16
 * product), one thread of it on each of our threads' share of the rows. */
typedef enum RateProduct {
  RATE_FORWARD,
  RATE_DX,
  RATE_DW,
  RATE_BF16_FORWARD,
  RATE_BF16_DX,
  RATE_BF16_DW,
  RATE_BLAS_FORWARD,
  RATE_BLAS_DX,
  RATE_BLAS_DW,
  NRATES
} RateProduct;

Status rate_product(const Ctx *cx, RateProduct what, int m, int n, int k, double seconds,
                    Rate *flops);

/* All weights of a model once, by m rows each: the products of one decoding step.  How they are
 * kept and multiplied: float32 in panels; bf16, int8 or NF4 by float32 activations; bf16 by bf16;
 * OpenBLAS in float32 with its own threads, or one thread of it on each of our threads' share of
 * the outputs. */
typedef enum RateWeights {
  WEIGHTS_F32,
  WEIGHTS_BF16,
  WEIGHTS_INT8,
  WEIGHTS_NF4,
  WEIGHTS_BF16_BF16,
  WEIGHTS_BLAS,
  WEIGHTS_BLAS_CUT,
  NWEIGHTS
} RateWeights;

typedef struct WeightShape {
  int n, k, count; /* count of them, each in memory of its own */
} WeightShape;

/* For each of m[nm] numbers of rows, `seconds` each: flops [nm]. */
Status rate_weights(const Ctx *cx, RateWeights how, int nm, const int *m, int nshapes,
                    const WeightShape *shapes, double seconds, Rate *flops);

/* Reading a block that no cache holds, all threads. */
Status rate_read(const Ctx *cx, double seconds, Rate *bytes);

#endif
