/* op_mlp.c - swiglu: silu(gate) * up, element by element. */
#include "grad/ops.h"

static Status shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(need_inputs(nd));
  const Tensor *gate = nd->in[0], *up = nd->in[1];
  bool same = gate->ndim == up->ndim;
  for (int i = 0; same && i < gate->ndim; i++) same = gate->dim[i] == up->dim[i];
  if (!same)
    return fail(GRPO_ESHAPE, "swiglu: gate has shape %s but up has %s", shape_text(gate).s,
                shape_text(up).s);
  return shape_as(gate, out);
}

static Status forward(const Ctx *cx, Node *nd) {
  swiglu_forward(cx, nd->out->n, nd->in[0]->data, nd->in[1]->data, nd->out->data);
  return GRPO_OK;
}

/* One call for each input: gate and up may be the same tensor. */
static Status backward_apart(const Ctx *cx, Node *nd) {
  const real *gate = nd->in[0]->data, *up = nd->in[1]->data, *dy = nd->out->grad;
  bool add;
  real *dgate = grad_into(nd->in[0], &add);
  swiglu_backward(cx, nd->out->n, gate, up, dy, dgate, add, NULL, false);
  real *dup = grad_into(nd->in[1], &add);
  swiglu_backward(cx, nd->out->n, gate, up, dy, NULL, false, dup, add);
  return GRPO_OK;
}

static Status backward(const Ctx *cx, Node *nd) {
  if (nd->in[0] == nd->in[1]) return backward_apart(cx, nd);
  bool add_gate = false, add_up = false;
  real *dgate = wants_grad(nd->in[0]) ? grad_into(nd->in[0], &add_gate) : NULL;
  real *dup = wants_grad(nd->in[1]) ? grad_into(nd->in[1], &add_up) : NULL;
  swiglu_backward(cx, nd->out->n, nd->in[0]->data, nd->in[1]->data, nd->out->grad, dgate, add_gate,
                  dup, add_up);
  return GRPO_OK;
}

DEFINE_OP(swiglu, shape, forward, backward);
