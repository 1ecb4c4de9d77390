#include "model/model_copy.h"

#include <string.h>

#include "base/mem.h"
#include "kern/elementwise.h"
#include "model/frozen.h"
#include "model/model_struct.h"

static Status copy_adapter(Model **out, const Model *from) {
  try(model_view(out, from));
  const Status s = lora_weights_copy(&(*out)->lora, from->lora);
  if (s != GRPO_OK) {
    model_release(*out);
    return s;
  }
  (*out)->version++;
  return GRPO_OK;
}

Status model_copy(Model **out, const Model *from) {
  Model *m;
  if (from->lora) return copy_adapter(out, from);
  if (frozen_any(from) && !frozen_is_packed_in_place(from)) return model_view(out, from);
  try(model_layout(&m, from->pool, &from->config));
  m->compute = from->compute;
  m->cpu = from->cpu;
  m->backend = from->backend;
  Status s = model_allocate(m);
  if (s == GRPO_OK) s = model_copy_weights(m, from);
  if (s != GRPO_OK) {
    model_release(m);
    return s;
  }
  *out = m;
  return GRPO_OK;
}

static const Model *owner(const Model *m) { return m->shared ? m->shared : m; }

/* The first parameter that is copied: of two models on the same base only the adapters are. */
static int first_param(const Model *a, const Model *b) {
  return owner(a) == owner(b) ? a->nparams : 0;
}

static Status same_shapes(const Model *a, const Model *b) {
  const int n = model_num_params(a);
  bool shapes = a->nparams == b->nparams, adapters = n == model_num_params(b);
  for (int i = 0; shapes && i < (adapters ? n : a->nparams); i++) {
    const Param *p = model_param((Model *)(uintptr_t)a, i);
    const Param *q = model_param((Model *)(uintptr_t)b, i);
    if (strcmp(p->name, q->name) == 0 && p->t.dim[0] == q->t.dim[0] && p->t.n == q->t.n) continue;
    *(i < a->nparams ? &shapes : &adapters) = false;
  }
  if (shapes && adapters) return GRPO_OK;
  return fail(GRPO_ESHAPE, "model: the two models have different %s",
              shapes ? "adapters" : "shapes");
}

/* Between models on the same base only the adapter changes, which is always possible. */
static Status can_change(const Model *to, const Model *from) {
  if (owner(to) == owner(from)) return GRPO_OK;
  if (!to->shared && (!frozen_any(to) || frozen_is_packed_in_place(to))) return GRPO_OK;
  return fail(GRPO_EARG, "model: %s cannot be changed",
              to->shared ? "a view's weights" : "quantised weights");
}

/* to = alpha from + (1 - alpha) to; alpha = 1 copies the bits. */
static Status mix_param(const Ctx *cx, const Param *from, double alpha, Param *to) {
  const size_t n = to->t.n;
  real *x = NULL, *y = NULL;
  Status s = GRPO_OK;
  if (mem_measuring()) return s; /* there are no values */
  if (from->t.quant) {
    x = mem_alloc_aligned(n * sizeof *x);
    s = x ? param_values(cx, from, x)
          : fail(GRPO_ENOMEM, "model: no memory for %s in float32", from->name);
  }
  if (s == GRPO_OK && alpha < 1 && to->t.quant) {
    y = mem_alloc_aligned(n * sizeof *y);
    s = y ? param_values(cx, to, y)
          : fail(GRPO_ENOMEM, "model: no memory for %s in float32", to->name);
  }
  const real *values = x ? x : from->t.data;
  real *mixed = y ? y : to->t.data;
  if (s == GRPO_OK && alpha < 1) vec_lerp(cx, n, values, (real)alpha, mixed);
  if (s == GRPO_OK && (alpha >= 1 || y)) s = param_set(cx, to, alpha < 1 ? y : values);
  mem_free_aligned(x);
  mem_free_aligned(y);
  return s;
}

static Status mix_params(const Ctx *cx, Model *to, const Model *from, double alpha) {
  try(same_shapes(to, from));
  try(can_change(to, from));
  for (int i = first_param(to, from); i < model_num_params(to); i++)
    try(mix_param(cx, model_param((Model *)(uintptr_t)from, i), alpha, model_param(to, i)));
  model_updated(to);
  return GRPO_OK;
}

Status model_copy_weights(Model *to, const Model *from) {
  return mix_params(&(Ctx){.pool = to->pool, .cpu = to->cpu}, to, from, 1);
}

Status model_copy_lerp(Model *to, const Model *from, double alpha, const Ctx *cx) {
  return mix_params(cx, to, from, alpha);
}
