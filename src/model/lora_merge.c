#include "model/lora_merge.h"

#include <string.h>

#include "base/mem.h"
#include "model/frozen.h"
#include "model/lora.h"
#include "model/model_struct.h"

typedef struct Merge {
  const LoraModule *mod;
  bool first_in; /* rows of the weight are inputs */
  int row, cols;
  real *w; /* [rows, cols] */
  double *sum;
} Merge;

static const LoraModule *module_of(const Model *m, const Param *p) {
  const Lora *l = m->lora;
  for (int i = 0; l && i < l->nmodules; i++)
    if (l->module[i].base == p) return &l->module[i];
  return NULL;
}

bool lora_merge_changes(const Model *m, const Param *p) { return module_of(m, p) != NULL; }

static void merge_row(void *arg, int chunk, int worker) {
  const Merge *j = arg;
  const Tensor *a = &j->mod->a->t, *b = &j->mod->b->t;
  const size_t cols = (size_t)j->cols, row = (size_t)(j->row + chunk), rank = (size_t)a->dim[0];
  double *sum = j->sum + (size_t)worker * cols;
  real *w = j->w + (size_t)chunk * cols;
  memset(sum, 0, cols * sizeof *sum);
  for (size_t r = 0; r < rank; r++) {
    if (j->first_in) {
      const double x = (double)a->data[r * (size_t)a->dim[1] + row];
      for (size_t i = 0; i < cols; i++) sum[i] += x * (double)b->data[i * rank + r];
    } else {
      const double x = (double)b->data[row * rank + r];
      const real *y = a->data + r * cols;
      for (size_t i = 0; i < cols; i++) sum[i] += x * (double)y[i];
    }
  }
  for (size_t i = 0; i < cols; i++) w[i] = (real)((double)w[i] + j->mod->scale * sum[i]);
}

static Status merge_scratch(const Model *m, int cols, double **sum) {
  *sum = mem_alloc((size_t)pool_threads(m->pool) * (size_t)cols * sizeof **sum);
  return *sum ? GRPO_OK : fail(GRPO_ENOMEM, "merge: no memory for %d columns", cols);
}

static void merge_rows(const Model *m, const LoraModule *mod, int row, int rows, real *w,
                       double *sum) {
  const bool first_in = mod->base->in_out || mod == m->lora->embedding;
  Merge j = {mod, first_in, row, mod->base->t.dim[1], w, sum};
  pool_run(m->pool, rows, merge_row, &j);
}

static Status add_rows(const Model *m, const Param *p, int row, int rows, real *x) {
  const LoraModule *mod = module_of(m, p);
  double *sum;
  if (!mod) return GRPO_OK;
  try(merge_scratch(m, p->t.dim[1], &sum));
  merge_rows(m, mod, row, rows, x, sum);
  mem_free(sum);
  return GRPO_OK;
}

Status lora_merge_rows(const Ctx *cx, const Model *m, const Param *p, int row, int rows, real *x) {
  const size_t cols = p->t.n / (size_t)p->t.dim[0];
  if (p->t.quant)
    quant_get(cx, p->t.quant, row, rows, x);
  else
    memcpy(x, p->t.data + (size_t)row * cols, (size_t)rows * cols * sizeof *x);
  return add_rows(m, p, row, rows, x);
}

Status lora_merge_values(const Ctx *cx, const Model *m, const Param *p, real *x) {
  try(param_values(cx, p, x));
  return add_rows(m, p, 0, p->t.dim[0], x);
}

Status lora_merge_check(const Model *m) {
  const Lora *l = m->lora;
  if (!l) return fail(GRPO_EARG, "merge: the model has no adapter");
  if (m->config.tie_word_embeddings && (l->embedding || l->head))
    return fail(GRPO_EARG, "merge: the output projection is tied to the embedding, and the adapter "
                           "changes only one of them; save it with format = \"adapter\"");
  return GRPO_OK;
}

Status lora_merge(Model *m) {
  try(lora_merge_check(m));
  if (m->shared || m->views)
    return fail(GRPO_EARG, "merge: the weights are shared with a frozen view (a reference); close "
                           "it first, or save with merge = true");
  try(frozen_widen(m));
  int cols = 0;
  double *sum; /* memory is taken before the first change */
  for (int i = 0; i < m->lora->nmodules; i++) {
    const Tensor *t = &m->lora->module[i].base->t;
    if (t->dim[1] > cols) cols = t->dim[1];
  }
  try(merge_scratch(m, cols, &sum));
  for (int i = 0; i < m->lora->nmodules; i++) {
    const LoraModule *mod = &m->lora->module[i];
    merge_rows(m, mod, 0, mod->base->t.dim[0], mod->base->t.data, sum);
  }
  mem_free(sum);
  lora_drop(m);
  m->trainable = false;
  model_updated(m);
  return GRPO_OK;
}
