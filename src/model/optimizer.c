#include "model/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "formats/safetensors.h"
#include "kern/elementwise.h"
#include "model/model_struct.h"

static const char *const moment_name[] = {"exp_avg", "exp_avg_sq"};

struct Optimizer {
  Model *m;
  OptimizerOptions o;
  uint64_t steps;
  uint64_t count;  /* trainable numbers that it was made for */
  real *moment[2]; /* of all trainable parameters, one after the other */
};

void optimizer_options_init(OptimizerOptions *o) {
  *o = (OptimizerOptions){0};
  adamw_options_init(&o->adamw);
}

static size_t num_trainable(const Optimizer *o) {
  size_t n = 0;
  for (int i = 0; model_next_trainable(o->m, &i);) n++;
  return n;
}

/* Moments belong to the parameters that the optimizer was made for: an adapter must not come or
 * go. */
static Status check_model(const Optimizer *o) {
  if (!o->m->trainable) return fail(GRPO_EARG, "optimizer: the model is frozen");
  if (model_count_trainable(o->m) == o->count) return GRPO_OK;
  return fail(GRPO_EARG, "optimizer: the model's trainable parameters are not those it was made "
                         "for; make a new engine after adding or merging an adapter");
}

Status optimizer_new(Optimizer **out, Model *m, const OptimizerOptions *o) {
  const size_t n = (size_t)model_count_trainable(m);
  Optimizer *p = mem_zalloc(sizeof *p);
  if (!p) return fail(GRPO_ENOMEM, "optimizer: no memory for it");
  *p = (Optimizer){.m = m, .o = *o, .count = n};
  for (int i = 0; i < 2; i++) {
    p->moment[i] = mem_alloc_aligned(n * sizeof(real));
    if (!p->moment[i]) {
      optimizer_free(p);
      return fail(GRPO_ENOMEM, "optimizer: no memory for %zu MiB of moments",
                  2 * n * sizeof(real) >> 20);
    }
    memset(p->moment[i], 0, n * sizeof(real));
  }
  *out = p;
  return GRPO_OK;
}

void optimizer_free(Optimizer *o) {
  if (!o) return;
  for (int i = 0; i < 2; i++) mem_free_aligned(o->moment[i]);
  mem_free(o);
}

double optimizer_grad_norm(Optimizer *o, const Ctx *cx) {
  double sum = 0;
  const Param *p;
  for (int i = 0; (p = model_next_trainable(o->m, &i));) sum += vec_sumsq(cx, p->t.n, p->t.grad);
  return sqrt(sum);
}

static bool decays(const Optimizer *o, const Param *p) {
  return !(p->is_bias && !o->o.decay_bias) && !(p->is_norm && !o->o.decay_norm);
}

Status optimizer_step(Optimizer *o, const Ctx *cx, double lr, double max_norm, double norm) {
  try(check_model(o));
  AdamW a = adamw_at(&o->o.adamw, ++o->steps, lr, max_norm, norm);
  size_t at = 0;
  Param *p;
  for (int i = 0; (p = model_next_trainable(o->m, &i));) {
    a.weight_decay = decays(o, p) ? o->o.adamw.weight_decay : 0;
    adamw_step(cx, p->t.n, p->t.data, p->t.grad, o->moment[0] + at, o->moment[1] + at, &a);
    at += p->t.n;
  }
  model_updated(o->m);
  return GRPO_OK;
}

uint64_t optimizer_steps(const Optimizer *o) { return o->steps; }

/* ---- files ------------------------------------------------------------------------- */

enum { NAME_BYTES = 160 };

static Status put_moments(const Optimizer *o, StWriter *w) {
  size_t at = 0;
  const Param *p;
  for (int i = 0; (p = model_next_trainable(o->m, &i)); at += p->t.n)
    for (int k = 0; k < 2; k++) try(st_writer_put(w, o->moment[k] + at, p->t.n));
  return GRPO_OK;
}

static void describe(const Optimizer *o, StEntry *e, char *names) {
  const Param *p;
  for (int i = 0; (p = model_next_trainable(o->m, &i));)
    for (int k = 0; k < 2; k++, e++, names += NAME_BYTES) {
      snprintf(names, NAME_BYTES, "%s.%s", p->name, moment_name[k]);
      *e = (StEntry){.name = names, .type = ST_F32, .ndim = p->t.ndim};
      for (int d = 0; d < p->t.ndim; d++) e->dim[d] = (uint64_t)p->t.dim[d];
    }
}

Status optimizer_save(const Optimizer *o, const char *path) {
  try(check_model(o));
  const size_t n = 2 * num_trainable(o);
  char step[32];
  snprintf(step, sizeof step, "%llu", (unsigned long long)o->steps);
  StEntry *e = mem_zalloc(n * sizeof *e);
  char *names = mem_alloc(n * NAME_BYTES);
  StWriter *w = NULL;
  Status s = fail(GRPO_ENOMEM, "%s: no memory for its list of tensors", path);
  if (e && names) {
    describe(o, e, names);
    s = st_writer_open(&w, path, n, e, (const char *const[]){"step", step, NULL});
  }
  mem_free(e);
  mem_free(names);
  try(s);
  s = put_moments(o, w);
  if (s == GRPO_OK) return st_writer_commit(w);
  st_writer_abort(w);
  return s;
}

static Status find_moment(const Safetensors *f, const Param *p, int k, const StTensor **out) {
  char name[NAME_BYTES];
  snprintf(name, sizeof name, "%s.%s", p->name, moment_name[k]);
  return safetensors_shaped(f, name, p->t.ndim, p->t.dim, out);
}

/* It is called without `write` first, so that everything is checked before anything changes. */
static Status read_moments(Optimizer *o, const Safetensors *f, bool write) {
  size_t at = 0;
  const Param *p;
  for (int i = 0; (p = model_next_trainable(o->m, &i)); at += p->t.n)
    for (int k = 0; k < 2; k++) {
      const StTensor *t = NULL;
      try(find_moment(f, p, k, &t));
      if (write) try(st_read(t, 0, t->n, o->moment[k] + at));
    }
  if (f->count != 2 * num_trainable(o))
    return fail(GRPO_EFORMAT, "%s: it has %zu tensors, but this model's optimizer has %zu", f->path,
                f->count, 2 * num_trainable(o));
  return GRPO_OK;
}

Status optimizer_load(Optimizer *o, const char *path) {
  Safetensors f;
  uint64_t steps = 0;
  try(check_model(o));
  try(safetensors_open(&f, path));
  Status s = safetensors_steps(&f, &steps);
  if (s == GRPO_OK) s = read_moments(o, &f, false);
  if (s == GRPO_OK) s = read_moments(o, &f, true);
  if (s == GRPO_OK) o->steps = steps;
  safetensors_close(&f);
  return s;
}
