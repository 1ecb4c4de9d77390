/* op_rope.c - rotary positions: every head of every row turned by its position's angles.
 * A rotation's backward is the rotation back. */
#include "grad/attrs.h"
#include "grad/ops.h"

static const RopeAttr *attr_of(const Node *nd) { return nd->attr.p; }
static int rotary(const RopeAttr *a) { return a->rotary ? a->rotary : a->head_dim; }

static Status shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(need_attr(nd));
  const RopeAttr *a = attr_of(nd);
  const Tensor *x = nd->in[0];
  if (x->ndim != 2 || x->dim[1] != a->heads * a->head_dim)
    return fail(GRPO_ESHAPE, "rope: x has shape %s, want [tokens, %d heads x %d]", shape_text(x).s,
                a->heads, a->head_dim);
  if (rotary(a) % 2 || rotary(a) < 0 || rotary(a) > a->head_dim)
    return fail(GRPO_ESHAPE, "rope: %d of a head's %d channels cannot be turned in pairs",
                rotary(a), a->head_dim);
  for (int t = 0; t < x->dim[0]; t++)
    if (a->pos[t] < 0 || a->pos[t] >= a->positions)
      return fail(GRPO_EARG, "rope: position %d is past the %d the model was prepared for",
                  (int)a->pos[t], a->positions);
  return shape_as(x, out);
}

static Status forward(const Ctx *cx, Node *nd) {
  const RopeAttr *a = attr_of(nd);
  const int ld = a->heads * a->head_dim;
  rope_apply(cx, nd->out->dim[0], a->heads, a->head_dim, rotary(a), nd->in[0]->data, ld, a->pos,
             a->cs, false, nd->out->data, ld, false);
  return GRPO_OK;
}

static Status backward(const Ctx *cx, Node *nd) {
  const RopeAttr *a = attr_of(nd);
  const int ld = a->heads * a->head_dim;
  bool add;
  real *dx = grad_into(nd->in[0], &add);
  rope_apply(cx, nd->out->dim[0], a->heads, a->head_dim, rotary(a), nd->out->grad, ld, a->pos,
             a->cs, true, dx, ld, add);
  return GRPO_OK;
}

DEFINE_OP(rope, shape, forward, backward);
