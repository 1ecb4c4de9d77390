/* tensor.h - a dense, row-major array of reals with an optional gradient.
 *
 * A Tensor is a view: it owns nothing.  Who owns the data says so: the model
 * its parameters, a tape's arena its activations, a Value (value.h) its own.
 */
#ifndef GRPO_GRAD_TENSOR_H
#define GRPO_GRAD_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kern/kern.h"

enum { TENSOR_DIMS = 4 };

typedef struct Tensor {
  real *data;   /* [dim[0], ..., dim[ndim-1]] */
  real *grad;   /* the same shape; NULL until someone contributes */
  real *packed; /* a weight's panels for gemm_forward, kept by its owner; NULL: packed on the fly */
  uint16_t *
      packed_bf16; /* in their place where `compute` is COMPUTE_BF16: for gemm_bf16_forward and dx */
  real *transposed; /* panels of the transposed weight, for dX, likewise: NULL where rows serve */
  uint16_t *transposed_bf16; /* and of bf16; NULL: transposed on the fly */
  struct Node *again; /* makes data once more, which others have taken (tape_apply_passing); NULL:
                               data stay */
  const struct QuantWeight
      *quant; /* a frozen weight kept in a compact form (kern/quant.h): data is then
                               NULL, and only linear, embedding and loghead take it */
  size_t n;   /* elements */
  int ndim;   /* 0: a number */
  int dim[TENSOR_DIMS];
  Compute compute; /* of products with it as the weight, in forward and backward (weight.h) */
  bool needs_grad;
  bool grad_borrowed; /* grad is a tape's, which may put another buffer in its place */
  bool grad_live; /* grad holds a contribution: the next one adds, the first one may overwrite */
} Tensor;

Tensor tensor_view(real *data, int ndim, const int *dim); /* no gradient */

#endif
