/* op_value.c - the value head of an actor-critic, and its clipped loss.
 *
 * value_head: v_i = h_r(i) . w, a number for each of some rows of the hidden states.
 *   dh_r += dv w      dw = sum over i of dv_i h_r(i)
 * A row of hidden may occur more than once, because a prompt's last row precedes every completion.
 *
 * value_loss: 1 / (2 N) sum over i of m_i max((v - R)^2, (clip(v, v_old - c, v_old + c) - R)^2); N
 * is counted over the whole step, so that a step may be cut into micro-batches at will.  Everything
 * inside is double; forward saves d loss / d v.
 */

#include "grad/attrs.h"
#include "grad/ops.h"

/* ---- value_head ------------------------------------------------------------------ */

static Status head_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(need_inputs(nd));
  try(need_attr(nd));
  const Tensor *h = nd->in[0], *w = nd->in[1];
  const ValueHeadAttr *a = nd->attr.p;
  if (h->ndim != 2 || w->ndim != 2 || w->dim[0] != 1 || w->dim[1] != h->dim[1])
    return fail(GRPO_ESHAPE, "value_head: hidden states %s and a weight %s do not match",
                shape_text(h).s, shape_text(w).s);
  for (int i = 0; i < a->n; i++)
    if (a->rows[i] < 0 || a->rows[i] >= h->dim[0])
      return fail(GRPO_EARG, "value_head: row %d of %d", (int)a->rows[i], h->dim[0]);
  out->ndim = 1;
  out->dim[0] = a->n;
  return GRPO_OK;
}

static Status head_forward(const Ctx *cx, Node *nd) {
  (void)cx;
  const ValueHeadAttr *a = nd->attr.p;
  const size_t c = (size_t)last_dim(nd->in[1]);
  const real *w = nd->in[1]->data;
  for (int i = 0; i < a->n; i++) {
    const real *h = nd->in[0]->data + (size_t)a->rows[i] * c;
    double sum = 0; /* in a fixed order, so that the bits do not depend on the rows beside */
    for (size_t k = 0; k < c; k++) sum += (double)h[k] * (double)w[k];
    nd->out->data[i] = (real)sum;
  }
  return GRPO_OK;
}

static void add_scaled(size_t n, real scale, const real *x, real *to) {
  for (size_t k = 0; k < n; k++) to[k] += scale * x[k];
}

static Status head_backward(const Ctx *cx, Node *nd) {
  (void)cx;
  const ValueHeadAttr *a = nd->attr.p;
  const size_t c = (size_t)last_dim(nd->in[1]);
  real *dh = wants_grad(nd->in[0]) ? grad_added(nd->in[0]) : NULL;
  real *dw = wants_grad(nd->in[1]) ? grad_added(nd->in[1]) : NULL;
  for (int i = 0; i < a->n; i++) {
    const size_t at = (size_t)a->rows[i] * c;
    const real dv = nd->out->grad[i];
    if (dh) add_scaled(c, dv, nd->in[1]->data, dh + at);
    if (dw) add_scaled(c, dv, nd->in[0]->data + at, dw);
  }
  return GRPO_OK;
}

DEFINE_OP(value_head, head_shape, head_forward, head_backward);

/* ---- value_loss ------------------------------------------------------------------ */

static Status loss_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)out; /* a number */
  try(need_inputs(nd));
  try(need_attr(nd));
  const ValueLossAttr *a = nd->attr.p;
  if (nd->in[0]->ndim != 1)
    return fail(GRPO_ESHAPE, "value_loss: values of shape %s, want a list",
                shape_text(nd->in[0]).s);
  if (!(a->clip >= 0)) return fail(GRPO_EARG, "value_loss: clip is %g, want 0 or more", a->clip);
  if (!(a->count > 0))
    return fail(GRPO_EARG, "value_loss: the number of values is %g, want more than 0", a->count);
  *saved = nd->in[0]->n * sizeof(real);
  return GRPO_OK;
}

static Status loss_forward(const Ctx *cx, Node *nd) {
  (void)cx;
  const ValueLossAttr *a = nd->attr.p;
  real *slope = nd->saved;
  double sum = 0, cut = 0;
  for (size_t i = 0; i < nd->in[0]->n; i++) {
    const double v = (double)nd->in[0]->data[i], old = (double)a->old[i];
    const double mask = a->mask ? (double)a->mask[i] : 1, target = (double)a->returns[i];
    const double held = v < old - a->clip ? old - a->clip : v > old + a->clip ? old + a->clip : v;
    const double plain = (v - target) * (v - target), bound = (held - target) * (held - target);
    const bool clipped = bound > plain; /* v is outside its bounds: no gradient */
    slope[i] = (real)(clipped || mask == 0 ? 0 : mask * (v - target) / a->count);
    if (mask == 0) continue;
    sum += mask * (clipped ? bound : plain);
    cut += mask * clipped;
  }
  nd->out->data[0] = (real)(sum / (2 * a->count));
  if (a->clipped) *a->clipped += cut;
  return GRPO_OK;
}

static Status loss_backward(const Ctx *cx, Node *nd) {
  (void)cx;
  const real *slope = nd->saved, dy = nd->out->grad[0];
  real *to = grad_added(nd->in[0]);
  for (size_t i = 0; i < nd->in[0]->n; i++) to[i] += dy * slope[i];
  return GRPO_OK;
}

DEFINE_OP(value_loss, loss_shape, loss_forward, loss_backward);
