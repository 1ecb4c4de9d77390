#include "grad/value_optimizer.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "kern/elementwise.h"

typedef struct Slot {
  void *memory;   /* of the moments; NULL: before the first step with a gradient */
  uint64_t steps; /* with a gradient */
  bool decay;
} Slot;

struct ValueOptimizer {
  OptimizerKind kind;
  AdamWOptions o;
  MomentMaps *maps; /* of moments in 8 bits; NULL: none */
  size_t n;
  Value **value; /* [n] held */
  Slot *slot;    /* [n] */
};

static bool has_grad(const Tensor *t) { return t->grad && t->grad_live; }

static Status make_maps(ValueOptimizer *a) {
  if (a->kind != OPTIMIZER_ADAMW_8BIT) return GRPO_OK;
  a->maps = mem_zalloc(sizeof *a->maps);
  if (!a->maps) return fail(GRPO_ENOMEM, "optimizer: no memory for the maps of 8 bits");
  moment8_map_init(&a->maps->with_sign, true);
  moment8_map_init(&a->maps->without_sign, false);
  return GRPO_OK;
}

static Status hold(ValueOptimizer *a, size_t n, Value *const *v, const bool *decay) {
  try(make_maps(a));
  a->value = mem_zalloc((n + 1) * sizeof(Value *));
  a->slot = mem_zalloc((n + 1) * sizeof *a->slot);
  if (!a->value || !a->slot) return fail(GRPO_ENOMEM, "optimizer: no memory for %zu tensors", n);
  for (a->n = 0; a->n < n; a->n++) {
    a->value[a->n] = value_retain(v[a->n]);
    a->slot[a->n].decay = !decay || decay[a->n];
  }
  return GRPO_OK;
}

Status value_optimizer_new(ValueOptimizer **out, OptimizerKind kind, const AdamWOptions *o,
                           size_t n, Value *const *v, const bool *decay) {
  for (size_t i = 0; i < n; i++)
    if (!value_tensor(v[i])->needs_grad)
      return fail(GRPO_EARG, "optimizer: tensor %zu needs no gradient; make it with requires_grad",
                  i + 1);
  ValueOptimizer *a = mem_zalloc(sizeof *a);
  if (!a) return fail(GRPO_ENOMEM, "optimizer");
  a->kind = kind;
  a->o = *o;
  const Status s = hold(a, n, v, decay);
  if (s != GRPO_OK) {
    value_optimizer_free(a);
    return s;
  }
  *out = a;
  return GRPO_OK;
}

void value_optimizer_free(ValueOptimizer *a) {
  if (!a) return;
  for (size_t i = 0; i < a->n; i++) {
    value_release(a->value[i]);
    mem_free_aligned(a->slot[i].memory);
  }
  mem_free(a->value);
  mem_free(a->slot);
  mem_free(a->maps);
  mem_free(a);
}

size_t value_optimizer_count(const ValueOptimizer *a) { return a->n; }

static Status want_moments(OptimizerKind kind, Slot *s, size_t n) {
  if (s->memory) return GRPO_OK;
  const size_t bytes = moments_bytes(kind, n);
  s->memory = mem_alloc_aligned(bytes);
  if (!s->memory)
    return fail(GRPO_ENOMEM, "optimizer: no memory for the moments of %zu numbers", n);
  memset(s->memory, 0, bytes);
  return GRPO_OK;
}

static Status step_one(ValueOptimizer *o, const Ctx *cx, Tensor *t, Slot *s, double lr) {
  if (!has_grad(t)) return GRPO_OK;
  try(want_moments(moments_kind(o->kind, t->n), s, t->n));
  AdamW a = adamw_at(&o->o, ++s->steps, lr, 0, 0);
  if (!s->decay) a.weight_decay = 0;
  moments_step(cx, moments_kind(o->kind, t->n), o->maps, t->n, t->data, t->grad, s->memory, &a);
  return GRPO_OK;
}

Status value_optimizer_step(ValueOptimizer *a, const Ctx *cx, double lr) {
  if (!(lr >= 0 && lr < (double)INFINITY))
    return fail(GRPO_EARG, "optimizer: the learning rate is %g, want a number from 0", lr);
  for (size_t i = 0; i < a->n; i++)
    try(step_one(a, cx, value_tensor(a->value[i]), &a->slot[i], lr));
  return GRPO_OK;
}

void value_optimizer_zero_grad(ValueOptimizer *a) {
  for (size_t i = 0; i < a->n; i++) {
    Tensor *t = value_tensor(a->value[i]);
    t->grad_live = false;
    if (t->grad) memset(t->grad, 0, t->n * sizeof(real));
  }
}

double values_grad_norm(const Ctx *cx, size_t n, Value *const *v) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    const Tensor *t = value_tensor(v[i]);
    if (has_grad(t)) sum += vec_sumsq(cx, t->n, t->grad);
  }
  return sqrt(sum);
}

void values_clip(size_t n, Value *const *v, double norm, double max) {
  const double scale = max / (norm + 1e-6);
  for (size_t i = 0; i < n && scale < 1; i++) {
    Tensor *t = value_tensor(v[i]);
    if (has_grad(t))
      for (size_t k = 0; k < t->n; k++) t->grad[k] *= (real)scale;
  }
}

double value_optimizer_clip(ValueOptimizer *a, const Ctx *cx, double max) {
  const double norm = values_grad_norm(cx, a->n, a->value);
  if (max > 0) values_clip(a->n, a->value, norm, max);
  return norm;
}
