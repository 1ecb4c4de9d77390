/* tensor.h - a dense, row-major array of reals with an optional gradient.
 *
 * A Tensor is a view and owns nothing.  The model owns its parameters, a tape's arena owns
 * activations, and a Value (value.h) owns its own data.
 */
#ifndef GRPO_GRAD_TENSOR_H
#define GRPO_GRAD_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kern/kern.h"

enum { TENSOR_DIMS = 4 };

typedef struct Tensor {
  real *data;           /* [dim[0], ..., dim[ndim-1]] */
  real *grad;           /* the same shape; NULL until someone contributes */
  const void *prepared; /* what a backend keeps of a weight for its products; NULL: nothing */
  /* The node that computes data again, because a transient result's memory has been reused
   * (tape_apply_transient); NULL: data is valid. */
  struct Node *again;
  /* A quantised weight (kern/quant.h): data is then NULL, and only linear, embedding and loghead
   * accept it. */
  const struct QuantWeight *quant;
  size_t n; /* elements */
  int ndim; /* 0: a number */
  int dim[TENSOR_DIMS];
  Compute compute; /* of products with it as the weight, in forward and backward (weight.h) */
  bool needs_grad;
  bool grad_borrowed; /* grad belongs to a tape, which may replace the buffer */
  bool grad_live;     /* grad holds a contribution, to which the next one is added */
} Tensor;

Tensor tensor_view(real *data, int ndim, const int *dim); /* no gradient */
/* Would several arrays of this shape fit into memory, whatever is free now? */
bool tensor_fits(int ndim, const int *dim);

#endif
