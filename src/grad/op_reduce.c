/* op_reduce.c - reductions along one axis (Attr.i[0]; -1: over everything), which disappears;
 * for the softmaxes it stays.  Sums are computed in double. */
#include <math.h>
#include <stdlib.h>

#include "base/exponential.h"
#include "grad/ops.h"
#include "grad/quantile.h"

/* ---- sum, mean, max --------------------------------------------------------------- */

static Status drop_axis(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  const Tensor *x = nd->in[0];
  const int axis = nd->attr.i[0];
  if (axis == -1) return GRPO_OK; /* a number */
  try(axis_check(nd, x, axis));
  for (int i = 0; i < x->ndim; i++)
    if (i != axis) out->dim[out->ndim++] = x->dim[i];
  return GRPO_OK;
}

static double line_sum(const real *x, size_t n, size_t step) {
  double s = 0;
  for (size_t i = 0; i < n; i++) s += (double)x[i * step];
  return s;
}

static void sum_scaled(Node *nd, double scale) {
  const Axis a = axis_of(nd->in[0], nd->attr.i[0]);
  for (size_t o = 0; o < a.outer; o++)
    for (size_t i = 0; i < a.inner; i++)
      nd->out->data[o * a.inner + i] =
          (real)(scale * line_sum(nd->in[0]->data + o * a.len * a.inner + i, a.len, a.inner));
}

static void spread_scaled(Node *nd, double scale) {
  const Axis a = axis_of(nd->in[0], nd->attr.i[0]);
  real *dx = grad_added(nd->in[0]);
  for (size_t o = 0; o < a.outer; o++)
    for (size_t l = 0; l < a.len; l++)
      for (size_t i = 0; i < a.inner; i++)
        dx[(o * a.len + l) * a.inner + i] += (real)(scale * (double)nd->out->grad[o * a.inner + i]);
}

static double one_over_len(const Node *nd) {
  return 1 / (double)axis_of(nd->in[0], nd->attr.i[0]).len;
}

static Status sum_forward(const Ctx *cx, Node *nd) { return (void)cx, sum_scaled(nd, 1), GRPO_OK; }
static Status sum_backward(const Ctx *cx, Node *nd) {
  return (void)cx, spread_scaled(nd, 1), GRPO_OK;
}
static Status mean_forward(const Ctx *cx, Node *nd) {
  return (void)cx, sum_scaled(nd, one_over_len(nd)), GRPO_OK;
}
static Status mean_backward(const Ctx *cx, Node *nd) {
  return (void)cx, spread_scaled(nd, one_over_len(nd)), GRPO_OK;
}

DEFINE_OP(sum, drop_axis, sum_forward, sum_backward);
DEFINE_OP(mean, drop_axis, mean_forward, mean_backward);

static Status max_shape(const Node *nd, Tensor *out, size_t *saved) {
  try(drop_axis(nd, out, saved));
  if (axis_of(nd->in[0], nd->attr.i[0]).len == 0)
    return fail(GRPO_ESHAPE, "max: the tensor has no elements");
  return GRPO_OK;
}

/* Returns the index of the largest element, the first of equals; NaN counts as largest. */
static size_t largest(const real *x, size_t n, size_t step) {
  size_t best = 0;
  for (size_t i = 0; i < n; i++) {
    if (isnan(x[i * step])) return i;
    if (x[i * step] > x[best * step]) best = i;
  }
  return best;
}

/* Visits the largest element of every line: its place in x and in the output. */
static void each_max(Node *nd, void (*fn)(Node *nd, size_t from, size_t to)) {
  const Axis a = axis_of(nd->in[0], nd->attr.i[0]);
  for (size_t o = 0; o < a.outer; o++)
    for (size_t i = 0; i < a.inner; i++) {
      const size_t at = o * a.len * a.inner + i;
      fn(nd, at + a.inner * largest(nd->in[0]->data + at, a.len, a.inner), o * a.inner + i);
    }
}
static void take(Node *nd, size_t from, size_t to) { nd->out->data[to] = nd->in[0]->data[from]; }
static void give(Node *nd, size_t from, size_t to) { nd->in[0]->grad[from] += nd->out->grad[to]; }

static Status max_forward(const Ctx *cx, Node *nd) { return (void)cx, each_max(nd, take), GRPO_OK; }
static Status max_backward(const Ctx *cx, Node *nd) {
  (void)cx;
  grad_added(nd->in[0]);
  each_max(nd, give);
  return GRPO_OK;
}
DEFINE_OP(max, max_shape, max_forward, max_backward);

/* ---- quantile of all elements: Attr.f[0] in 0 .. 1, linear interpolation ------------ */

static Status quantile_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)out;
  if (!(nd->attr.f[0] >= 0 && nd->attr.f[0] <= 1))
    return fail(GRPO_EARG, "quantile: %g is not between 0 and 1", nd->attr.f[0]);
  if (nd->in[0]->n == 0) return fail(GRPO_ESHAPE, "quantile: the tensor has no elements");
  *saved = sizeof(Quantile);
  return GRPO_OK;
}

static Status quantile_forward(const Ctx *cx, Node *nd) {
  const ArenaMark mark = arena_mark(cx->arena);
  const Tensor *x = nd->in[0];
  uint32_t *at = x->n <= UINT32_MAX ? arena_alloc(cx->arena, x->n * sizeof *at) : NULL;
  if (!at) return fail(GRPO_ENOMEM, "quantile: no memory for an order of %zu elements", x->n);
  for (size_t i = 0; i < x->n; i++) at[i] = (uint32_t)i;
  Quantile *q = nd->saved;
  *q = quantile_of(x->data, x->n, at, nd->attr.f[0]);
  nd->out->data[0] = (real)quantile_value(x->data, *q);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

static Status quantile_backward(const Ctx *cx, Node *nd) {
  (void)cx;
  const Quantile *q = nd->saved;
  real *dx = grad_added(nd->in[0]);
  const double dy = (double)nd->out->grad[0];
  dx[q->low] += (real)((1 - q->weight) * dy);
  dx[q->high] += (real)(q->weight * dy);
  return GRPO_OK;
}

DEFINE_OP(quantile, quantile_shape, quantile_forward, quantile_backward);

/* ---- softmax, log_softmax ------------------------------------------------------------ */

static Status keep_axis(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(axis_check(nd, nd->in[0], nd->attr.i[0]));
  return shape_as(nd->in[0], out);
}

typedef void (*LineFn)(Node *nd, size_t at, size_t n, size_t step);

static Status each_line(Node *nd, LineFn fn) {
  const Axis a = axis_of(nd->in[0], nd->attr.i[0]);
  for (size_t o = 0; o < a.outer; o++)
    for (size_t i = 0; i < a.inner; i++) fn(nd, o * a.len * a.inner + i, a.len, a.inner);
  return GRPO_OK;
}

static double log_sum_exp(const real *x, size_t n, size_t step) {
  if (n == 0) return 0;
  const double top = (double)x[step * largest(x, n, step)];
  double s = 0;
  if (isinf(top)) return top;
  for (size_t i = 0; i < n; i++) s += math_exp((double)x[i * step] - top);
  return top + math_log(s);
}

static void softmax_line(Node *nd, size_t at, size_t n, size_t step) {
  const real *x = nd->in[0]->data + at;
  const double lse = log_sum_exp(x, n, step);
  for (size_t i = 0; i < n; i++)
    nd->out->data[at + i * step] = (real)math_exp((double)x[i * step] - lse);
}
static void log_softmax_line(Node *nd, size_t at, size_t n, size_t step) {
  const real *x = nd->in[0]->data + at;
  const double lse = log_sum_exp(x, n, step);
  for (size_t i = 0; i < n; i++) nd->out->data[at + i * step] = (real)((double)x[i * step] - lse);
}

/* dx = p (dy - sum p dy) */
static void softmax_back_line(Node *nd, size_t at, size_t n, size_t step) {
  const real *p = nd->out->data + at, *dy = nd->out->grad + at;
  real *dx = nd->in[0]->grad + at;
  double dot = 0;
  for (size_t i = 0; i < n; i++) dot += (double)p[i * step] * (double)dy[i * step];
  for (size_t i = 0; i < n; i++)
    dx[i * step] += (real)((double)p[i * step] * ((double)dy[i * step] - dot));
}
/* dx = dy - p sum dy */
static void log_softmax_back_line(Node *nd, size_t at, size_t n, size_t step) {
  const real *y = nd->out->data + at, *dy = nd->out->grad + at;
  real *dx = nd->in[0]->grad + at;
  const double sum = line_sum(dy, n, step);
  for (size_t i = 0; i < n; i++)
    dx[i * step] += (real)((double)dy[i * step] - math_exp((double)y[i * step]) * sum);
}

static Status softmax_forward(const Ctx *cx, Node *nd) {
  return (void)cx, each_line(nd, softmax_line);
}
static Status log_softmax_forward(const Ctx *cx, Node *nd) {
  return (void)cx, each_line(nd, log_softmax_line);
}
static Status softmax_backward(const Ctx *cx, Node *nd) {
  return (void)cx, (void)grad_added(nd->in[0]), each_line(nd, softmax_back_line);
}
static Status log_softmax_backward(const Ctx *cx, Node *nd) {
  return (void)cx, (void)grad_added(nd->in[0]), each_line(nd, log_softmax_back_line);
}

DEFINE_OP(softmax, keep_axis, softmax_forward, softmax_backward);
DEFINE_OP(log_softmax, keep_axis, log_softmax_forward, log_softmax_backward);
