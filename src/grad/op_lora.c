/* op_lora.c - low-rank adapters beside frozen weights (LoRA, 2106.09685).
 *
 *   lora_linear     y = x w^T + bias + low B^T,  low = scale * drop(x) A^T   [rows, r]
 *   lora_low        low alone: the output projection adds it chunk by chunk (op_loghead.c)
 *   lora_embedding  y = x + low B^T,  low[t] = scale * A[:, ids[t]]
 *
 * The merged weight never exists.  Forward saves `low`; backward computes
 *   dB = dy^T low     dlow = scale * dy B     dA = dlow^T drop(x)     dx = dy w + drop(dlow A)
 * w and bias are frozen.  drop(x) is not stored: the mask is a function of (key, row, column)
 * and is computed again where it is needed.
 */
#include <string.h>

#include "base/mem.h"
#include "grad/attrs.h"
#include "grad/op_lora.h"
#include "grad/ops.h"
#include "grad/replay.h"
#include "kern/elementwise.h"
#include "kern/gemm_dw.h"

/* ---- dropout --------------------------------------------------------------------- */

/* A Philox block decides about LANES_PER_BLOCK neighbours of a row, 16 bits each; p is rounded to
 * 1/65536 and the scale 1 / (1 - p) is that of the rounded p, so that the mean is kept exactly. */
enum { LANES_PER_BLOCK = 8, DROP_ROWS = 16 };

typedef struct Drop {
  int rows, k;
  const LoraDropout *d;
  uint32_t below; /* dropped: 16 bits below this */
  real scale;
  const real *x;
  real *y;
  bool add;
} Drop;

static void drop_row(const Drop *j, size_t row) {
  const size_t k = (size_t)j->k, blocks = (k + LANES_PER_BLOCK - 1) / LANES_PER_BLOCK;
  const real *x = j->x + row * k;
  real *y = j->y + row * k;
  for (size_t b = 0; b < blocks; b++) {
    uint32_t bits[4];
    rng_block(&j->d->key, row * blocks + b, bits);
    const size_t at = b * LANES_PER_BLOCK, left = k - at;
    for (size_t i = 0; i < LANES_PER_BLOCK && i < left; i++) {
      const uint32_t u = bits[i / 2] >> 16 * (i % 2) & 0xffff;
      const real v = u < j->below ? 0 : x[at + i] * j->scale;
      y[at + i] = j->add ? y[at + i] + v : v;
    }
  }
}

static void drop_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Drop *j = arg;
  const int from = chunk * DROP_ROWS, to = from + DROP_ROWS < j->rows ? from + DROP_ROWS : j->rows;
  for (int row = from; row < to; row++) drop_row(j, (size_t)row);
}

/* y (+)= drop(x); rows and columns are those of the whole unit. */
static void drop(const Ctx *cx, const LoraDropout *d, int rows, int k, const real *x, real *y,
                 bool add) {
  const uint32_t below = (uint32_t)(d->p * 65536 + 0.5);
  Drop j = {rows, k, d, below, (real)(65536.0 / (65536 - below)), x, y, add};
  pool_run(cx->pool, (rows + DROP_ROWS - 1) / DROP_ROWS, drop_chunk, &j);
}

static Status check_dropout(const Node *nd) {
  const LoraDropout *d = nd->attr.p;
  if (!d || (d->p >= 0 && d->p <= 0.999)) return GRPO_OK;
  return fail(GRPO_EARG, "%s: dropout is %g, want 0 to 0.999", nd->op->name, d->p);
}

/* ---- the low-rank product: low = scale * drop(x) A^T ----------------------------- */

static const LoraDropout *dropout_of(const Node *nd) { return nd->attr.p; }
static real scale_of(const Node *nd) { return (real)nd->attr.f[0]; }
static size_t times(int a, int b) { return (size_t)a * (size_t)b; }
static int rows_of(const Tensor *x) { return last_dim(x) ? (int)(x->n / (size_t)last_dim(x)) : 0; }

static Status no_memory(const Node *nd) {
  return fail(GRPO_ENOMEM, "%s: no memory for %d rows", nd->op->name, rows_of(nd->in[0]));
}

static void scale_by(real s, size_t n, const real *x, real *y) {
  for (size_t i = 0; i < n; i++) y[i] = s * x[i];
}

/* *out: x, or drop(x) in scratch memory */
static Status dropped(const Ctx *cx, const Node *nd, const Tensor *x, const real **out) {
  *out = x->data;
  if (!dropout_of(nd)) return GRPO_OK;
  real *y = arena_alloc(cx->arena, x->n * sizeof *y);
  if (!y) return no_memory(nd);
  drop(cx, dropout_of(nd), rows_of(x), last_dim(x), x->data, y, false);
  *out = y;
  return GRPO_OK;
}

Status lora_down(const Ctx *cx, int m, const Tensor *a, real scale, const real *x, real *low) {
  const ArenaMark mark = arena_mark(cx->arena);
  const int r = a->dim[0], k = a->dim[1];
  void *packed;
  try(weight_panels(cx, a, false, &packed));
  gemm_forward(cx, m, r, k, x, k, packed, NULL, low, r);
  scale_by(scale, times(m, r), low, low);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

static Status low_forward(const Ctx *cx, const Node *nd, const Tensor *x, const Tensor *a,
                          real *low) {
  const ArenaMark mark = arena_mark(cx->arena);
  const real *from;
  try(dropped(cx, nd, x, &from));
  try(lora_down(cx, rows_of(x), a, scale_of(nd), from, low));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

/* dx of the low-rank branch, through dropout where there is any */
static Status low_dx(const Ctx *cx, const Node *nd, Tensor *x, const Tensor *a, const real *d) {
  const int m = rows_of(x), r = a->dim[0], k = a->dim[1];
  bool add;
  real *dx = grad_into(x, &add);
  if (!dropout_of(nd)) return gemm_dx(cx, m, r, k, d, r, a->data, false, dx, k, add);
  real *all = arena_alloc(cx->arena, x->n * sizeof *all);
  if (!all) return no_memory(nd);
  try(gemm_dx(cx, m, r, k, d, r, a->data, false, all, k, false));
  drop(cx, dropout_of(nd), m, k, all, dx, add);
  return GRPO_OK;
}

/* d: scale * d loss / d low */
static Status low_da(const Ctx *cx, const Node *nd, const Tensor *x, Tensor *a, const real *d) {
  if (!wants_grad(a)) return GRPO_OK;
  const ArenaMark mark = arena_mark(cx->arena);
  const int r = a->dim[0], k = a->dim[1];
  bool add;
  const real *from;
  real *da = grad_into(a, &add);
  try(tensor_again(cx, x));
  try(dropped(cx, nd, x, &from));
  try(gemm_dw(cx, rows_of(x), r, k, d, r, from, k, false, da, add));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

Status lora_up(const Ctx *cx, const Tensor *b, const real *low, LowRank *up) {
  *up = (LowRank){.rank = b->dim[1], .low = low};
  void *packed;
  try(weight_panels(cx, b, false, &packed));
  up->up = packed;
  return GRPO_OK;
}

/* dlow = dy B, and dB; dlow: [m, r], written when not NULL */
static Status up_backward(const Ctx *cx, int m, const real *dy, const real *low, Tensor *b,
                          real *dlow) {
  const int n = b->dim[0], r = b->dim[1];
  if (dlow) try(gemm_dx(cx, m, n, r, dy, n, b->data, false, dlow, r, false));
  if (!wants_grad(b)) return GRPO_OK;
  bool add;
  real *db = grad_into(b, &add);
  return gemm_dw(cx, m, n, r, dy, n, low, r, false, db, add);
}

static Status check_matrix(const Node *nd, const char *what, const Tensor *t, int rows, int cols) {
  if (!t) return fail(GRPO_EARG, "%s: %s is missing", nd->op->name, what);
  if (t->ndim == 2 && t->dim[0] > 0 && (rows < 0 || t->dim[0] == rows) &&
      (cols < 0 || t->dim[1] == cols))
    return GRPO_OK;
  const ShapeText has = shape_text(t);
  if (rows < 0)
    return fail(GRPO_ESHAPE, "%s: %s has shape %s, want [rank, %d]", nd->op->name, what, has.s,
                cols);
  return fail(GRPO_ESHAPE, "%s: %s has shape %s, want [%d, %d]", nd->op->name, what, has.s, rows,
              cols);
}

/* ---- lora_linear ----------------------------------------------------------------- */

enum { X, W, BIAS, A, B };

static bool in_out(const Node *nd) { return nd->attr.i[0] != 0; }

static Status linear_shape(const Node *nd, Tensor *out, size_t *saved) {
  const Tensor *x = nd->in[X], *w = nd->in[W], *bias = nd->in[BIAS];
  if (!w || w->ndim != 2)
    return fail(GRPO_ESHAPE, "lora_linear: the weight is missing or not two-dimensional");
  const int n = w->dim[in_out(nd) ? 1 : 0], k = w->dim[in_out(nd) ? 0 : 1];
  if (wants_grad(w) || wants_grad(bias))
    return fail(GRPO_EARG, "lora_linear: the base weight must be frozen");
  if (x->ndim < 1 || last_dim(x) != k)
    return fail(GRPO_ESHAPE, "lora_linear: x has shape %s but the weight takes %d inputs",
                shape_text(x).s, k);
  if (bias && (bias->ndim != 1 || bias->dim[0] != n))
    return fail(GRPO_ESHAPE, "lora_linear: the bias has shape %s, want [%d]", shape_text(bias).s,
                n);
  try(check_matrix(nd, "A", nd->in[A], -1, k));
  try(check_matrix(nd, "B", nd->in[B], n, nd->in[A]->dim[0]));
  try(check_dropout(nd));
  try(shape_as(x, out));
  out->dim[out->ndim - 1] = n;
  *saved = times(rows_of(x), nd->in[A]->dim[0]) * sizeof(real);
  return GRPO_OK;
}

static Status linear_forward(const Ctx *cx, Node *nd) {
  const ArenaMark mark = arena_mark(cx->arena);
  const real *bias = nd->in[BIAS] ? nd->in[BIAS]->data : NULL;
  LowRank up;
  try(low_forward(cx, nd, nd->in[X], nd->in[A], nd->saved));
  try(lora_up(cx, nd->in[B], nd->saved, &up));
  try(weight_forward(cx, rows_of(nd->in[X]), nd->in[W], in_out(nd), nd->in[X]->data, bias, &up,
                     nd->out->data));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

/* dx = dy w + d A, the second part after dropout's mask if there is one */
static Status linear_dx(const Ctx *cx, const Node *nd, const real *d) {
  const ArenaMark mark = arena_mark(cx->arena);
  Tensor *x = nd->in[X];
  const Tensor *a = nd->in[A];
  const int r = a->dim[0], k = a->dim[1];
  bool add;
  real *dx = grad_into(x, &add), *packed = NULL;
  if (!dropout_of(nd)) {
    packed = arena_alloc(cx->arena, gemm_packed_size(k, r) * sizeof *packed);
    if (!packed) return no_memory(nd);
    gemm_pack(cx, k, r, a->data, true, packed);
  }
  const LowRank low = {r, d, packed};
  try(weight_dx(cx, rows_of(x), nd->in[W], in_out(nd), nd->out->grad, packed ? &low : NULL, dx,
                add));
  if (!packed) try(low_dx(cx, nd, x, a, d));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

static Status linear_backward(const Ctx *cx, Node *nd) {
  const ArenaMark mark = arena_mark(cx->arena);
  const int m = rows_of(nd->in[X]), r = nd->in[A]->dim[0];
  real *d = arena_alloc(cx->arena, times(m, r) * sizeof *d);
  if (!d) return no_memory(nd);
  try(up_backward(cx, m, nd->out->grad, nd->saved, nd->in[B], d));
  scale_by(scale_of(nd), times(m, r), d, d);
  if (wants_grad(nd->in[X])) try(linear_dx(cx, nd, d));
  try(low_da(cx, nd, nd->in[X], nd->in[A], d));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

static int low_width(const Node *nd) { return nd->in[A]->dim[0]; }
static const OpReplay linear_replay = {low_width, NULL};
DEFINE_REPLAYED_OP(lora_linear, linear_shape, linear_forward, linear_backward, &linear_replay);

/* ---- lora_low -------------------------------------------------------------------- */

static Status low_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(check_matrix(nd, "A", nd->in[1], -1, last_dim(nd->in[0])));
  try(check_dropout(nd));
  try(shape_as(nd->in[0], out));
  out->dim[out->ndim - 1] = nd->in[1]->dim[0];
  return GRPO_OK;
}

static Status lora_low_forward(const Ctx *cx, Node *nd) {
  return low_forward(cx, nd, nd->in[0], nd->in[1], nd->out->data);
}

static Status lora_low_backward(const Ctx *cx, Node *nd) {
  const ArenaMark mark = arena_mark(cx->arena);
  real *d = arena_alloc(cx->arena, nd->out->n * sizeof *d);
  if (!d) return no_memory(nd);
  scale_by(scale_of(nd), nd->out->n, nd->out->grad, d);
  try(low_da(cx, nd, nd->in[0], nd->in[1], d));
  if (wants_grad(nd->in[0])) try(low_dx(cx, nd, nd->in[0], nd->in[1], d));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

DEFINE_OP(lora_low, low_shape, lora_low_forward, lora_low_backward);

/* ---- lora_embedding -------------------------------------------------------------- */

static Status embedding_shape(const Node *nd, Tensor *out, size_t *saved) {
  try(need_inputs(nd));
  try(need_attr(nd));
  const EmbeddingAttr *e = nd->attr.p;
  const Tensor *x = nd->in[0], *a = nd->in[1];
  if (x->ndim != 2 || x->dim[0] != e->tokens)
    return fail(GRPO_ESHAPE, "lora_embedding: x has shape %s, want [%d, channels]", shape_text(x).s,
                e->tokens);
  if (a->ndim != 2)
    return fail(GRPO_ESHAPE, "lora_embedding: A has shape %s, want [rank, vocab]", shape_text(a).s);
  try(check_matrix(nd, "B", nd->in[2], x->dim[1], a->dim[0]));
  for (int t = 0; t < e->tokens; t++)
    if (e->ids[t] < 0 || e->ids[t] >= a->dim[1])
      return fail(GRPO_EARG, "lora_embedding: token %d at %d is outside the vocabulary of %d",
                  (int)e->ids[t], t, a->dim[1]);
  *saved = times(e->tokens, a->dim[0]) * sizeof(real);
  return shape_as(x, out);
}

/* The scale of the embeddings also applies to the adapter's part. */
static real embedding_scale(const Node *nd) {
  const EmbeddingAttr *e = nd->attr.p;
  return e->scale != 0 ? scale_of(nd) * e->scale : scale_of(nd);
}

static Status embedding_forward(const Ctx *cx, Node *nd) {
  const EmbeddingAttr *e = nd->attr.p;
  const Tensor *a = nd->in[1];
  const int r = a->dim[0], v = a->dim[1];
  real *low = nd->saved;
  for (int t = 0; t < e->tokens; t++)
    for (int i = 0; i < r; i++)
      low[times(t, r) + (size_t)i] = embedding_scale(nd) * a->data[times(i, v) + (size_t)e->ids[t]];
  mem_copy(nd->out->data, nd->in[0]->data, nd->out->n * sizeof(real));
  const ArenaMark mark = arena_mark(cx->arena);
  const int n = nd->in[2]->dim[0];
  LowRank up;
  try(lora_up(cx, nd->in[2], low, &up));
  gemm_forward_add(cx, e->tokens, n, r, low, r, up.up, nd->out->data, n);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

static Status embedding_backward(const Ctx *cx, Node *nd) {
  const EmbeddingAttr *e = nd->attr.p;
  Tensor *x = nd->in[0], *a = nd->in[1];
  const int r = a->dim[0], v = a->dim[1];
  const ArenaMark mark = arena_mark(cx->arena);
  real *dlow = arena_alloc(cx->arena, times(e->tokens, r) * sizeof *dlow);
  if (!dlow) return no_memory(nd);
  if (wants_grad(x)) vec_acc(cx, x->n, nd->out->grad, grad_added(x));
  try(up_backward(cx, e->tokens, nd->out->grad, nd->saved, nd->in[2], dlow));
  if (wants_grad(a)) {
    real *da = grad_added(a);
    for (int t = 0; t < e->tokens; t++) /* tokens repeat: in order */
      for (int i = 0; i < r; i++)
        da[times(i, v) + (size_t)e->ids[t]] += embedding_scale(nd) * dlow[times(t, r) + (size_t)i];
  }
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

DEFINE_OP(lora_embedding, embedding_shape, embedding_forward, embedding_backward);
