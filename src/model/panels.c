#include "model/panels.h"

#include "base/mem.h"
#include "kern/dispatch.h"
#include "kern/gemm.h"
#include "kern/gemm_bf16.h"
#include "model/layer_kind.h"

enum { LINE_BYTES = 64 };

/* An embedding has panels only where it is the output projection too. */
bool panels_has(const Model *m, const Tensor *t) {
  return !t->quant && t->ndim == 2 && t != m->t[M_POSITION] &&
         (t != m->t[M_EMBED] || t == m->t[M_HEAD]);
}

static size_t whole_lines(size_t bytes) {
  return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

/* Backward reads the transposed weight.  Rows of float32 [out, in] serve as they are; bf16 would
 * have to be transposed for each unit. */
size_t panels_transposed_bytes(const Model *m, const KernelClass *cpu, int i) {
  const Param *p = &m->param[i];
  int n, k;
  if (!panels_has(m, &p->t) || p->by_head) return 0;
  param_outputs_inputs(p, &n, &k);
  if (m->compute == COMPUTE_BF16)
    return kern_bf16(cpu) ? whole_lines(gemm_bf16_packed_size(k, n) * sizeof(uint16_t)) : 0;
  return p->in_out ? whole_lines(gemm_packed_size(k, n) * sizeof(real)) : 0;
}

size_t panels_bytes(const Model *m, int i) {
  const Param *p = &m->param[i];
  int n, k;
  if (!panels_has(m, &p->t)) return 0;
  param_outputs_inputs(p, &n, &k);
  const LatentShape s = layer_latent_shape(&m->config);
  const size_t numbers = p->by_head                   ? latent_panels(&s, m->compute)
                         : m->compute == COMPUTE_BF16 ? gemm_bf16_packed_size(n, k)
                                                      : gemm_packed_size(n, k);
  return whole_lines(numbers * (m->compute == COMPUTE_BF16 ? sizeof(uint16_t) : sizeof(real)));
}

static void place_panels(const Model *m, int i, void *panels, void *transposed) {
  Tensor *t = &m->param[i].t;
  const bool bf16 = m->compute == COMPUTE_BF16;
  t->compute = m->compute;
  t->packed = bf16 ? NULL : panels;
  t->packed_bf16 = bf16 ? panels : NULL;
  t->transposed = bf16 ? NULL : transposed;
  t->transposed_bf16 = bf16 ? transposed : NULL;
}

static size_t transposed_bytes(const Model *m, const KernelClass *cpu, int i) {
  return m->trainable && !m->lora ? panels_transposed_bytes(m, cpu, i) : 0;
}

void panels_free(Model *m) {
  mem_free_aligned(m->panels);
  m->panels = NULL;
  m->panels_of = NULL;
}

Status panels_allocate(Model *m, const KernelClass *cpu) {
  size_t at = 0, n = 0;
  for (int i = 0; i < m->nparams; i++) n += panels_bytes(m, i) + transposed_bytes(m, cpu, i);
  panels_free(m);
  m->panels = mem_alloc_aligned(n);
  if (!m->panels) return fail(GRPO_ENOMEM, "model: no memory for %zu MiB of panels", n >> 20);
  for (int i = 0; i < m->nparams; i++) {
    const size_t size = panels_bytes(m, i), transposed = transposed_bytes(m, cpu, i);
    char *panels = (char *)m->panels + at;
    place_panels(m, i, size ? panels : NULL, transposed ? panels + size : NULL);
    at += size + transposed;
  }
  m->panels_of = kern_name(cpu);
  m->stale = true;
  return GRPO_OK;
}

Status panels_renew(Model *m, const Ctx *cx) {
  if (m->lora) try(lora_weights_pack(m->lora, cx));
  if (m->shared) return panels_renew(m->shared, cx);
  if (m->panels_of != kern_name(cx->cpu)) try(panels_allocate(m, cx->cpu));
  if (!m->stale) return GRPO_OK;
  const LatentShape latent = layer_latent_shape(&m->config);
  for (int i = 0; i < m->nparams; i++) {
    const Param *p = &m->param[i];
    int n, k;
    if (p->by_head) {
      latent_pack(cx, &latent, p->t.data, p->t.packed, p->t.packed_bf16);
      continue;
    }
    param_outputs_inputs(p, &n, &k);
    if (p->t.packed) gemm_pack(cx, n, k, p->t.data, p->in_out, p->t.packed);
    if (p->t.packed_bf16) gemm_bf16_pack(cx, n, k, p->t.data, p->in_out, p->t.packed_bf16);
    if (p->t.transposed) gemm_pack(cx, k, n, p->t.data, !p->in_out, p->t.transposed);
    if (p->t.transposed_bf16) gemm_bf16_pack(cx, k, n, p->t.data, !p->in_out, p->t.transposed_bf16);
  }
  m->stale = false;
  return GRPO_OK;
}
