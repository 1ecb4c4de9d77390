#include "grad/latent.h"

#include "base/arena.h"
#include "grad/weight.h"
#include "kern/gemm.h"
#include "kern/gemm_bf16.h"

static size_t packed_size(Compute compute, int n, int k) {
  return compute == COMPUTE_BF16 ? gemm_bf16_packed_size(n, k) : gemm_packed_size(n, k);
}

static size_t head_panels(const LatentShape *s, Compute compute) {
  return packed_size(compute, s->rank, s->nope) + packed_size(compute, s->v_dim, s->rank);
}

size_t latent_panels(const LatentShape *s, Compute compute) {
  return (size_t)s->heads * head_panels(s, compute);
}

LatentProduct latent_product(const LatentShape *s, Compute compute, int head, bool value) {
  const size_t rows = (size_t)head * (size_t)(s->nope + s->v_dim) + (size_t)(value ? s->nope : 0);
  const size_t before = value ? packed_size(compute, s->rank, s->nope) : 0;
  return (LatentProduct){.n = value ? s->v_dim : s->rank,
                         .k = value ? s->rank : s->nope,
                         .in_out = !value,
                         .at = rows * (size_t)s->rank,
                         .panel_at = (size_t)head * head_panels(s, compute) + before};
}

void latent_pack(const Ctx *cx, const LatentShape *s, const real *w, real *packed,
                 uint16_t *packed_bf16) {
  for (int i = 0; i < 2 * s->heads; i++) {
    const LatentProduct p =
        latent_product(s, packed_bf16 ? COMPUTE_BF16 : COMPUTE_F32, i / 2, i % 2);
    if (packed_bf16)
      gemm_bf16_pack(cx, p.n, p.k, w + p.at, p.in_out, packed_bf16 + p.panel_at);
    else
      gemm_pack(cx, p.n, p.k, w + p.at, p.in_out, packed + p.panel_at);
  }
}

Status latent_ready(const Ctx *cx, const LatentShape *s, const Tensor *w, Tensor *out) {
  const bool bf16 = weight_in_bf16(w);
  *out = *w;
  if (bf16 ? out->packed_bf16 != NULL : out->packed != NULL) return GRPO_OK;
  const size_t n = latent_panels(s, bf16 ? COMPUTE_BF16 : COMPUTE_F32);
  void *panels = arena_alloc(cx->arena, n * (bf16 ? sizeof *w->packed_bf16 : sizeof *w->packed));
  if (!panels) return fail(GRPO_ENOMEM, "latent attention: no memory to pack a weight");
  if (bf16)
    out->packed_bf16 = panels;
  else
    out->packed = panels;
  latent_pack(cx, s, w->data, bf16 ? NULL : panels, bf16 ? panels : NULL);
  return GRPO_OK;
}
