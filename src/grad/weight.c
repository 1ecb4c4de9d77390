#include "grad/weight.h"

#include "base/arena.h"
#include "kern/matrix.h"

Status weight_ready(const Ctx *cx, const Tensor *w, bool in_out, Tensor *ready) {
  const int n = weight_outputs(w, in_out), k = weight_inputs(w, in_out);
  *ready = *w;
  if (w->mat || w->packed) return GRPO_OK;
  ready->packed = arena_alloc(cx->arena, gemm_packed_size(n, k) * sizeof(real));
  if (!ready->packed) return fail(GRPO_ENOMEM, "no memory to pack a %d x %d weight", n, k);
  gemm_pack(cx, n, k, w->data, in_out, ready->packed);
  return GRPO_OK;
}

Status weight_panels(const Ctx *cx, const Tensor *w, bool in_out, const real **packed) {
  Tensor ready;
  try(weight_ready(cx, w, in_out, &ready));
  *packed = ready.packed;
  return GRPO_OK;
}

Status weight_forward(const Ctx *cx, int m, const Tensor *w, bool in_out, const real *x,
                      const real *bias, real *y) {
  const int n = weight_outputs(w, in_out), k = weight_inputs(w, in_out);
  if (w->mat) return matrix_forward(cx, m, w->mat, x, k, bias, y, n);
  const ArenaMark mark = arena_mark(cx->arena);
  Tensor ready;
  try(weight_ready(cx, w, in_out, &ready));
  gemm_forward(cx, m, n, k, x, k, ready.packed, bias, y, n);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

Status weight_dx(const Ctx *cx, int m, const Tensor *w, bool in_out, const real *dy, real *dx,
                 bool add) {
  const int n = weight_outputs(w, in_out), k = weight_inputs(w, in_out);
  if (w->mat) return matrix_dx(cx, m, w->mat, dy, n, dx, k, add);
  return gemm_dx(cx, m, n, k, dy, n, w->data, in_out, dx, k, add);
}

Status weight_dw(const Ctx *cx, int m, const Tensor *w, bool in_out, const real *dy, const real *x,
                 real *dw, bool add) {
  const int n = weight_outputs(w, in_out), k = weight_inputs(w, in_out);
  return gemm_dw(cx, m, n, k, dy, n, x, k, in_out, dw, add);
}
