#include "model/frozen.h"

#include "base/mem.h"
#include "model/layout.h"
#include "model/panels.h"

Status frozen_quantise(Model *m, int i, QuantType type) {
  Param *p = &m->param[i];
  int n, k;
  param_outputs_inputs(p, &n, &k);
  try(quant_new(&m->quant[i], type, n, k));
  p->t.quant = m->quant[i];
  return GRPO_OK;
}

bool frozen_any(const Model *m) {
  for (int i = 0; i < m->nparams; i++)
    if (m->param[i].t.quant) return true;
  return false;
}

/* ---- packed in place ----------------------------------------------------------------------- */

bool frozen_packs_in_place(const Model *m, int i) {
  return layout_is_matrix(m, i) && panels_has(m, &m->param[i].t) && !m->param[i].in_out;
}

bool frozen_is_packed_in_place(const Model *m) {
  for (int i = 0; i < m->nparams; i++)
    if (m->param[i].t.quant && m->param[i].t.quant->borrowed) return true;
  return false;
}

static Status pack_all(const Ctx *cx, Model *m) {
  for (int i = 0; i < m->nparams; i++) {
    Tensor *t = &m->param[i].t;
    if (!frozen_packs_in_place(m, i)) continue;
    try(quant_pack_in_place(cx, &m->quant[i], t->dim[0], t->dim[1], t->data));
    t->quant = m->quant[i];
    t->data = NULL;
  }
  return GRPO_OK;
}

/* Where somebody else holds the model too, tensors of a script may show its weights. */
Status frozen_pack_in_place(Model *m) {
  if (m->shared || m->views || m->refs > 1 || m->trainable || m->compute != COMPUTE_F32 ||
      frozen_any(m))
    return GRPO_OK;
  Arena arena = {0};
  panel_cache_free(&m->panels);
  Status s = pack_all(&(Ctx){.pool = m->pool, .arena = &arena, .cpu = m->cpu}, m);
  arena_free(&arena);
  if (s == GRPO_OK) s = panels_allocate(m);
  return s;
}

static Status unpack_in_place(Model *m) {
  Arena arena = {0};
  const Ctx cx = {.pool = m->pool, .arena = &arena, .cpu = m->cpu};
  Status s = GRPO_OK;
  for (int i = 0; i < m->nparams && s == GRPO_OK; i++) {
    Tensor *t = &m->param[i].t;
    if (!t->quant || !t->quant->borrowed) continue;
    real *w = t->quant->data;
    s = quant_unpack_in_place(&cx, m->quant[i]);
    if (s != GRPO_OK) break;
    t->quant = m->quant[i] = NULL;
    t->data = w;
  }
  arena_free(&arena);
  return s == GRPO_OK ? panels_allocate(m) : s;
}

/* ---- memory ---------------------------------------------------------------------- */

bool frozen_block(const Model *m, int i, FrozenBlock *out) {
  *out = (FrozenBlock){0};
  if (!m->lora || i >= m->nparams + 2) return false;
  const QuantWeight *q = i < m->nparams ? m->quant[i] : NULL;
  if (q && !q->borrowed) *out = (FrozenBlock){q->data, quant_data_bytes(q)};
  if (i == m->nparams) *out = (FrozenBlock){m->weights, m->weight_reals * sizeof *m->weights};
  if (i == m->nparams + 1) *out = (FrozenBlock){m->panels.memory, m->panels.bytes};
  return true;
}

/* ---- back to float32 ------------------------------------------------------------------------ */

static void adopt_wide(Model *m, real *wide) {
  size_t at = 0;
  for (int i = 0; i < m->nparams; i++) {
    Tensor *t = &m->param[i].t;
    quant_free(m->quant[i]);
    m->quant[i] = NULL;
    t->quant = NULL;
    t->data = wide + at;
    at += param_room(&m->param[i]);
  }
  mem_free_aligned(m->weights);
  m->weights = wide;
  m->weight_reals = at;
  m->storage = STORE_F32;
}

Status frozen_widen(Model *m) {
  const Ctx cx = {.pool = m->pool, .cpu = m->cpu};
  size_t at = 0, n = 0;
  if (!frozen_any(m)) return GRPO_OK;
  if (m->shared || m->views)
    return fail(GRPO_EARG, "model: its weights are shared with a frozen view (a reference)");
  if (frozen_is_packed_in_place(m)) return unpack_in_place(m);
  for (int i = 0; i < m->nparams; i++) n += param_room(&m->param[i]);
  real *wide = mem_alloc_aligned(n * sizeof *wide);
  if (!wide)
    return fail(GRPO_ENOMEM, "model: no memory for %zu MiB of weights", n * sizeof(real) >> 20);
  for (int i = 0; i < m->nparams; i++) {
    const Status s = param_values(&cx, &m->param[i], wide + at);
    if (s != GRPO_OK) {
      mem_free_aligned(wide);
      return s;
    }
    at += param_room(&m->param[i]);
  }
  adopt_wide(m, wide);
  return panels_allocate(m);
}
