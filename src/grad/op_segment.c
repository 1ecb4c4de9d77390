/* op_segment.c - from tokens to sequences and back, by each token's 1-based sequence index
 * (SegmentAttr).  segment_sum and segment_mean: [N] -> [n]; spread: [n] -> [N].  The mean of a
 * sequence without tokens is 0. */
#include <string.h>

#include "grad/attrs.h"
#include "grad/ops.h"

static const SegmentAttr *attr_of(const Node *nd) { return nd->attr.p; }
static size_t segment(const SegmentAttr *a, int i) { return (size_t)a->ids[i] - 1; }

static Status check_ids(const Node *nd) {
  try(need_attr(nd));
  const SegmentAttr *a = attr_of(nd);
  for (int i = 0; i < a->count; i++)
    if (a->ids[i] < 1 || a->ids[i] > a->n)
      return fail(GRPO_EARG, "%s: element %d belongs to sequence %d, want 1 .. %d", nd->op->name,
                  i + 1, (int)a->ids[i], a->n);
  return GRPO_OK;
}

static Status vector_of(const Node *nd, int want) {
  const Tensor *x = nd->in[0];
  if (x->ndim == 1 && x->dim[0] == want) return GRPO_OK;
  return fail(GRPO_ESHAPE, "%s: the tensor has shape %s, want [%d]", nd->op->name, shape_text(x).s,
              want);
}

static Status reduce_shape(const Node *nd, Tensor *out, size_t *saved) {
  try(check_ids(nd));
  try(vector_of(nd, attr_of(nd)->count));
  out->ndim = 1;
  out->dim[0] = attr_of(nd)->n;
  *saved = (size_t)attr_of(nd)->n * sizeof(double);
  return GRPO_OK;
}

static Status spread_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(check_ids(nd));
  try(vector_of(nd, attr_of(nd)->n));
  out->ndim = 1;
  out->dim[0] = attr_of(nd)->count;
  return GRPO_OK;
}

/* out[s] = scale[s] * sum of x over s, in double; scale: kept for backward */
static Status reduce(const Ctx *cx, Node *nd, bool mean) {
  const ArenaMark mark = arena_mark(cx->arena);
  const SegmentAttr *a = attr_of(nd);
  double *scale = nd->saved, *sum = arena_zalloc(cx->arena, nd->out->n * sizeof *sum);
  if (!sum) return fail(GRPO_ENOMEM, "%s: no memory for %d sums", nd->op->name, a->n);
  memset(scale, 0, nd->out->n * sizeof *scale);
  for (int i = 0; i < a->count; i++) {
    sum[segment(a, i)] += (double)nd->in[0]->data[i];
    scale[segment(a, i)] += 1;
  }
  for (size_t s = 0; s < nd->out->n; s++) {
    scale[s] = mean && scale[s] > 0 ? 1 / scale[s] : 1;
    nd->out->data[s] = (real)(scale[s] * sum[s]);
  }
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

static Status sum_forward(const Ctx *cx, Node *nd) { return reduce(cx, nd, false); }
static Status mean_forward(const Ctx *cx, Node *nd) { return reduce(cx, nd, true); }

static Status reduce_backward(const Ctx *cx, Node *nd) {
  (void)cx;
  const SegmentAttr *a = attr_of(nd);
  const double *scale = nd->saved;
  real *dx = grad_added(nd->in[0]);
  for (int i = 0; i < a->count; i++) {
    const size_t s = segment(a, i);
    dx[i] += (real)(scale[s] * (double)nd->out->grad[s]);
  }
  return GRPO_OK;
}

static Status spread_forward(const Ctx *cx, Node *nd) {
  (void)cx;
  const SegmentAttr *a = attr_of(nd);
  for (int i = 0; i < a->count; i++) nd->out->data[i] = nd->in[0]->data[segment(a, i)];
  return GRPO_OK;
}

static Status spread_backward(const Ctx *cx, Node *nd) {
  (void)cx;
  const SegmentAttr *a = attr_of(nd);
  real *dx = grad_added(nd->in[0]);
  for (int i = 0; i < a->count; i++) dx[segment(a, i)] += nd->out->grad[i];
  return GRPO_OK;
}

DEFINE_OP(segment_sum, reduce_shape, sum_forward, reduce_backward);
DEFINE_OP(segment_mean, reduce_shape, mean_forward, reduce_backward);
DEFINE_OP(spread, spread_shape, spread_forward, spread_backward);
