#include "grad/tensor.h"

#include "base/mem.h"

Tensor tensor_view(real *data, int ndim, const int *dim) {
  Tensor t = {.data = data, .ndim = ndim, .n = 1};
  for (int i = 0; i < ndim; i++) t.n *= (size_t)(t.dim[i] = dim[i]);
  return t;
}

/* An operation may take scratch memory of several times the size of its result. */
bool tensor_fits(int ndim, const int *dim) {
  enum { SCRATCH = 8 };
  double bytes = SCRATCH * sizeof(real);
  for (int i = 0; i < ndim; i++) bytes *= dim[i];
  return mem_fits(bytes);
}
