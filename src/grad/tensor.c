#include "grad/tensor.h"

#include <stdio.h>
#include <string.h>

#include "grad/ops.h"

Tensor tensor_view(real *data, int ndim, const int *dim) {
  Tensor t = {.data = data, .ndim = ndim, .n = 1};
  for (int i = 0; i < ndim; i++) t.n *= (size_t)(t.dim[i] = dim[i]);
  return t;
}

Status shape_as(const Tensor *x, Tensor *y) {
  y->ndim = x->ndim;
  memcpy(y->dim, x->dim, sizeof y->dim);
  return GRPO_OK;
}

ShapeText shape_text(const Tensor *x) {
  ShapeText t;
  size_t at = 0;
  t.s[at++] = '[';
  for (int i = 0; i < x->ndim && at < sizeof t.s - 16; i++)
    at += (size_t)snprintf(t.s + at, sizeof t.s - at, i ? ", %d" : "%d", x->dim[i]);
  t.s[at++] = ']';
  t.s[at] = 0;
  return t;
}

Axis axis_of(const Tensor *x, int axis) {
  if (axis < 0) return (Axis){1, x->n, 1};
  Axis a = {1, (size_t)x->dim[axis], 1};
  for (int i = 0; i < axis; i++) a.outer *= (size_t)x->dim[i];
  for (int i = axis + 1; i < x->ndim; i++) a.inner *= (size_t)x->dim[i];
  return a;
}

Status axis_check(const Node *nd, const Tensor *x, int axis) {
  if (axis >= 0 && axis < x->ndim) return GRPO_OK;
  return fail(GRPO_ESHAPE, "%s: axis %d of a tensor of shape %s: it has %d dimensions",
              nd->op->name, axis + 1, shape_text(x).s, x->ndim);
}
