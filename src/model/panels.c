#include "model/panels.h"

#include "model/layer_kind.h"

/* An embedding has panels only where it is the output projection too. */
bool panels_has(const Model *m, const Tensor *t) {
  return !t->quant && t->ndim == 2 && t != m->t[M_POSITION] && t != m->t[M_OWN_EMBED] &&
         (t != m->t[M_EMBED] || t == m->t[M_HEAD]);
}

static PanelWeight weight_at(const void *owner, int i) {
  const Model *m = owner;
  Param *p = &m->param[i];
  PanelWeight w = {.w = &p->t,
                   .wanted = panels_has(m, &p->t),
                   .in_out = p->in_out,
                   .trained = m->trainable && !m->lora,
                   .compute = m->compute};
  if (p->by_head) w.heads = layer_latent_shape(&m->config);
  return w;
}

static PanelWeights weights_of(const Model *m) {
  return (PanelWeights){"model", m, m->nparams, weight_at};
}

Status panels_allocate(Model *m) { return panel_cache_allocate(&m->panels, m->cpu, weights_of(m)); }

Status panels_fit(Model *m) {
  return panel_cache_bytes(m->cpu, weights_of(m)) == m->panels.bytes ? GRPO_OK : panels_allocate(m);
}

Status panels_renew(Model *m, const Ctx *cx) {
  if (m->lora) try(lora_weights_pack(m->lora, cx));
  if (m->shared) return panels_renew(m->shared, cx);
  return panel_cache_renew(&m->panels, cx, weights_of(m));
}
