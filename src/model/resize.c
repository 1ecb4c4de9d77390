#include "model/resize.h"

#include <string.h>

#include "base/mem.h"
#include "model/frozen.h"
#include "model/layout.h"

enum { BLOCK_ROWS = 64 };

/* The rows of one parameter: the old ones, then their mean for each new one. */
typedef struct Grown {
  const Ctx *cx;
  const Param *from;
  int old, k;
  double *mean; /* [k] */
  real *block;  /* [BLOCK_ROWS, k] */
} Grown;

static void read_block(const Grown *g, int row, int rows) {
  const size_t k = (size_t)g->k;
  const int kept = row >= g->old ? 0 : g->old - row < rows ? g->old - row : rows;
  if (kept) param_rows(g->cx, g->from, row, kept, g->block);
  for (int i = kept; i < rows; i++)
    for (size_t c = 0; c < k; c++) g->block[(size_t)i * k + c] = (real)g->mean[c];
}

static void take_mean(const Grown *g) {
  const size_t k = (size_t)g->k;
  memset(g->mean, 0, k * sizeof *g->mean);
  for (int row = 0; row < g->old; row += BLOCK_ROWS) {
    const int rows = g->old - row < BLOCK_ROWS ? g->old - row : BLOCK_ROWS;
    read_block(g, row, rows);
    for (int i = 0; i < rows; i++)
      for (size_t c = 0; c < k; c++) g->mean[c] += (double)g->block[(size_t)i * k + c];
  }
  for (size_t c = 0; c < k; c++) g->mean[c] /= g->old;
}

static Status fill_grown(const Grown *g, Param *to, QuantWeight *quant) {
  const int n = to->t.dim[0];
  Status s = GRPO_OK;
  take_mean(g);
  for (int row = 0; row < n && s == GRPO_OK; row += BLOCK_ROWS) {
    const int rows = n - row < BLOCK_ROWS ? n - row : BLOCK_ROWS;
    read_block(g, row, rows);
    if (quant)
      s = quant_put(g->cx, quant, row, rows, g->block);
    else
      memcpy(to->t.data + (size_t)row * (size_t)g->k, g->block,
             (size_t)rows * (size_t)g->k * sizeof(real));
  }
  return s == GRPO_OK && quant ? quant_done(g->cx, quant) : s;
}

static Status grow(const Ctx *cx, const Param *from, Param *to, QuantWeight *quant) {
  Grown g = {
      .cx = cx, .from = from, .old = from->t.dim[0], .k = from->t.ndim > 1 ? from->t.dim[1] : 1};
  g.mean = mem_alloc((size_t)g.k * sizeof *g.mean);
  g.block = mem_alloc_aligned((size_t)BLOCK_ROWS * (size_t)g.k * sizeof *g.block);
  const Status s = g.mean && g.block
                       ? fill_grown(&g, to, quant)
                       : fail(GRPO_ENOMEM, "%s: no memory for its new rows", from->name);
  mem_free(g.mean);
  mem_free_aligned(g.block);
  return s;
}

static bool grows(const Model *m, int i) {
  return (layout_is_matrix(m, i) && !layout_is_projection(m, i)) ||
         &m->param[i].t == m->t[M_HEAD_B];
}

/* Makes the parameters that grow and copies the values of the others.  Quantised weights that do
 * not grow are moved by exchange(), once nothing can fail any more. */
static Status fill_all(const Ctx *cx, Model *m, Model *to) {
  for (int i = 0; i < m->nparams; i++) {
    if (!m->param[i].t.quant) continue;
    if (grows(m, i))
      try(frozen_quantise(to, i, m->param[i].t.quant->type));
    else
      to->param[i].t.quant = m->param[i].t.quant;
  }
  try(model_allocate(to));
  for (int i = 0; i < m->nparams; i++) {
    const Param *from = &m->param[i];
    if (grows(m, i))
      try(grow(cx, from, &to->param[i], to->quant[i]));
    else if (!from->t.quant)
      memcpy(to->param[i].t.data, from->t.data, from->t.n * sizeof(real));
  }
  return GRPO_OK;
}

/* m takes the inside of `to`, and `to` the old inside of m. */
static void exchange(Model *m, Model *to) {
  for (int i = 0; i < m->nparams; i++)
    if (m->quant[i] && !grows(m, i)) {
      to->quant[i] = m->quant[i];
      m->quant[i] = NULL;
    }
  const Model old = *m;
  const int refs = m->refs;
  *m = *to;
  m->refs = refs;
  m->storage = old.storage;
  m->checkpointing = old.checkpointing;
  *to = old;
  to->refs = 1;
}

Status resize_vocab(Model *m, int n) {
  Arena arena = {0};
  Config c = m->config;
  Model *to;
  if (n == c.vocab_size) return GRPO_OK;
  if (n < c.vocab_size)
    return fail(GRPO_EARG, "model: a vocabulary of %d tokens cannot shrink to %d", c.vocab_size, n);
  if (m->shared || m->views || m->lora || m->dropped || m->trainable || m->refs > 1)
    return fail(GRPO_EARG, "model: its vocabulary can grow only before it is trained or shared");
  c.vocab_size = n;
  try(model_layout(&to, m->pool, &c));
  to->compute = m->compute;
  to->cpu = m->cpu;
  to->backend = m->backend;
  Status s = fill_all(&(Ctx){.pool = m->pool, .arena = &arena, .cpu = m->cpu}, m, to);
  if (s == GRPO_OK) exchange(m, to);
  arena_free(&arena);
  model_release(to);
  return s;
}
