#include "grad/adamw.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "kern/elementwise.h"

static const Option option_rows[] = {
#define OPTIONS_OF AdamWOptions
#include "base/option_rows.h"
#include "grad/adamw.def"
};

const OptionSet adamw_option_set = OPTION_SET("train.optimizer.", option_rows);

void adamw_options_init(AdamWOptions *o) { options_init_rows(&adamw_option_set, o); }

AdamW adamw_at(const AdamWOptions *o, uint64_t step, double lr, double max_norm, double norm) {
  const double t = (double)step, clip = max_norm > 0 ? max_norm / (norm + 1e-6) : 1;
  return (AdamW){.lr = lr,
                 .beta1 = o->beta1,
                 .beta2 = o->beta2,
                 .eps = o->eps,
                 .weight_decay = o->weight_decay,
                 .bias1 = 1 - pow(o->beta1, t),
                 .bias2 = 1 - pow(o->beta2, t),
                 .grad_scale = clip < 1 ? clip : 1};
}

typedef struct Slot {
  real *m, *v;    /* moments */
  uint64_t steps; /* with a gradient */
  bool decay;
} Slot;

struct ValueAdamW {
  AdamWOptions o;
  size_t n;
  Value **value; /* [n] held */
  Slot *slot;    /* [n] */
};

static bool has_grad(const Tensor *t) { return t->grad && t->grad_live; }

Status value_adamw_new(ValueAdamW **out, const AdamWOptions *o, size_t n, Value *const *v,
                       const bool *decay) {
  for (size_t i = 0; i < n; i++)
    if (!value_tensor(v[i])->needs_grad)
      return fail(GRPO_EARG, "adamw: tensor %zu needs no gradient; make it with requires_grad",
                  i + 1);
  ValueAdamW *a = mem_zalloc(sizeof *a);
  if (!a) return fail(GRPO_ENOMEM, "adamw");
  a->o = *o;
  a->value = mem_zalloc((n + 1) * sizeof(Value *));
  a->slot = mem_zalloc((n + 1) * sizeof *a->slot);
  if (!a->value || !a->slot) {
    value_adamw_free(a);
    return fail(GRPO_ENOMEM, "adamw: no memory for %zu tensors", n);
  }
  for (a->n = 0; a->n < n; a->n++) {
    a->value[a->n] = value_retain(v[a->n]);
    a->slot[a->n].decay = !decay || decay[a->n];
  }
  *out = a;
  return GRPO_OK;
}

void value_adamw_free(ValueAdamW *a) {
  if (!a) return;
  for (size_t i = 0; i < a->n; i++) {
    value_release(a->value[i]);
    mem_free_aligned(a->slot[i].m);
    mem_free_aligned(a->slot[i].v);
  }
  mem_free(a->value);
  mem_free(a->slot);
  mem_free(a);
}

size_t value_adamw_count(const ValueAdamW *a) { return a->n; }

static Status want_moments(Slot *s, size_t n) {
  if (s->m) return GRPO_OK;
  s->m = mem_alloc_aligned(n * sizeof(real));
  s->v = mem_alloc_aligned(n * sizeof(real));
  if (!s->m || !s->v) {
    mem_free_aligned(s->m);
    mem_free_aligned(s->v);
    s->m = s->v = NULL;
    return fail(GRPO_ENOMEM, "adamw: no memory for the moments of %zu numbers", n);
  }
  memset(s->m, 0, n * sizeof(real));
  memset(s->v, 0, n * sizeof(real));
  return GRPO_OK;
}

static Status step_one(const Ctx *cx, const AdamWOptions *o, Tensor *t, Slot *s, double lr) {
  if (!has_grad(t)) return GRPO_OK;
  try(want_moments(s, t->n));
  AdamW a = adamw_at(o, ++s->steps, lr, 0, 0);
  if (!s->decay) a.weight_decay = 0;
  adamw_step(cx, t->n, t->data, t->grad, s->m, s->v, &a);
  return GRPO_OK;
}

Status value_adamw_step(ValueAdamW *a, const Ctx *cx, double lr) {
  if (!(lr >= 0 && lr < (double)INFINITY))
    return fail(GRPO_EARG, "adamw: the learning rate is %g, want a number from 0", lr);
  for (size_t i = 0; i < a->n; i++)
    try(step_one(cx, &a->o, value_tensor(a->value[i]), &a->slot[i], lr));
  return GRPO_OK;
}

void value_adamw_zero_grad(ValueAdamW *a) {
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

double value_adamw_clip(ValueAdamW *a, const Ctx *cx, double max) {
  const double norm = values_grad_norm(cx, a->n, a->value);
  if (max > 0) values_clip(a->n, a->value, norm, max);
  return norm;
}
