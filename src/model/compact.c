#include "model/compact.h"

#include <string.h>

#include "base/mem.h"
#include "base/minmax.h"
#include "model/bnb.h"

/* A block of rows in flight is about BLOCK_REALS values and a multiple of 64 rows; threads take
 * ROWS of them, or STRIP inputs, at a time. */
enum { BLOCK_REALS = 1 << 20, ROWS = 16, STRIP = 64 };

/* ---- which form ------------------------------------------------------------------------ */

static QuantType as_stored(SourceType t) {
  return t == SOURCE_F16    ? QUANT_F16
         : t == SOURCE_BF16 ? QUANT_BF16
         : t == SOURCE_NF4  ? QUANT_NF4
                            : QUANT_F32;
}

bool compact_type(const Model *m, int i, Storage storage, SourceType stored, QuantType *out) {
  if (storage == STORE_F32 || !model_is_matrix(m, i)) return false;
  *out = as_stored(stored);
  if (storage == STORE_BF16) *out = QUANT_BF16;
  if (!model_is_projection(m, i)) return true;
  if (storage == STORE_INT8) *out = QUANT_INT8;
  if (storage == STORE_NF4) *out = QUANT_NF4;
  return true;
}

/* ---- reading blocks of outputs ------------------------------------------------------------- */

typedef struct Block {
  const WeightSource *src;
  const SourceTensor *t;
  int n, k;      /* of the whole weight */
  int row, rows; /* outputs in flight */
  bool strided;  /* the source is [k, n] */
  float *w;      /* [rows, k] */
} Block;

static int block_rows(int n, int k) {
  const int rows = BLOCK_REALS / k / 64 * 64;
  return min_int(n, rows < 64 ? 64 : rows);
}

static void read_rows(void *arg, int chunk, int worker) {
  (void)worker;
  const Block *b = arg;
  const int at = chunk * ROWS, rows = min_int(ROWS, b->rows - at);
  const uint64_t from = (uint64_t)(b->row + at) * (uint64_t)b->k;
  b->src->read(b->src, b->t, from, (uint64_t)rows * (uint64_t)b->k,
               b->w + (size_t)at * (size_t)b->k);
}

/* Inputs chunk * STRIP ..: columns of the block, transposed on the way. */
static void read_strip(void *arg, int chunk, int worker) {
  (void)worker;
  const Block *b = arg;
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

static void read_block(const Ctx *cx, const Block *b) {
  if (b->strided)
    pool_run(cx->pool, (b->k + STRIP - 1) / STRIP, read_strip, (void *)(uintptr_t)b);
  else
    pool_run(cx->pool, (b->rows + ROWS - 1) / ROWS, read_rows, (void *)(uintptr_t)b);
}

/* The file's pages behind a block; strided reads need them until the last block. */
static void pass_block(const Block *b) {
  const bool last = b->row + b->rows == b->n;
  const uint64_t k = (uint64_t)b->k, all = (uint64_t)b->n * k;
  if (!b->src->pass || (b->strided && !last)) return;
  if (b->strided)
    b->src->pass(b->src, b->t, 0, all);
  else
    b->src->pass(b->src, b->t, (uint64_t)b->row * k, (uint64_t)b->rows * k);
}

/* ---- filling ------------------------------------------------------------------------------- */

/* w [rows, k] becomes columns at .. at + rows - 1 of out [k, n]. */
static void put_columns(const real *w, int rows, int k, int at, int n, real *out) {
  for (int i = 0; i < rows; i++)
    for (int p = 0; p < k; p++)
      out[(size_t)p * (size_t)n + (size_t)(at + i)] = w[(size_t)i * (size_t)k + (size_t)p];
}

/* Block by block into a matrix, or, transposed, into float32 [k, n]. */
static Status fill_blocks(const Ctx *cx, Block *b, QuantWeight *quant, real *in_out) {
  const int most = block_rows(b->n, b->k);
  b->w = mem_alloc_aligned((size_t)most * (size_t)b->k * sizeof *b->w);
  if (!b->w) return fail(GRPO_ENOMEM, "%s: %d rows of %s", b->t->file, most, b->t->name);
  Status s = GRPO_OK;
  for (; b->row < b->n && s == GRPO_OK; b->row += b->rows) {
    b->rows = min_int(most, b->n - b->row);
    read_block(cx, b);
    if (quant) s = quant_put(cx, quant, b->row, b->rows, b->w);
    if (in_out) put_columns(b->w, b->rows, b->k, b->row, b->n, in_out);
    pass_block(b);
  }
  mem_free_aligned(b->w);
  if (s == GRPO_OK && quant) s = quant_done(cx, quant);
  return s;
}

/* float32 as the source has it: in pieces, so that threads share it and pages can go. */
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
  Plain p = {src, t, (BLOCK_REALS / 4 / width + 1) * width, to->n, to->data};
  pool_run(cx->pool, (int)((p.n + p.piece - 1) / p.piece), read_piece, &p);
}

Status compact_fill(const Ctx *cx, Model *m, int i, const WeightSource *src,
                    const SourceTensor *t) {
  const Param *p = &m->param[i];
  Block b = {.src = src, .t = t};
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

Status compact_make(const Ctx *cx, const Param *p, QuantType type, QuantWeight **out) {
  QuantWeight *m;
  int n, k;
  param_outputs_inputs(p, &n, &k);
  const int most = block_rows(n, k);
  try(quant_new(&m, type, n, k));
  real *w = mem_alloc_aligned((size_t)most * (size_t)k * sizeof *w);
  Status s = w ? GRPO_OK : fail(GRPO_ENOMEM, "%s: %d rows", p->name, most);
  for (int row = 0; row < n && s == GRPO_OK; row += most) {
    const int rows = min_int(most, n - row);
    param_rows(cx, p, row, rows, w);
    s = quant_put(cx, m, row, rows, w);
  }
  mem_free_aligned(w);
  if (s == GRPO_OK) s = quant_done(cx, m);
  if (s != GRPO_OK) {
    quant_free(m);
    return s;
  }
  *out = m;
  return GRPO_OK;
}

/* ---- and back ------------------------------------------------------------------------------ */

void param_rows(const Ctx *cx, const Param *p, int row, int rows, real *out) {
  int n, k;
  param_outputs_inputs(p, &n, &k);
  if (p->t.quant) {
    quant_get(cx, p->t.quant, row, rows, out);
  } else if (!p->in_out) {
    memcpy(out, p->t.data + (size_t)row * (size_t)k, (size_t)rows * (size_t)k * sizeof *out);
  } else {
    for (int c = 0; c < k; c++)
      for (int i = 0; i < rows; i++)
        out[(size_t)i * (size_t)k + (size_t)c] =
            p->t.data[(size_t)c * (size_t)n + (size_t)(row + i)];
  }
}

Status param_values(const Ctx *cx, const Param *p, real *out) {
  const QuantWeight *quant = p->t.quant;
  if (!quant) {
    memcpy(out, p->t.data, p->t.n * sizeof *out);
    return GRPO_OK;
  }
  if (!p->in_out) {
    quant_get(cx, quant, 0, quant->n, out);
    return GRPO_OK;
  }
  const int most = block_rows(quant->n, quant->k);
  real *w = mem_alloc_aligned((size_t)most * (size_t)quant->k * sizeof *w);
  if (!w) return fail(GRPO_ENOMEM, "%s: %d rows", p->name, most);
  for (int row = 0; row < quant->n; row += most) {
    const int rows = min_int(most, quant->n - row);
    quant_get(cx, quant, row, rows, w);
    put_columns(w, rows, quant->k, row, quant->n, out);
  }
  mem_free_aligned(w);
  return GRPO_OK;
}
