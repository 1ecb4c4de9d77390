/* op_shape.c - matrix product, and operations that move elements without changing them.
 * Attr: transpose i[0], i[1] axes; reshape i[0] number of dimensions, i[1..] them (one may be -1);
 * narrow i[0] axis, i[1] first, i[2] how many; concat i[0] axis; gather p = GatherAttr. */
#include <string.h>

#include "grad/attrs.h"
#include "grad/ops.h"
#include "kern/elementwise.h"
#include "kern/gemm.h"

/* ---- matmul: [m,k] [k,n]; a vector is a row on the left, a column on the right ------ */

typedef struct Product {
  int m, n, k;
} Product;

static Product product_of(const Node *nd) {
  const Tensor *a = nd->in[0], *b = nd->in[1];
  return (Product){a->ndim == 2 ? a->dim[0] : 1, b->ndim == 2 ? b->dim[1] : 1, a->dim[a->ndim - 1]};
}

static Status matmul_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(need_inputs(nd));
  const Tensor *a = nd->in[0], *b = nd->in[1];
  if (a->ndim < 1 || a->ndim > 2 || b->ndim < 1 || b->ndim > 2 || last_dim(a) != b->dim[0])
    return fail(GRPO_ESHAPE, "matmul: shapes %s and %s do not match; want [m, k] and [k, n]",
                shape_text(a).s, shape_text(b).s);
  if (a->ndim == 2) out->dim[out->ndim++] = a->dim[0];
  if (b->ndim == 2) out->dim[out->ndim++] = b->dim[1];
  return GRPO_OK;
}

static Status matmul_forward(const Ctx *cx, Node *nd) {
  const Product p = product_of(nd);
  gemm_plain(cx, p.m, p.n, p.k, nd->in[0]->data, false, nd->in[1]->data, false, nd->out->data,
             false);
  return GRPO_OK;
}

static Status matmul_backward(const Ctx *cx, Node *nd) {
  const Product p = product_of(nd);
  const real *a = nd->in[0]->data, *b = nd->in[1]->data, *dy = nd->out->grad;
  bool add;
  if (wants_grad(nd->in[0])) {
    real *da = grad_into(nd->in[0], &add);
    gemm_plain(cx, p.m, p.k, p.n, dy, false, b, true, da, add);
  }
  if (wants_grad(nd->in[1])) {
    real *db = grad_into(nd->in[1], &add);
    gemm_plain(cx, p.k, p.n, p.m, a, true, dy, false, db, add);
  }
  return GRPO_OK;
}

DEFINE_OP(matmul, matmul_shape, matmul_forward, matmul_backward);

/* ---- transpose: two axes change places ----------------------------------------------- */

static Status transpose_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  const int a = nd->attr.i[0], b = nd->attr.i[1];
  try(axis_check(nd, nd->in[0], a));
  try(axis_check(nd, nd->in[0], b));
  try(shape_as(nd->in[0], out));
  out->dim[a] = nd->in[0]->dim[b];
  out->dim[b] = nd->in[0]->dim[a];
  return GRPO_OK;
}

typedef struct Transpose {
  int ndim;
  size_t dim[TENSOR_DIMS];  /* of the output */
  size_t step[TENSOR_DIMS]; /* the distance in x of one step along the output's dimension */
  real *x, *y;
  bool back;
} Transpose;

static Transpose transpose_of(const Node *nd, real *x, real *y, bool back) {
  const Tensor *in = nd->in[0];
  Transpose t = {.ndim = in->ndim, .x = x, .y = y, .back = back};
  size_t s = 1;
  for (int i = in->ndim; i-- > 0; s *= (size_t)in->dim[i]) t.step[i] = s;
  s = t.step[nd->attr.i[0]];
  t.step[nd->attr.i[0]] = t.step[nd->attr.i[1]];
  t.step[nd->attr.i[1]] = s;
  for (int i = 0; i < in->ndim; i++) t.dim[i] = (size_t)nd->out->dim[i];
  return t;
}

/* The place in x of the output's element o. */
static size_t transposed_place(const Transpose *t, size_t o) {
  size_t at = 0;
  for (int i = t->ndim; i-- > 0; o /= t->dim[i]) at += o % t->dim[i] * t->step[i];
  return at;
}

/* Runs along the output's last dimension. */
static void transpose_piece(void *arg, size_t from, size_t n) {
  const Transpose *t = arg;
  const size_t len = t->dim[t->ndim - 1], step = t->step[t->ndim - 1], end = from + n;
  for (size_t o = from, k; o < end; o += k) {
    real *x = t->x + transposed_place(t, o), *y = t->y + o;
    k = len - o % len < end - o ? len - o % len : end - o;
    for (size_t i = 0; !t->back && i < k; i++) y[i] = x[i * step];
    for (size_t i = 0; t->back && i < k; i++) x[i * step] += y[i];
  }
}

static Status transpose_forward(const Ctx *cx, Node *nd) {
  Transpose t = transpose_of(nd, nd->in[0]->data, nd->out->data, false);
  each_piece(cx, nd->out->n, transpose_piece, &t);
  return GRPO_OK;
}
static Status transpose_backward(const Ctx *cx, Node *nd) {
  Transpose t = transpose_of(nd, grad_added(nd->in[0]), nd->out->grad, true);
  each_piece(cx, nd->out->n, transpose_piece, &t);
  return GRPO_OK;
}

DEFINE_OP(transpose, transpose_shape, transpose_forward, transpose_backward);

/* ---- reshape --------------------------------------------------------------------------- */

static Status reshape_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  const int *want = nd->attr.i + 1, ndim = nd->attr.i[0];
  size_t known = 1;
  int open = -1;
  if (ndim < 0 || ndim > TENSOR_DIMS)
    return fail(GRPO_ESHAPE, "reshape: %d dimensions, want at most %d", ndim, TENSOR_DIMS);
  for (int i = 0; i < ndim; i++) {
    if (want[i] < -1 || (want[i] == -1 && open >= 0))
      return fail(GRPO_ESHAPE, "reshape: sizes must not be negative, but one may be -1");
    if (want[i] == -1)
      open = i;
    else
      known *= (size_t)want[i];
    out->dim[i] = want[i];
  }
  out->ndim = ndim;
  if (open >= 0 && known) {
    out->dim[open] = (int)(nd->in[0]->n / known);
    known *= (size_t)out->dim[open];
  }
  if (known != nd->in[0]->n || (open >= 0 && !known))
    return fail(GRPO_ESHAPE, "reshape: the %zu elements of shape %s do not fill the new shape",
                nd->in[0]->n, shape_text(nd->in[0]).s);
  return GRPO_OK;
}

static Status reshape_forward(const Ctx *cx, Node *nd) {
  vec_copy(cx, nd->out->n, nd->in[0]->data, nd->out->data);
  return GRPO_OK;
}

static Status reshape_backward(const Ctx *cx, Node *nd) {
  vec_acc(cx, nd->out->n, nd->out->grad, grad_added(nd->in[0]));
  return GRPO_OK;
}

DEFINE_OP(reshape, reshape_shape, reshape_forward, reshape_backward);

/* ---- narrow and concat: blocks of whole rows of `inner` elements ------------------------- */

/* rows of n elements; y += x or y = x */
typedef struct Rows {
  size_t n, ldx, ldy;
  const real *x;
  real *y;
  bool add;
} Rows;

static void rows_piece(void *arg, size_t from, size_t n) {
  const Rows *c = arg;
  for (size_t o = from, k; o < from + n; o += k) {
    const size_t row = o / c->n, at = o % c->n;
    const real *x = c->x + row * c->ldx + at;
    real *y = c->y + row * c->ldy + at;
    k = c->n - at < from + n - o ? c->n - at : from + n - o;
    if (!c->add) memcpy(y, x, k * sizeof *y);
    for (size_t i = 0; c->add && i < k; i++) y[i] += x[i];
  }
}

static void copy_rows(const Ctx *cx, size_t rows, size_t n, const real *x, size_t ldx, real *y,
                      size_t ldy, bool add) {
  each_piece(cx, rows * n, rows_piece, &(Rows){n, ldx, ldy, x, y, add});
}

static Status narrow_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  const Tensor *x = nd->in[0];
  const int axis = nd->attr.i[0], first = nd->attr.i[1], n = nd->attr.i[2];
  try(axis_check(nd, x, axis));
  if (first < 0 || n < 0 || first > x->dim[axis] - n)
    return fail(GRPO_ESHAPE, "narrow: elements %d .. %d of axis %d, but shape %s has only %d",
                first + 1, first + n, axis + 1, shape_text(x).s, x->dim[axis]);
  try(shape_as(x, out));
  out->dim[axis] = n;
  return GRPO_OK;
}

static Status narrow_forward(const Ctx *cx, Node *nd) {
  const Axis a = axis_of(nd->in[0], nd->attr.i[0]);
  const size_t n = (size_t)nd->attr.i[2] * a.inner, skip = (size_t)nd->attr.i[1] * a.inner;
  copy_rows(cx, a.outer, n, nd->in[0]->data + skip, a.len * a.inner, nd->out->data, n, false);
  return GRPO_OK;
}

static Status narrow_backward(const Ctx *cx, Node *nd) {
  const Axis a = axis_of(nd->in[0], nd->attr.i[0]);
  const size_t n = (size_t)nd->attr.i[2] * a.inner, skip = (size_t)nd->attr.i[1] * a.inner;
  copy_rows(cx, a.outer, n, nd->out->grad, n, grad_added(nd->in[0]) + skip, a.len * a.inner, true);
  return GRPO_OK;
}

DEFINE_OP(narrow, narrow_shape, narrow_forward, narrow_backward);

static Status concat_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(need_inputs(nd));
  const Tensor *a = nd->in[0], *b = nd->in[1];
  const int axis = nd->attr.i[0];
  try(axis_check(nd, a, axis));
  bool fits = a->ndim == b->ndim;
  for (int i = 0; fits && i < a->ndim; i++) fits = i == axis || a->dim[i] == b->dim[i];
  if (!fits)
    return fail(GRPO_ESHAPE, "concat: shapes %s and %s differ in more than axis %d",
                shape_text(a).s, shape_text(b).s, axis + 1);
  try(shape_as(a, out));
  out->dim[axis] += b->dim[axis];
  return GRPO_OK;
}

static Status concat_forward(const Ctx *cx, Node *nd) {
  const Axis all = axis_of(nd->out, nd->attr.i[0]);
  real *y = nd->out->data;
  for (int k = 0; k < 2; k++) {
    const size_t n = axis_of(nd->in[k], nd->attr.i[0]).len * all.inner;
    copy_rows(cx, all.outer, n, nd->in[k]->data, n, y, all.len * all.inner, false);
    y += n;
  }
  return GRPO_OK;
}

static Status concat_backward(const Ctx *cx, Node *nd) {
  const Axis all = axis_of(nd->out, nd->attr.i[0]);
  const real *dy = nd->out->grad;
  for (int k = 0; k < 2; k++) {
    const size_t n = axis_of(nd->in[k], nd->attr.i[0]).len * all.inner;
    if (wants_grad(nd->in[k]))
      copy_rows(cx, all.outer, n, dy, all.len * all.inner, grad_added(nd->in[k]), n, true);
    dy += n;
  }
  return GRPO_OK;
}

DEFINE_OP(concat, concat_shape, concat_forward, concat_backward);

/* ---- gather: one element per line along an axis, or any elements of a vector --------------- */

static Status gather_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(need_attr(nd));
  const GatherAttr *g = nd->attr.p;
  const Tensor *x = nd->in[0];
  try(axis_check(nd, x, g->axis));
  const Axis a = axis_of(x, g->axis);
  if (x->ndim > 1 && (size_t)g->n != a.outer * a.inner)
    return fail(GRPO_ESHAPE, "gather: %d indices along axis %d of shape %s, want %zu: one a line",
                g->n, g->axis + 1, shape_text(x).s, a.outer * a.inner);
  for (int i = 0; i < g->n; i++)
    if (g->ids[i] < 0 || (size_t)g->ids[i] >= a.len)
      return fail(GRPO_EARG, "gather: index %d is %d, want 0 .. %zu", i + 1, (int)g->ids[i],
                  a.len - 1);
  if (x->ndim == 1) out->dim[out->ndim++] = g->n;
  for (int i = 0; x->ndim > 1 && i < x->ndim; i++)
    if (i != g->axis) out->dim[out->ndim++] = x->dim[i];
  return GRPO_OK;
}

static size_t gathered(const Node *nd, const Axis *a, size_t i) {
  const GatherAttr *g = nd->attr.p;
  const size_t id = (size_t)g->ids[i];
  return nd->in[0]->ndim == 1 ? id : (i / a->inner * a->len + id) * a->inner + i % a->inner;
}

static Status gather_forward(const Ctx *cx, Node *nd) {
  (void)cx;
  const Axis a = axis_of(nd->in[0], ((const GatherAttr *)nd->attr.p)->axis);
  for (size_t i = 0; i < nd->out->n; i++) nd->out->data[i] = nd->in[0]->data[gathered(nd, &a, i)];
  return GRPO_OK;
}

static Status gather_backward(const Ctx *cx, Node *nd) {
  (void)cx;
  const Axis a = axis_of(nd->in[0], ((const GatherAttr *)nd->attr.p)->axis);
  real *dx = grad_added(nd->in[0]);
  for (size_t i = 0; i < nd->out->n; i++) dx[gathered(nd, &a, i)] += nd->out->grad[i];
  return GRPO_OK;
}

DEFINE_OP(gather, gather_shape, gather_forward, gather_backward);
