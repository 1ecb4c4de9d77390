#include "checkpoint/param_fill.h"

#include "base/mem.h"
#include "base/minmax.h"
#include "checkpoint/bnb.h"
#include "model/model_struct.h"

/* A thread takes ROWS rows of a block at a time, or STRIP inputs, or PIECE values. */
enum { ROWS = 16, STRIP = 64, PIECE = 1 << 18 };

/* ---- reading blocks of outputs ------------------------------------------------------------- */

typedef struct RowBlock {
  const WeightSource *src;
  const SourceTensor *t;
  int n, k;      /* of the whole weight */
  int row, rows; /* outputs in flight */
  bool strided;  /* the source is [k, n] */
  float *w;      /* [rows, k] */
} RowBlock;

static void read_rows(void *arg, int chunk, int worker) {
  (void)worker;
  const RowBlock *b = arg;
  const int at = chunk * ROWS, rows = min_int(ROWS, b->rows - at);
  const uint64_t from = (uint64_t)(b->row + at) * (uint64_t)b->k;
  b->src->read(b->src, b->t, from, (uint64_t)rows * (uint64_t)b->k,
               b->w + (size_t)at * (size_t)b->k);
}

/* Reads STRIP inputs, which are columns of the block, and transposes them. */
static void read_strip(void *arg, int chunk, int worker) {
  (void)worker;
  const RowBlock *b = arg;
  const int p0 = chunk * STRIP, p1 = min_int(p0 + STRIP, b->k);
  float piece[STRIP];
  for (int r = 0; r < b->rows; r += STRIP) {
    const int rows = min_int(STRIP, b->rows - r);
    for (int p = p0; p < p1; p++) {
      b->src->read(b->src, b->t, (uint64_t)p * (uint64_t)b->n + (uint64_t)(b->row + r),
                   (uint64_t)rows, piece);
      for (int i = 0; i < rows; i++) b->w[(size_t)(r + i) * (size_t)b->k + (size_t)p] = piece[i];
    }
  }
}

static void read_block(const Ctx *cx, const RowBlock *b) {
  if (b->strided)
    pool_run(cx->pool, (b->k + STRIP - 1) / STRIP, read_strip, (void *)(uintptr_t)b);
  else
    pool_run(cx->pool, (b->rows + ROWS - 1) / ROWS, read_rows, (void *)(uintptr_t)b);
}

/* Gives back the file's pages of a block; strided reads need them until the last block. */
static void pass_block(const RowBlock *b) {
  const bool last = b->row + b->rows == b->n;
  const uint64_t k = (uint64_t)b->k, all = (uint64_t)b->n * k;
  if (!b->src->pass || (b->strided && !last)) return;
  if (b->strided)
    b->src->pass(b->src, b->t, 0, all);
  else
    b->src->pass(b->src, b->t, (uint64_t)b->row * k, (uint64_t)b->rows * k);
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
    read_block(cx, b);
    if (quant) s = quant_put(cx, quant, b->row, b->rows, b->w);
    if (in_out) param_put_columns(b->w, b->rows, b->k, b->row, b->n, in_out);
    pass_block(b);
  }
  mem_free_aligned(b->w);
  if (s == GRPO_OK && quant) s = quant_done(cx, quant);
  return s;
}

/* float32 in the layout of the source: in pieces, so that threads share them and pages are given
 * back. */
typedef struct Plain {
  const WeightSource *src;
  const SourceTensor *t;
  uint64_t piece, n;
  float *out;
} Plain;

static void read_piece(void *arg, int chunk, int worker) {
  (void)worker;
  const Plain *p = arg;
  const uint64_t from = (uint64_t)chunk * p->piece;
  const uint64_t n = p->n - from < p->piece ? p->n - from : p->piece;
  p->src->read(p->src, p->t, from, n, p->out + from);
  if (p->src->pass) p->src->pass(p->src, p->t, from, n);
}

static void fill_plain(const Ctx *cx, const Tensor *to, const WeightSource *src,
                       const SourceTensor *t) {
  const uint64_t width = (uint64_t)to->dim[to->ndim - 1];
  Plain p = {src, t, (PIECE / width + 1) * width, to->n, to->data};
  pool_run(cx->pool, (int)((p.n + p.piece - 1) / p.piece), read_piece, &p);
}

Status param_fill(const Ctx *cx, Model *m, int i, const WeightSource *src, const SourceTensor *t) {
  const Param *p = &m->param[i];
  RowBlock b = {.src = src, .t = t};
  param_outputs_inputs(p, &b.n, &b.k);
  const bool transposed = p->in_out && t->out_in; /* the source is [n, k], float32 is [k, n] */
  b.strided = p->in_out && !t->out_in;
  if (!m->quant[i] && !transposed) {
    fill_plain(cx, &p->t, src, t);
    return GRPO_OK;
  }
  if (m->quant[i] && m->quant[i]->type == QUANT_NF4 && t->type == SOURCE_NF4) {
    const Status s = bnb_import(m->quant[i], &t->nf4);
    if (src->pass) src->pass(src, t, 0, p->t.n);
    return s;
  }
  return fill_blocks(cx, &b, m->quant[i], m->quant[i] ? NULL : p->t.data);
}
