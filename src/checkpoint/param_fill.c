#include "checkpoint/param_fill.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "checkpoint/bnb.h"
#include "model/model_struct.h"

/* A thread takes ROWS rows of a block at a time, or STRIP inputs, or PIECE values. */
enum { ROWS = 16, STRIP = 64, PIECE = 1 << 18 };
enum { RUN = 1024 }; /* outputs of an input that are read at once */

static Status unreadable(const SourceTensor *t) {
  return fail(GRPO_EFORMAT,
              "%s: tensor '%s' could not be read, because the file was cut or its disk failed",
              t->file, t->name);
}

/* Says after the message of quant_done which tensor it was. */
static Status not_quantised(const SourceTensor *t) {
  char why[256];
  snprintf(why, sizeof why, "%s", err_message());
  return fail(GRPO_EFORMAT,
              "%s: tensor '%s': %s; repair the model, or load it as it is or with quantize = "
              "\"int8\"",
              t->file, t->name, why);
}

/* ---- reading blocks of outputs ------------------------------------------------------------- */

typedef struct RowBlock {
  const WeightSource *src;
  const SourceTensor *t;
  int n, k;      /* of the whole weight */
  int row, rows; /* outputs in flight */
  bool strided;  /* the source is [k, n] */
  uint64_t at;   /* where the weight begins in the source: behind those of earlier experts */
  float *w;      /* [rows, k] */
  atomic_bool failed;
} RowBlock;

static void read_rows(void *arg, int chunk, int worker) {
  (void)worker;
  RowBlock *b = arg;
  const int at = chunk * ROWS, rows = min_int(ROWS, b->rows - at);
  const uint64_t from = b->at + (uint64_t)(b->row + at) * (uint64_t)b->k;
  if (b->src->read(b->src, b->t, from, (uint64_t)rows * (uint64_t)b->k,
                   b->w + (size_t)at * (size_t)b->k) != GRPO_OK)
    atomic_store(&b->failed, true);
}

/* Reads STRIP inputs, which are columns of the block, and transposes them. */
static void read_strip(void *arg, int chunk, int worker) {
  (void)worker;
  RowBlock *b = arg;
  const int p0 = chunk * STRIP, p1 = min_int(p0 + STRIP, b->k);
  float run[RUN];
  for (int r = 0; r < b->rows; r += RUN) {
    const int rows = min_int(RUN, b->rows - r);
    for (int p = p0; p < p1; p++) {
      const uint64_t from = b->at + (uint64_t)p * (uint64_t)b->n + (uint64_t)(b->row + r);
      if (b->src->read(b->src, b->t, from, (uint64_t)rows, run) != GRPO_OK) {
        atomic_store(&b->failed, true);
        return;
      }
      for (int i = 0; i < rows; i++) b->w[(size_t)(r + i) * (size_t)b->k + (size_t)p] = run[i];
    }
  }
}

static Status read_block(const Ctx *cx, RowBlock *b) {
  if (b->strided)
    pool_run(cx->pool, (b->k + STRIP - 1) / STRIP, read_strip, b);
  else
    pool_run(cx->pool, (b->rows + ROWS - 1) / ROWS, read_rows, b);
  return atomic_load(&b->failed) ? unreadable(b->t) : GRPO_OK;
}

/* ---- filling ------------------------------------------------------------------------------- */

/* Fills a quantised weight block by block, or float32 [k, n], transposed. */
static Status fill_blocks(const Ctx *cx, RowBlock *b, QuantWeight *quant, real *in_out) {
  const int most = param_block_rows(b->n, b->k);
  b->w = mem_alloc_aligned((size_t)most * (size_t)b->k * sizeof *b->w);
  if (!b->w)
    return fail(GRPO_ENOMEM, "%s: no memory for %d rows of %s", b->t->file, most, b->t->name);
  Status s = GRPO_OK;
  for (; b->row < b->n && s == GRPO_OK; b->row += b->rows) {
    b->rows = min_int(most, b->n - b->row);
    s = read_block(cx, b);
    if (s == GRPO_OK && quant) s = quant_put(cx, quant, b->row, b->rows, b->w);
    if (s == GRPO_OK && in_out) param_put_columns(b->w, b->rows, b->k, b->row, b->n, in_out);
  }
  mem_free_aligned(b->w);
  if (s != GRPO_OK || !quant) return s;
  s = quant_done(cx, quant);
  return s == GRPO_EFORMAT ? not_quantised(b->t) : s;
}

/* float32 in the layout of the source: in pieces, which threads share. */
typedef struct Plain {
  const WeightSource *src;
  const SourceTensor *t;
  uint64_t piece, n, at; /* at: as in RowBlock */
  float *out;
  atomic_bool failed;
} Plain;

static void read_piece(void *arg, int chunk, int worker) {
  (void)worker;
  Plain *p = arg;
  const uint64_t from = (uint64_t)chunk * p->piece;
  const uint64_t n = p->n - from < p->piece ? p->n - from : p->piece;
  if (p->src->read(p->src, p->t, p->at + from, n, p->out + from) != GRPO_OK)
    atomic_store(&p->failed, true);
}

static Status fill_plain(const Ctx *cx, const Tensor *to, const WeightSource *src,
                         const SourceTensor *t, uint64_t at) {
  const uint64_t width = (uint64_t)to->dim[to->ndim - 1];
  Plain p = {src, t, (PIECE / width + 1) * width, to->n, at, to->data, false};
  pool_run(cx->pool, (int)((p.n + p.piece - 1) / p.piece), read_piece, &p);
  return atomic_load(&p.failed) ? unreadable(t) : GRPO_OK;
}

Status param_fill(const Ctx *cx, Model *m, int i, const WeightSource *src, const SourceTensor *t) {
  const Param *p = &m->param[i];
  RowBlock b = {.src = src, .t = t};
  if (p->is_expert && t->ndim > p->t.ndim) b.at = (uint64_t)p->expert * p->t.n;
  param_outputs_inputs(p, &b.n, &b.k);
  const bool transposed = p->in_out && t->out_in; /* the source is [n, k], float32 is [k, n] */
  b.strided = p->in_out && !t->out_in;
  if (!m->quant[i] && !transposed) return fill_plain(cx, &p->t, src, t, b.at);
  if (m->quant[i] && m->quant[i]->type == QUANT_NF4 && t->type == SOURCE_NF4)
    return bnb_import(m->quant[i], &t->nf4);
  return fill_blocks(cx, &b, m->quant[i], m->quant[i] ? NULL : p->t.data);
}
