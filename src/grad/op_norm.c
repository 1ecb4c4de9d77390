/* op_norm.c - layernorm and rmsnorm over groups of w->n neighbouring channels: the whole last
 * dimension, or every head of it when w is one head wide.  Attr.f[0]: eps; Attr.i[0] = 1: it
 * multiplies by 1 + w.
 *
 * Forward saves one number a row (rmsnorm: rstd) or two (layernorm: mean, rstd).
 */
#include "grad/ops.h"
#include "kern/norm_rope.h"

static int width(const Node *nd) { return (int)nd->in[1]->n; }
static int rows(const Node *nd) { return (int)(nd->in[0]->n / nd->in[1]->n); }

static Status norm_shape(const Node *nd, Tensor *out) {
  if (!nd->in[0] || !nd->in[1])
    return fail(GRPO_EARG, "%s: input %d is missing", nd->op->name, nd->in[0] ? 2 : 1);
  const Tensor *x = nd->in[0], *w = nd->in[1];
  if (w->ndim != 1 || w->n == 0 || x->ndim < 1 || (size_t)last_dim(x) % w->n)
    return fail(GRPO_ESHAPE, "%s: x has shape %s but w has %s", nd->op->name, shape_text(x).s,
                shape_text(w).s);
  return shape_as(x, out);
}

static Status rmsnorm_shape(const Node *nd, Tensor *out, size_t *saved) {
  try(norm_shape(nd, out));
  *saved = (size_t)rows(nd) * sizeof(real);
  return GRPO_OK;
}

static Status layernorm_shape(const Node *nd, Tensor *out, size_t *saved) {
  try(norm_shape(nd, out));
  if (nd->in[2] && nd->in[2]->n != nd->in[1]->n)
    return fail(GRPO_ESHAPE, "layernorm: w has shape %s but b has %s", shape_text(nd->in[1]).s,
                shape_text(nd->in[2]).s);
  *saved = 2 * (size_t)rows(nd) * sizeof(real);
  return GRPO_OK;
}

static Status rmsnorm_run(const Ctx *cx, Node *nd) {
  rmsnorm_forward(cx, rows(nd), width(nd), nd->in[0]->data, nd->in[1]->data, (real)nd->attr.i[0],
                  nd->attr.f[0], nd->out->data, nd->saved);
  return GRPO_OK;
}

static Status layernorm_run(const Ctx *cx, Node *nd) {
  real *mean = nd->saved, *rstd = mean + rows(nd);
  layernorm_forward(cx, rows(nd), width(nd), nd->in[0]->data, nd->in[1]->data,
                    nd->in[2] ? nd->in[2]->data : NULL, (real)nd->attr.i[0], nd->attr.f[0],
                    nd->out->data, mean, rstd);
  return GRPO_OK;
}

/* Where a kernel writes the gradient by x; if it is not wanted, scratch memory. */
static real *dx_or_scratch(const Ctx *cx, Node *nd, bool *add) {
  *add = false;
  if (wants_grad(nd->in[0])) return grad_into(nd->in[0], add);
  return arena_alloc(cx->arena, nd->in[0]->n * sizeof(real));
}
static real *dw_or_null(Node *nd, int i) {
  return nd->in[i] && wants_grad(nd->in[i]) ? grad_added(nd->in[i]) : NULL;
}

static Status rmsnorm_back(const Ctx *cx, Node *nd) {
  const ArenaMark mark = arena_mark(cx->arena);
  bool add;
  real *dx = dx_or_scratch(cx, nd, &add);
  if (!dx) return fail(GRPO_ENOMEM, "rmsnorm: no memory in backward");
  try(rmsnorm_backward(cx, rows(nd), width(nd), nd->in[0]->data, nd->in[1]->data,
                       (real)nd->attr.i[0], nd->saved, nd->out->grad, dx, add, dw_or_null(nd, 1)));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

static Status layernorm_back(const Ctx *cx, Node *nd) {
  const ArenaMark mark = arena_mark(cx->arena);
  const real *mean = nd->saved, *rstd = mean + rows(nd);
  bool add;
  real *dx = dx_or_scratch(cx, nd, &add);
  if (!dx) return fail(GRPO_ENOMEM, "layernorm: no memory in backward");
  try(layernorm_backward(cx, rows(nd), width(nd), nd->in[0]->data, nd->in[1]->data,
                         (real)nd->attr.i[0], mean, rstd, nd->out->grad, dx, add, dw_or_null(nd, 1),
                         dw_or_null(nd, 2)));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

DEFINE_OP(rmsnorm, rmsnorm_shape, rmsnorm_run, rmsnorm_back);
DEFINE_OP(layernorm, layernorm_shape, layernorm_run, layernorm_back);
