#include "grad/latent.h"

#include "grad/weight.h"

static size_t head_bytes(const LatentShape *s, Compute compute) {
  return weight_panel_bytes(compute, s->rank, s->nope) +
         weight_panel_bytes(compute, s->v_dim, s->rank);
}

size_t latent_panel_bytes(const LatentShape *s, Compute compute) {
  return (size_t)s->heads * head_bytes(s, compute);
}

LatentProduct latent_product(const LatentShape *s, Compute compute, int head, bool value) {
  const size_t rows = (size_t)head * (size_t)(s->nope + s->v_dim) + (size_t)(value ? s->nope : 0);
  const size_t before = value ? weight_panel_bytes(compute, s->rank, s->nope) : 0;
  return (LatentProduct){.n = value ? s->v_dim : s->rank,
                         .k = value ? s->rank : s->nope,
                         .in_out = !value,
                         .at = rows * (size_t)s->rank,
                         .panel_at = (size_t)head * head_bytes(s, compute) + before};
}

void latent_pack(const Ctx *cx, const LatentShape *s, Compute compute, const real *w,
                 void *packed) {
  for (int i = 0; i < 2 * s->heads; i++) {
    const LatentProduct p = latent_product(s, compute, i / 2, i % 2);
    weight_pack(cx, compute, p.n, p.k, w + p.at, p.in_out, (char *)packed + p.panel_at);
  }
}

Status latent_ready(const Ctx *cx, const LatentShape *s, const Tensor *w, char **packed) {
  const Compute compute = weight_compute(w);
  const Panels *p = w->prepared;
  *packed = p ? p->forward : arena_alloc(cx->arena, latent_panel_bytes(s, compute));
  if (!*packed) return fail(GRPO_ENOMEM, "latent attention: no memory to pack a weight");
  if (!p) latent_pack(cx, s, compute, w->data, *packed);
  return GRPO_OK;
}
