/* rates.h - how fast this machine multiplies and reads memory.  Floors are
 * computed from these rates.
 *
 * Each function measures for about `seconds`.  Memory comes from mem.h and is freed before the
 * return.  The failures are ENOMEM, and EARG where OpenBLAS is asked for and not installed.
 */
#ifndef GRPO_BENCH_RATES_H
#define GRPO_BENCH_RATES_H

#include "kern/kern.h"

/* Work per second.  `clock` divides by the wall-clock time of the best repetition and `median`
 * by that of the median one.  `cores` divides by the least core time that a repetition took, as
 * if each of our threads had had a core of its own.  It does not fall when other processes keep
 * the cores busy, and means nothing where there is too little work for all threads. */
typedef struct Rate {
  double clock, cores, median;
} Rate;

/* Products of m rows with a weight of n outputs and k inputs: y = x w^T, dx = dy w and dw = dy^T x.
 * They are measured in float32, with operands rounded to bf16, and through OpenBLAS in float32 (it
 * exports no bf16 product), where each of our threads calls it for its share of the rows. */
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

/* The products of one decoding step: all weights of a model once, by m rows each.  The kinds are
 * float32 in packed panels; bf16, int8 or NF4 weights with float32 activations; bf16 with bf16;
 * and OpenBLAS in float32, with its own threads or with one call of each of our threads for its
 * share of the outputs. */
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

/* flops[i] is the rate with m[i] rows, measured for `seconds`. */
Status rate_weights(const Ctx *cx, RateWeights how, int nm, const int *m, int nshapes,
                    const WeightShape *shapes, double seconds, Rate *flops);

/* Bytes per second that all threads read from a block which no cache holds. */
Status rate_read(const Ctx *cx, double seconds, Rate *bytes);

#endif
