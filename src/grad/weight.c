#include "grad/weight.h"

#include "base/arena.h"
#include "kern/gemm_bf16.h"
#include "kern/gemm_dw.h"
#include "kern/gemm_quant.h"

/* In gradient checks, where reals are double, nothing is rounded: they check the formulas. */
bool weight_in_bf16(const Tensor *w) {
  return w->compute == COMPUTE_BF16 && sizeof(real) == sizeof(float);
}

static Ctx weight_ctx(const Ctx *cx, const Tensor *w) {
  Ctx c = *cx;
  c.compute = weight_in_bf16(w) ? COMPUTE_BF16 : COMPUTE_F32;
  return c;
}

static bool is_packed(const Tensor *w) {
  return w->quant || (weight_in_bf16(w) ? w->packed_bf16 != NULL : w->packed != NULL);
}

Status weight_ready(const Ctx *cx, const Tensor *w, bool in_out, Tensor *ready) {
  const int n = weight_outputs(w, in_out), k = weight_inputs(w, in_out);
  *ready = *w;
  if (is_packed(w)) return GRPO_OK;
  if (weight_in_bf16(w)) {
    ready->packed_bf16 =
        arena_alloc(cx->arena, gemm_bf16_packed_size(n, k) * sizeof *w->packed_bf16);
    if (ready->packed_bf16) gemm_bf16_pack(cx, n, k, w->data, in_out, ready->packed_bf16);
  } else {
    ready->packed = arena_alloc(cx->arena, gemm_packed_size(n, k) * sizeof(real));
    if (ready->packed) gemm_pack(cx, n, k, w->data, in_out, ready->packed);
  }
  if (!is_packed(ready)) return fail(GRPO_ENOMEM, "no memory to pack a %d x %d weight", n, k);
  return GRPO_OK;
}

Status weight_panels(const Ctx *cx, const Tensor *w, bool in_out, const real **packed) {
  Tensor ready;
  try(weight_ready(cx, w, in_out, &ready));
  *packed = ready.packed;
  return GRPO_OK;
}

Status weight_forward(const Ctx *cx, int m, const Tensor *w, bool in_out, const real *x,
                      const real *bias, const LowRank *low, real *y) {
  const int n = weight_outputs(w, in_out), k = weight_inputs(w, in_out);
  const Ctx c = weight_ctx(cx, w);
  if (w->quant) return quant_forward_low(&c, m, w->quant, x, k, bias, low, y, n);
  const ArenaMark mark = arena_mark(cx->arena);
  Tensor ready;
  try(weight_ready(cx, w, in_out, &ready));
  if (weight_in_bf16(w))
    try(gemm_bf16_forward_low(cx, m, n, k, x, k, ready.packed_bf16, bias, low, y, n));
  else
    gemm_forward_low(cx, m, n, k, x, k, ready.packed, bias, low, y, n);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

Status weight_dx(const Ctx *cx, int m, const Tensor *w, bool in_out, const real *dy,
                 const LowRank *low, real *dx, bool add) {
  const int n = weight_outputs(w, in_out), k = weight_inputs(w, in_out);
  const Ctx c = weight_ctx(cx, w);
  if (w->quant) return quant_dx_low(&c, m, w->quant, dy, n, low, dx, k, add);
  if (weight_in_bf16(w) && w->transposed_bf16)
    return gemm_bf16_dx_transposed(cx, m, n, k, dy, n, w->transposed_bf16, low, dx, k, add);
  if (!weight_in_bf16(w) && w->transposed) {
    gemm_dx_transposed(cx, m, n, k, dy, n, w->transposed, low, dx, k, add);
    return GRPO_OK;
  }
  if (!weight_in_bf16(w)) return gemm_dx_low(cx, m, n, k, dy, n, w->data, in_out, low, dx, k, add);
  const ArenaMark mark = arena_mark(cx->arena);
  Tensor ready;
  try(weight_ready(cx, w, in_out, &ready));
  try(gemm_bf16_dx_low(cx, m, n, k, dy, n, ready.packed_bf16, low, dx, k, add));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

Status weight_dw(const Ctx *cx, int m, const Tensor *w, bool in_out, const real *dy, const real *x,
                 real *dw, bool add) {
  const int n = weight_outputs(w, in_out), k = weight_inputs(w, in_out);
  if (weight_in_bf16(w)) return gemm_bf16_dw(cx, m, n, k, dy, n, x, k, in_out, dw, add);
  return gemm_dw(cx, m, n, k, dy, n, x, k, in_out, dw, add);
}
