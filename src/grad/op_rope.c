/* op_rope.c - rotary positions: rotates every head of every row by its position's angles.  The
 * gradient of a rotation is the opposite rotation. */
#include "grad/attrs.h"
#include "grad/ops.h"
#include "kern/norm_rope.h"

static const RopeAttr *attr_of(const Node *nd) { return nd->attr.p; }
static int rotary(const RopeAttr *a) { return a->rotary ? a->rotary : a->head_dim; }
static int width(const RopeAttr *a) { return a->heads * a->head_dim + a->rest; }

static Status shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(need_attr(nd));
  const RopeAttr *a = attr_of(nd);
  const Tensor *x = nd->in[0];
  if (x->ndim != 2 || x->dim[1] != width(a))
    return fail(GRPO_ESHAPE, "rope: x has shape %s, want [tokens, %d heads x %d + %d]",
                shape_text(x).s, a->heads, a->head_dim, a->rest);
  if (a->rest % a->head_dim)
    return fail(GRPO_ESHAPE, "rope: %d channels after the heads are not whole heads", a->rest);
  if (rotary(a) % 2 || rotary(a) < 0 || rotary(a) > a->head_dim)
    return fail(GRPO_ESHAPE, "rope: %d of a head's %d channels cannot be rotated in pairs",
                rotary(a), a->head_dim);
  for (int t = 0; t < x->dim[0]; t++)
    if (a->pos[t] < 0 || a->pos[t] >= a->positions)
      return fail(GRPO_EARG, "rope: position %d is past the %d the model was prepared for",
                  (int)a->pos[t], a->positions);
  return shape_as(x, out);
}

/* The channels after the heads are heads that are not rotated. */
static void turn(const Ctx *cx, const Node *nd, const real *x, bool inverse, real *y, bool add) {
  const RopeAttr *a = attr_of(nd);
  const int rows = nd->out->dim[0], ld = width(a), d = a->head_dim, at = a->heads * d;
  rope_apply(cx, rows, a->heads, d, rotary(a), a->pairs, x, ld, a->pos, a->cs, inverse, y, ld, add);
  if (a->rest)
    rope_apply(cx, rows, a->rest / d, d, 0, false, x + at, ld, a->pos, a->cs, inverse, y + at, ld,
               add);
}

static Status forward(const Ctx *cx, Node *nd) {
  turn(cx, nd, nd->in[0]->data, false, nd->out->data, false);
  return GRPO_OK;
}

static Status backward(const Ctx *cx, Node *nd) {
  bool add;
  real *dx = grad_into(nd->in[0], &add);
  turn(cx, nd, nd->out->grad, true, dx, add);
  return GRPO_OK;
}

DEFINE_OP(rope, shape, forward, backward);
