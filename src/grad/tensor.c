#include "grad/tensor.h"

Tensor tensor_view(real *data, int ndim, const int *dim) {
  Tensor t = {.data = data, .ndim = ndim, .n = 1};
  for (int i = 0; i < ndim; i++) t.n *= (size_t)(t.dim[i] = dim[i]);
  return t;
}
