#include "grad/weight.h"

#include "base/arena.h"
#include "kern/gemm_bf16.h"
#include "kern/gemm_dw.h"
#include "kern/gemm_quant.h"

/* In gradient checks, where reals are double, nothing is rounded: they check the formulas. */
Compute weight_compute(const Tensor *w) {
  return sizeof(real) == sizeof(float) ? w->compute : COMPUTE_F32;
}

/* ---- panels ------------------------------------------------------------------------ */

size_t weight_panel_bytes(Compute c, int n, int k) {
  return c == COMPUTE_BF16 ? gemm_bf16_packed_size(n, k) * sizeof(uint16_t)
                           : gemm_packed_size(n, k) * sizeof(real);
}

void weight_pack(const Ctx *cx, Compute c, int n, int k, const real *w, bool in_out, void *packed) {
  if (c == COMPUTE_BF16)
    gemm_bf16_pack(cx, n, k, w, in_out, packed);
  else
    gemm_pack(cx, n, k, w, in_out, packed);
}

Status weight_panels(const Ctx *cx, const Tensor *w, bool in_out, void **packed) {
  const int n = weight_outputs(w, in_out), k = weight_inputs(w, in_out);
  const Panels *p = w->prepared;
  *packed = p ? p->forward : arena_alloc(cx->arena, weight_panel_bytes(weight_compute(w), n, k));
  if (!*packed) return fail(GRPO_ENOMEM, "no memory to pack a %d x %d weight", n, k);
  if (!p) weight_pack(cx, weight_compute(w), n, k, w->data, in_out, *packed);
  return GRPO_OK;
}

Status weight_ready(const Ctx *cx, const Tensor *w, bool in_out, Tensor *ready) {
  *ready = *w;
  if (w->quant || w->prepared) return GRPO_OK;
  Panels *p = arena_alloc(cx->arena, sizeof *p);
  if (!p) return fail(GRPO_ENOMEM, "no memory for a weight's panels");
  *p = (Panels){0};
  ready->prepared = p;
  return weight_panels(cx, w, in_out, &p->forward);
}

/* ---- products ---------------------------------------------------------------------- */

static Ctx weight_ctx(const Ctx *cx, const Tensor *w) {
  Ctx c = *cx;
  c.compute = weight_compute(w);
  return c;
}

Status weight_forward(const Ctx *cx, int m, const Tensor *w, bool in_out, const real *x,
                      const real *bias, const LowRank *low, real *y) {
  const int n = weight_outputs(w, in_out), k = weight_inputs(w, in_out);
  const Ctx c = weight_ctx(cx, w);
  if (w->quant) return quant_forward_low(&c, m, w->quant, x, k, bias, low, y, n);
  const ArenaMark mark = arena_mark(cx->arena);
  void *packed;
  try(weight_panels(cx, w, in_out, &packed));
  if (c.compute == COMPUTE_BF16)
    try(gemm_bf16_forward_low(cx, m, n, k, x, k, packed, bias, low, y, n));
  else
    gemm_forward_low(cx, m, n, k, x, k, packed, bias, low, y, n);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

Status weight_dx(const Ctx *cx, int m, const Tensor *w, bool in_out, const real *dy,
                 const LowRank *low, real *dx, bool add) {
  const int n = weight_outputs(w, in_out), k = weight_inputs(w, in_out);
  const Ctx c = weight_ctx(cx, w);
  if (w->quant) return quant_dx_low(&c, m, w->quant, dy, n, low, dx, k, add);
  void *packed = w->prepared ? ((const Panels *)w->prepared)->transposed : NULL;
  if (packed && c.compute == COMPUTE_BF16)
    return gemm_bf16_dx_transposed(cx, m, n, k, dy, n, packed, low, dx, k, add);
  if (packed) {
    gemm_dx_transposed(cx, m, n, k, dy, n, packed, low, dx, k, add);
    return GRPO_OK;
  }
  if (c.compute == COMPUTE_F32)
    return gemm_dx_low(cx, m, n, k, dy, n, w->data, in_out, low, dx, k, add);
  const ArenaMark mark = arena_mark(cx->arena);
  try(weight_panels(cx, w, in_out, &packed));
  try(gemm_bf16_dx_low(cx, m, n, k, dy, n, packed, low, dx, k, add));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

Status weight_dw(const Ctx *cx, int m, const Tensor *w, bool in_out, const real *dy, const real *x,
                 real *dw, bool add) {
  const int n = weight_outputs(w, in_out), k = weight_inputs(w, in_out);
  if (weight_compute(w) == COMPUTE_BF16)
    return gemm_bf16_dw(cx, m, n, k, dy, n, x, k, in_out, dw, add);
  return gemm_dw(cx, m, n, k, dy, n, x, k, in_out, dw, add);
}
