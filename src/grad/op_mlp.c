/* op_mlp.c - elementwise: swiglu, silu(gate) * up; geglu, gelu(gate) * up; softcap; activate;
 * scale. */
#include "grad/ops.h"
#include "kern/elementwise.h"

static GateAct act_of(const Node *nd) { return nd->op == &op_geglu ? GATE_GELU : GATE_SILU; }

static Status shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(need_inputs(nd));
  const Tensor *gate = nd->in[0], *up = nd->in[1];
  bool same = gate->ndim == up->ndim;
  for (int i = 0; same && i < gate->ndim; i++) same = gate->dim[i] == up->dim[i];
  if (!same)
    return fail(GRPO_ESHAPE, "%s: gate has shape %s but up has %s", nd->op->name,
                shape_text(gate).s, shape_text(up).s);
  return shape_as(gate, out);
}

static Status forward(const Ctx *cx, Node *nd) {
  gated_forward(cx, act_of(nd), nd->out->n, nd->in[0]->data, nd->in[1]->data, nd->out->data);
  return GRPO_OK;
}

/* One call for each input: gate and up may be the same tensor. */
static Status backward_apart(const Ctx *cx, Node *nd) {
  const real *gate = nd->in[0]->data, *up = nd->in[1]->data, *dy = nd->out->grad;
  bool add;
  real *dgate = grad_into(nd->in[0], &add);
  gated_backward(cx, act_of(nd), nd->out->n, gate, up, dy, dgate, add, NULL, false);
  real *dup = grad_into(nd->in[1], &add);
  gated_backward(cx, act_of(nd), nd->out->n, gate, up, dy, NULL, false, dup, add);
  return GRPO_OK;
}

static Status backward(const Ctx *cx, Node *nd) {
  if (nd->in[0] == nd->in[1]) return backward_apart(cx, nd);
  bool add_gate = false, add_up = false;
  real *dgate = wants_grad(nd->in[0]) ? grad_into(nd->in[0], &add_gate) : NULL;
  real *dup = wants_grad(nd->in[1]) ? grad_into(nd->in[1], &add_up) : NULL;
  gated_backward(cx, act_of(nd), nd->out->n, nd->in[0]->data, nd->in[1]->data, nd->out->grad, dgate,
                 add_gate, dup, add_up);
  return GRPO_OK;
}

DEFINE_OP(swiglu, shape, forward, backward);
DEFINE_OP(geglu, shape, forward, backward);

/* ---- softcap: Attr.f[0] tanh(x / Attr.f[0]) ------------------------------------------ */

static Status softcap_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  if (!(nd->attr.f[0] > 0))
    return fail(GRPO_EARG, "softcap: the bound %g must be > 0", nd->attr.f[0]);
  return shape_as(nd->in[0], out);
}

static Status softcap_run(const Ctx *cx, Node *nd) {
  softcap_forward(cx, nd->out->n, (real)nd->attr.f[0], nd->in[0]->data, nd->out->data);
  return GRPO_OK;
}

static Status softcap_back(const Ctx *cx, Node *nd) {
  bool add;
  real *dx = grad_into(nd->in[0], &add);
  softcap_backward(cx, nd->out->n, (real)nd->attr.f[0], nd->out->data, nd->out->grad, dx, add);
  return GRPO_OK;
}

DEFINE_OP(softcap, softcap_shape, softcap_run, softcap_back);

/* ---- activate: see Act in kern/elementwise.h ------------------------------------------- */

static Status same_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  return shape_as(nd->in[0], out);
}

static Status activate_run(const Ctx *cx, Node *nd) {
  act_forward(cx, (Act)nd->attr.i[0], nd->out->n, nd->in[0]->data, nd->out->data);
  return GRPO_OK;
}

static Status activate_back(const Ctx *cx, Node *nd) {
  bool add;
  real *dx = grad_into(nd->in[0], &add);
  act_backward(cx, (Act)nd->attr.i[0], nd->out->n, nd->in[0]->data, nd->out->grad, dx, add);
  return GRPO_OK;
}

DEFINE_OP(activate, same_shape, activate_run, activate_back);

/* ---- scale: Attr.f[0] x ---------------------------------------------------------------- */

static Status scale_run(const Ctx *cx, Node *nd) {
  vec_scale(cx, nd->out->n, (real)nd->attr.f[0], nd->in[0]->data, nd->out->data, false);
  return GRPO_OK;
}

static Status scale_back(const Ctx *cx, Node *nd) {
  bool add;
  real *dx = grad_into(nd->in[0], &add);
  vec_scale(cx, nd->out->n, (real)nd->attr.f[0], nd->out->grad, dx, add);
  return GRPO_OK;
}

DEFINE_OP(scale, same_shape, scale_run, scale_back);
