#include "model/lora_weights.h"

#include <string.h>

#include "base/mem.h"
#include "grad/attrs.h"

Status lora_weights_tables(Lora *l, int nmodules, int nslots) {
  const size_t n = 2 * (size_t)nmodules;
  l->nmodules = nmodules;
  l->nslots = nslots;
  l->module = mem_zalloc((size_t)nmodules * sizeof *l->module);
  l->at = mem_zalloc((size_t)nslots * sizeof *l->at);
  l->param = mem_zalloc(n * sizeof *l->param);
  l->by_name = mem_alloc(n * sizeof *l->by_name);
  l->names = mem_alloc(n * LORA_NAME_BYTES);
  if (!l->module || !l->at || !l->param || !l->by_name || !l->names)
    return fail(GRPO_ENOMEM, "adapter: no memory for a table of %zu parameters", n);
  return GRPO_OK;
}

/* A of an embedding is looked up and needs no panels. */
static PanelWeight weight_at(const void *owner, int i) {
  const Lora *l = owner;
  Param *p = &l->param[i];
  return (PanelWeight){.w = &p->t, .wanted = !l->embedding || p != l->embedding->a};
}

static PanelWeights weights_of(const Lora *l) {
  return (PanelWeights){"adapter", l, l->nparams, weight_at};
}

Status lora_weights_allocate(Lora *l) {
  size_t at = 0;
  double numbers = 0;
  for (int i = 0; i < l->nparams; i++)
    numbers += (double)l->param[i].t.dim[0] * l->param[i].t.dim[1];
  if (!mem_fits(2 * sizeof(real) * numbers))
    return fail(GRPO_ENOMEM, "adapter: no memory for %.4g weights", numbers);
  for (int i = 0; i < l->nparams; i++) l->reals += param_padded(l->param[i].t.n);
  l->weights = mem_alloc_aligned(l->reals * sizeof *l->weights);
  if (!l->weights)
    return fail(GRPO_ENOMEM, "adapter: no memory for %zu MiB of weights",
                l->reals * sizeof(real) >> 20);
  mem_zero(l->weights, l->reals * sizeof *l->weights);
  for (int i = 0; i < l->nparams; i++) {
    l->param[i].t.data = l->weights + at;
    at += param_padded(l->param[i].t.n);
  }
  return panel_cache_allocate(&l->panels, NULL, weights_of(l));
}

/* Fills the tables with the modules of `from`; their a and b are l's own parameters. */
static void copy_modules(Lora *l, const Lora *from) {
  for (int i = 0; i < from->nparams; i++) {
    char *name = l->names + (size_t)i * LORA_NAME_BYTES;
    memcpy(name, from->names + (size_t)i * LORA_NAME_BYTES, LORA_NAME_BYTES);
    l->param[i] = (Param){.name = name, .t = tensor_view(NULL, 2, from->param[i].t.dim)};
  }
  l->nparams = from->nparams;
  for (int i = 0; i < from->nmodules; i++) {
    l->module[i] = from->module[i];
    l->module[i].a = &l->param[2 * i];
    l->module[i].b = &l->param[2 * i + 1];
  }
  for (int i = 0; i < from->nslots; i++)
    if (from->at[i]) l->at[i] = l->module + (from->at[i] - from->module);
  if (from->embedding) l->embedding = l->module + (from->embedding - from->module);
  if (from->head) l->head = l->module + (from->head - from->module);
  param_names_sort(l->by_name, l->param, l->nparams);
}

static Status copy_into(Lora *l, const Lora *from) {
  l->config = mem_strdup(from->config);
  if (!l->config) return fail(GRPO_ENOMEM, "adapter: no memory for a copy");
  try(lora_weights_tables(l, from->nmodules, from->nslots));
  copy_modules(l, from);
  try(lora_weights_allocate(l));
  mem_copy(l->weights, from->weights, from->reals * sizeof *l->weights);
  return GRPO_OK;
}

Status lora_weights_copy(Lora **out, const Lora *from) {
  Lora *l = mem_zalloc(sizeof *l);
  if (!l) return fail(GRPO_ENOMEM, "adapter: no memory for a copy");
  *l = (Lora){.rank = from->rank, .dropout = from->dropout};
  const Status s = copy_into(l, from);
  if (s == GRPO_OK)
    *out = l;
  else
    lora_weights_free(l);
  return s;
}

void lora_weights_free(Lora *l) {
  while (l) {
    Lora *dropped = l->dropped;
    mem_free(l->config);
    mem_free(l->module);
    mem_free(l->at);
    mem_free(l->param);
    mem_free(l->by_name);
    mem_free(l->names);
    mem_free_aligned(l->weights);
    mem_free_aligned(l->grads);
    panel_cache_free(&l->panels);
    mem_free(l);
    l = dropped;
  }
}

Status lora_weights_set_trainable(Lora *l, bool on) {
  size_t at = 0;
  if (on && !l->grads) {
    l->grads = mem_alloc_aligned(l->reals * sizeof *l->grads);
    if (!l->grads)
      return fail(GRPO_ENOMEM, "adapter: no memory for %zu MiB of gradients",
                  l->reals * sizeof(real) >> 20);
  } else if (!on) {
    mem_free_aligned(l->grads);
    l->grads = NULL;
  }
  for (int i = 0; i < l->nparams; i++) {
    Param *p = &l->param[i];
    p->trainable = p->t.needs_grad = on;
    p->t.grad = on ? l->grads + at : NULL;
    at += param_padded(p->t.n);
  }
  return GRPO_OK;
}

Status lora_weights_pack(Lora *l, const Ctx *cx) {
  return panel_cache_renew(&l->panels, cx, weights_of(l));
}

int lora_weights_index(const Lora *l, const char *name) {
  return param_names_find(l->by_name, l->nparams, name);
}

Status lora_attributes(Tape *t, const Lora *l, const LoraModule *mod, const RngKey *key, Attr *a) {
  a->f[0] = mod->scale;
  if (!key || l->dropout == 0) return GRPO_OK;
  LoraDropout *d = arena_alloc(&t->arena, sizeof *d);
  if (!d) return fail(GRPO_ENOMEM, "adapter: no memory for its dropout");
  *d = (LoraDropout){l->dropout, *key};
  d->key.stream = RNG_DROPOUT;
  d->key.sample = key->sample << 20 | mod->id;
  a->p = d;
  return GRPO_OK;
}
