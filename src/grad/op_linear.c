/* op_linear.c - y = x w^T + bias, over the last dimension of x.
 *
 * The weight is [out, in], or [in, out] when Attr.i[0] is 1 (GPT-2's Conv1D).
 *   dx = dy w      dw = dy^T x      dbias = sum over rows of dy
 */
#include "grad/ops.h"
#include "grad/replay.h"
#include "grad/weight.h"
#include "kern/gemm_dw.h"

static bool in_out(const Node *nd) { return nd->attr.i[0] != 0; }
static int outputs(const Node *nd) { return weight_outputs(nd->in[1], in_out(nd)); }
static int inputs(const Node *nd) { return weight_inputs(nd->in[1], in_out(nd)); }
static int rows(const Node *nd) {
  return inputs(nd) ? (int)(nd->in[0]->n / (size_t)inputs(nd)) : 0;
}

static Status shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  const Tensor *x = nd->in[0], *w = nd->in[1], *b = nd->in[2];
  if (!w) return fail(GRPO_EARG, "linear: the weight is missing");
  if (w->ndim != 2)
    return fail(GRPO_ESHAPE, "linear: the weight has shape %s, want [%s]", shape_text(w).s,
                in_out(nd) ? "in, out" : "out, in");
  if (x->ndim < 1 || last_dim(x) != inputs(nd))
    return fail(GRPO_ESHAPE, "linear: x has shape %s but the weight takes %d inputs",
                shape_text(x).s, inputs(nd));
  if (b && (b->ndim != 1 || b->dim[0] != outputs(nd)))
    return fail(GRPO_ESHAPE, "linear: the bias has shape %s, want [%d]", shape_text(b).s,
                outputs(nd));
  try(shape_as(x, out));
  out->dim[out->ndim - 1] = outputs(nd);
  return GRPO_OK;
}

static Status forward(const Ctx *cx, Node *nd) {
  return weight_forward(cx, rows(nd), nd->in[1], in_out(nd), nd->in[0]->data,
                        nd->in[2] ? nd->in[2]->data : NULL, NULL, nd->out->data);
}

static Status backward(const Ctx *cx, Node *nd) {
  const int m = rows(nd), n = outputs(nd);
  const real *dy = nd->out->grad;
  bool add;
  if (wants_grad(nd->in[0])) {
    real *dx = grad_into(nd->in[0], &add);
    try(weight_dx(cx, m, nd->in[1], in_out(nd), dy, NULL, dx, add));
  }
  if (wants_grad(nd->in[1])) {
    real *dw = grad_into(nd->in[1], &add);
    try(tensor_again(cx, nd->in[0]));
    try(weight_dw(cx, m, nd->in[1], in_out(nd), dy, nd->in[0]->data, dw, add));
  }
  if (wants_grad(nd->in[2])) {
    real *db = grad_into(nd->in[2], &add);
    try(gemm_db(cx, m, n, dy, n, db, add));
  }
  return GRPO_OK;
}

static const OpReplay replay = {NULL, NULL};
DEFINE_REPLAYED_OP(linear, shape, forward, backward, &replay);
