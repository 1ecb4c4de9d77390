#include "model/model.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kern/kv.h"
#include "kern/random_normal.h"
#include "model/config_check.h"
#include "model/frozen.h"
#include "model/layer_kind.h"
#include "model/layout.h"
#include "model/panels.h"

/* ---- making ---------------------------------------------------------------------------- */

Status model_layout(Model **out, Pool *pool, const Config *c) {
  try(config_check(c, "model"));
  Model *m = mem_zalloc(sizeof *m);
  if (!m) return fail(GRPO_ENOMEM, "model: no memory for it");
  *m = (Model){.refs = 1, .pool = pool, .config = *c};
  const Status s = layout_params(m);
  if (s == GRPO_OK)
    *out = m;
  else
    model_release(m);
  return s;
}

/* Reals that a parameter takes of the model's memory for weights. */
static size_t own_reals(const Param *p) {
  return p->t.quant && !p->t.quant->borrowed ? 0 : param_room(p);
}

Status model_allocate(Model *m) {
  size_t at = 0;
  m->weight_reals = 0;
  for (int i = 0; i < m->nparams; i++) m->weight_reals += own_reals(&m->param[i]);
  m->weights = mem_alloc_aligned(m->weight_reals * sizeof *m->weights);
  if (!m->weights)
    return fail(GRPO_ENOMEM, "model: no memory for %zu MiB of weights",
                m->weight_reals * sizeof(real) >> 20);
  for (int i = 0; i < m->nparams; i++) {
    if (!m->param[i].t.quant) m->param[i].t.data = m->weights + at;
    at += own_reals(&m->param[i]);
  }
  try(rope_new(&m->rope));
  return panels_allocate(m);
}

static void destroy(Model *m) {
  lora_weights_free(m->lora);
  lora_weights_free(m->dropped);
  if (m->shared) { /* everything else belongs to the shared model */
    m->shared->views--;
    model_release(m->shared);
    mem_free(m);
    return;
  }
  for (int i = 0; m->quant && i < m->nparams; i++) quant_free(m->quant[i]);
  mem_free(m->quant);
  mem_free_aligned(m->weights);
  mem_free_aligned(m->grads);
  panel_cache_free(&m->panels);
  rope_free(m->rope);
  mem_free(m->param);
  mem_free(m->by_name);
  mem_free(m->names);
  mem_free(m->layer);
  mem_free(m->experts);
  mem_free(m);
}

Model *model_retain(Model *m) {
  m->refs++;
  return m;
}

void model_release(Model *m) {
  if (m && --m->refs == 0) destroy(m);
}

Status model_view(Model **out, const Model *of) {
  Model *root = of->shared ? of->shared : (Model *)(uintptr_t)of, *m = mem_alloc(sizeof *m);
  if (!m) return fail(GRPO_ENOMEM, "model: no memory for it");
  *m = *root;
  m->refs = 1;
  m->views = 0;
  m->shared = model_retain(root);
  m->lora = m->dropped = NULL;
  m->trainable = m->checkpointing = false;
  root->views++;
  *out = m;
  return GRPO_OK;
}

static void initialise(Model *m, uint64_t seed) {
  const Config *c = &m->config;
  const Traits traits = config_traits(c);
  const double residual = traits & TRAIT_CONV1D ? 1 / sqrt(2.0 * c->num_hidden_layers) : 1;
  const real norm = traits & TRAIT_PLUS_ONE ? 0 : 1;
  for (int i = 0; i < m->nparams; i++) {
    Param *p = &m->param[i];
    if (p->is_bias || p->is_norm) {
      const real is_one = p->saved_f32 ? 1 : norm; /* no 1 is added to these (layout.c) */
      for (size_t k = 0; k < p->t.n; k++) p->t.data[k] = p->is_bias ? 0 : is_one;
      continue;
    }
    const RngKey key = {.seed = seed, .stream = RNG_INIT, .prompt = (uint32_t)i};
    const double std = c->initializer_range * (strstr(p->name, "c_proj") ? residual : 1);
    random_normal(&(Ctx){.pool = m->pool, .cpu = m->cpu}, &key, p->t.n, std, p->t.data);
  }
}

Status model_new(Model **out, Pool *pool, const Config *c, uint64_t seed) {
  Model *m;
  try(model_layout(&m, pool, c));
  Status s = model_allocate(m);
  if (s != GRPO_OK) {
    model_release(m);
    return s;
  }
  initialise(m, seed);
  *out = m;
  return GRPO_OK;
}

/* ---- settings ---------------------------------------------------------------------------- */

/* With an adapter only A and B can have changed. */
void model_updated(Model *m) {
  m->version++;
  if (m->lora)
    m->lora->panels.stale = true;
  else
    m->panels.stale = true;
}

uint64_t model_version(const Model *m) {
  return 1 + m->version + (m->shared ? m->shared->version : 0);
}

const char *compute_name(Compute c) { return c == COMPUTE_BF16 ? "bf16" : "f32"; }

Compute model_compute(const Model *m) { return m->compute; }

Status model_set_compute(Model *m, Compute compute) {
  if (compute == m->compute) return GRPO_OK;
  if (m->shared || m->views)
    return fail(GRPO_EARG, "model: its weights are shared with a frozen view (a reference)");
  const Compute was = m->compute;
  m->compute = compute;
  const Status s = panels_allocate(m);
  if (s == GRPO_OK)
    m->version++;
  else
    m->compute = was;
  return s;
}

void model_set_kernels(Model *m, const KernelClass *cpu) { m->cpu = cpu; }

void model_set_backend(Model *m, const Backend *backend) { m->backend = backend; }

Status model_tape(const Model *m, Tape *t) {
  try(tape_init(t, m->pool));
  t->cx.cpu = m->cpu;
  t->cx.backend = m->backend;
  return GRPO_OK;
}

/* Panels of transposed weights come or go.  On failure nothing has changed. */
static Status set_training(Model *m, bool on) {
  m->trainable = on;
  const Status s = panels_fit(m);
  if (s != GRPO_OK) m->trainable = !on;
  return s;
}

Status model_set_trainable(Model *m, bool on) {
  if (on == m->trainable) return GRPO_OK;
  size_t at = 0;
  real *grads = NULL;
  if (m->lora) {
    try(lora_weights_set_trainable(m->lora, on));
    m->trainable = on;
    model_zero_grad(m);
    return GRPO_OK;
  }
  if (m->shared)
    return fail(GRPO_EARG, "model: a frozen view shares its weights; it cannot be trained");
  if (on && frozen_is_packed_in_place(m)) try(frozen_widen(m));
  if (on && frozen_any(m))
    return fail(GRPO_EARG, "model: its weights are quantised and cannot be trained; load with "
                           "dtype = \"f32\", or add an adapter");
  if (on) grads = mem_alloc_aligned(m->weight_reals * sizeof *grads);
  if (on && !grads)
    return fail(GRPO_ENOMEM, "model: no memory for %zu MiB of gradients",
                m->weight_reals * sizeof(real) >> 20);
  const Status s = set_training(m, on);
  if (s != GRPO_OK) {
    mem_free_aligned(grads);
    return s;
  }
  mem_free_aligned(m->grads);
  m->grads = grads;
  for (int i = 0; i < m->nparams; i++) {
    Tensor *t = &m->param[i].t;
    m->param[i].trainable = t->needs_grad = on && !m->param[i].is_buffer;
    t->grad = on ? m->grads + at : NULL;
    at += param_room(&m->param[i]);
  }
  model_zero_grad(m);
  return GRPO_OK;
}

Status model_reserve_positions(Model *m, int positions) {
  return rope_reserve(m->rope, &m->config, positions);
}

void model_set_checkpointing(Model *m, bool on) { m->checkpointing = on; }

void model_set_mask(Model *m, int id) {
  m->config.denoiser = id >= 0;
  m->config.mask_token_id = id >= 0 ? id : 0;
}

void model_zero_grad(Model *m) {
  Lora *l = m->lora;
  if (l && l->grads) mem_zero(l->grads, l->reals * sizeof *l->grads);
  for (int i = 0; l && i < l->nparams; i++) l->param[i].t.grad_live = false;
  if (l || m->shared) return;
  if (m->grads) mem_zero(m->grads, m->weight_reals * sizeof *m->grads);
  for (int i = 0; i < m->nparams; i++) m->param[i].t.grad_live = false;
}

/* ---- looking in ------------------------------------------------------------------------------ */

size_t model_cache_bytes(const Model *m, bool every_head) {
  const AttnShape s = layer_attention_shape(&m->config, 0, m->compute, m->cpu);
  return layer_cache_reals(&m->config, every_head) *
         (kv_in_bf16(&s) ? sizeof(uint16_t) : sizeof(real));
}

const Config *model_config(const Model *m) { return &m->config; }
int model_num_params(const Model *m) { return m->nparams + (m->lora ? m->lora->nparams : 0); }
Param *model_param(Model *m, int i) {
  return i < m->nparams ? &m->param[i] : &m->lora->param[i - m->nparams];
}

Param *model_next_trainable(Model *m, int *i) {
  while (m && *i < model_num_params(m)) {
    Param *p = model_param(m, (*i)++);
    if (p->trainable) return p;
  }
  return NULL;
}

Param *model_find(Model *m, const char *name) {
  int i = layout_index(m, name);
  if (i >= 0) return &m->param[i];
  i = m->lora ? lora_weights_index(m->lora, name) : -1;
  return i < 0 ? NULL : &m->lora->param[i];
}

static uint64_t count(const Model *m, bool trainable) {
  uint64_t n = 0;
  for (int i = 0; i < model_num_params(m); i++) {
    const Param *p = model_param((Model *)(uintptr_t)m, i);
    if (!trainable || p->trainable) n += p->t.n;
  }
  return n;
}
bool model_trains(const Model *m, int i) {
  return m->lora ? i >= m->nparams : !m->shared && !m->param[i].is_buffer;
}
uint64_t model_count(const Model *m) { return count(m, false); }
/* A view sees the parameters of its owner, but cannot train them. */
uint64_t model_count_trainable(const Model *m) { return m->trainable ? count(m, true) : 0; }
