#include "grad/panel_cache.h"

#include "base/mem.h"
#include "kern/dispatch.h"

enum { LINE_BYTES = 64 };

static size_t whole_lines(size_t bytes) {
  return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

static size_t forward_bytes(const PanelWeight *p) {
  if (!p->wanted) return 0;
  const int n = weight_outputs(p->w, p->in_out), k = weight_inputs(p->w, p->in_out);
  return whole_lines(p->heads.heads ? latent_panel_bytes(&p->heads, p->compute)
                                    : weight_panel_bytes(p->compute, n, k));
}

/* Rows of float32 [out, in] serve as they are; bf16 would have to be transposed for each unit. */
static size_t transposed_bytes(const PanelWeight *p, const KernelClass *cpu) {
  if (!p->wanted || !p->trained || p->heads.heads) return 0;
  if (p->compute == COMPUTE_BF16 ? !kern_bf16(cpu) : !p->in_out) return 0;
  const int n = weight_outputs(p->w, p->in_out), k = weight_inputs(p->w, p->in_out);
  return whole_lines(weight_panel_bytes(p->compute, k, n));
}

size_t panel_cache_bytes(const KernelClass *cpu, PanelWeights of) {
  size_t bytes = 0;
  for (int i = 0; i < of.n; i++) {
    const PanelWeight p = of.at(of.owner, i);
    bytes += forward_bytes(&p) + transposed_bytes(&p, cpu);
  }
  return bytes;
}

static void place(PanelCache *c, const KernelClass *cpu, PanelWeights of) {
  char *at = c->memory;
  for (int i = 0; i < of.n; i++) {
    const PanelWeight p = of.at(of.owner, i);
    const size_t forward = forward_bytes(&p), transposed = transposed_bytes(&p, cpu);
    c->panels[i] = (Panels){at, transposed ? at + forward : NULL};
    p.w->compute = p.compute;
    p.w->prepared = forward ? &c->panels[i] : NULL;
    at += forward + transposed;
  }
}

Status panel_cache_allocate(PanelCache *c, const KernelClass *cpu, PanelWeights of) {
  const size_t bytes = panel_cache_bytes(cpu, of);
  panel_cache_free(c);
  c->panels = mem_alloc((size_t)of.n * sizeof *c->panels);
  c->memory = mem_alloc_aligned(bytes);
  if (!c->panels || !c->memory)
    return fail(GRPO_ENOMEM, "%s: no memory for %zu MiB of panels", of.where, bytes >> 20);
  place(c, cpu, of);
  c->bytes = bytes;
  c->of = kern_name(cpu);
  c->stale = true;
  return GRPO_OK;
}

static void pack(const Ctx *cx, const PanelWeight *p, const Panels *to) {
  const int n = weight_outputs(p->w, p->in_out), k = weight_inputs(p->w, p->in_out);
  if (p->heads.heads)
    latent_pack(cx, &p->heads, p->compute, p->w->data, to->forward);
  else
    weight_pack(cx, p->compute, n, k, p->w->data, p->in_out, to->forward);
  if (to->transposed) weight_pack(cx, p->compute, k, n, p->w->data, !p->in_out, to->transposed);
}

Status panel_cache_renew(PanelCache *c, const Ctx *cx, PanelWeights of) {
  if (c->of != kern_name(cx->cpu)) try(panel_cache_allocate(c, cx->cpu, of));
  if (!c->stale) return GRPO_OK;
  for (int i = 0; i < of.n; i++) {
    const PanelWeight p = of.at(of.owner, i);
    if (p.wanted) pack(cx, &p, &c->panels[i]);
  }
  c->stale = false;
  return GRPO_OK;
}

void panel_cache_free(PanelCache *c) {
  mem_free(c->panels);
  mem_free_aligned(c->memory);
  *c = (PanelCache){0};
}
