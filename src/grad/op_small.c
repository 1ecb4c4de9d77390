/* op_small.c - elementwise operations on two or three tensors, with numpy's broadcasting: shapes
 * are aligned at the last dimension, and a dimension of 1 (or a missing one) repeats.
 *
 * The work is cut into runs along the last dimension, where an input's step is 1, or 0 if it
 * repeats.
 */
#include <math.h>
#include <string.h>

#include "base/exponential.h"
#include "grad/ops.h"
#include "kern/elementwise.h"

/* ---- broadcasting -------------------------------------------------------------- */

static int dim_at(const Tensor *x, int ndim, int i) { /* of x, aligned to ndim dimensions */
  const int at = i - (ndim - x->ndim);
  return at < 0 ? 1 : x->dim[at];
}

static Status broadcast_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(need_inputs(nd));
  try(shape_as(nd->in[0], out));
  for (int k = 1; k < nd->op->nin; k++) {
    const Tensor *x = nd->in[k], so_far = *out;
    out->ndim = x->ndim > out->ndim ? x->ndim : out->ndim;
    for (int i = 0; i < out->ndim; i++) {
      const int a = dim_at(&so_far, out->ndim, i), b = dim_at(x, out->ndim, i);
      if (a != b && a != 1 && b != 1)
        return fail(GRPO_ESHAPE, "%s: shapes %s and %s cannot be broadcast together", nd->op->name,
                    shape_text(&so_far).s, shape_text(x).s);
      out->dim[i] = a == 1 ? b : a;
    }
  }
  return GRPO_OK;
}

/* A run: `n` neighbouring outputs from `out`, input k from at[k] in steps of step[k]. */
typedef struct Run {
  size_t n, out, at[OP_MAX_IN], step[OP_MAX_IN];
} Run;

typedef void (*RunFn)(Node *nd, const Run *r);

static void strides(const Tensor *x, const Tensor *out, size_t *stride) {
  size_t s = 1;
  for (int i = out->ndim; i-- > 0;) {
    const int d = dim_at(x, out->ndim, i);
    stride[i] = d == 1 ? 0 : s;
    s *= (size_t)d;
  }
}

static bool all_plain(const Node *nd) {
  for (int k = 0; k < nd->op->nin; k++)
    if (nd->in[k]->n != nd->out->n) return false;
  return true;
}

/* Tensors of one shape are cut into pieces for the pool. */
typedef struct Plain {
  Node *nd;
  RunFn fn;
} Plain;

static void plain_piece(void *arg, size_t at, size_t n) {
  const Plain *p = arg;
  const Run r = {.n = n, .out = at, .at = {at, at, at}, .step = {1, 1, 1}};
  p->fn(p->nd, &r);
}

static void each_run(const Ctx *cx, Node *nd, RunFn fn) {
  const Tensor *out = nd->out;
  const int last = out->ndim - 1, nin = nd->op->nin;
  size_t stride[OP_MAX_IN][TENSOR_DIMS] = {{0}}, index[TENSOR_DIMS] = {0};
  Run r = {.n = out->n, .step = {1, 1, 1}};
  if (out->n == 0) return;
  if (last < 0 || all_plain(nd)) {
    each_piece(cx, out->n, plain_piece, &(Plain){nd, fn});
    return;
  }
  for (int k = 0; k < nin; k++) {
    strides(nd->in[k], out, stride[k]);
    r.step[k] = stride[k][last];
  }
  r.n = (size_t)out->dim[last];
  for (r.out = 0; r.out < out->n; r.out += r.n) {
    fn(nd, &r);
    for (int i = last - 1; i >= 0; i--) { /* count up the outer dimensions */
      for (int k = 0; k < nin; k++) r.at[k] += stride[k][i];
      if (++index[i] < (size_t)out->dim[i]) break;
      for (int k = 0; k < nin; k++) r.at[k] -= stride[k][i] * index[i];
      index[i] = 0;
    }
  }
}

/* The gradient of input k along a run; d: d loss / d input at output i.  A repeated input sums. */
#define ADD_ALONG(k, d)                                                                            \
  do {                                                                                             \
    real *to_ = nd->in[k]->grad + r->at[k];                                                        \
    if (r->step[k]) {                                                                              \
      for (size_t i = 0; i < r->n; i++) to_[i] += (real)(d);                                       \
    } else {                                                                                       \
      double sum_ = 0;                                                                             \
      for (size_t i = 0; i < r->n; i++) sum_ += (double)(d);                                       \
      *to_ += (real)sum_;                                                                          \
    }                                                                                              \
  } while (0)

static Status back_runs(const Ctx *cx, Node *nd, RunFn fn) {
  for (int k = 0; k < nd->op->nin; k++)
    if (wants_grad(nd->in[k])) grad_added(nd->in[k]);
  each_run(cx, nd, fn);
  return GRPO_OK;
}

/* ---- two inputs: x and z give y; dx and dz are multiplied by d loss / d y --------- */

#define BINARY_FORWARD(name, y)                                                                    \
  static void name##_run(Node *nd, const Run *r) {                                                 \
    const real *a = nd->in[0]->data + r->at[0], *b = nd->in[1]->data + r->at[1];                   \
    real *to = nd->out->data + r->out;                                                             \
    for (size_t i = 0; i < r->n; i++) {                                                            \
      const real x = a[i * r->step[0]], z = b[i * r->step[1]];                                     \
      to[i] = (real)(y);                                                                           \
    }                                                                                              \
  }                                                                                                \
  static Status name##_forward(const Ctx *cx, Node *nd) {                                          \
    each_run(cx, nd, name##_run);                                                                  \
    return GRPO_OK;                                                                                \
  }

#define BINARY_BACKWARD(name, dx, dz)                                                              \
  static inline double name##_dx(double x, double z) { return (void)x, (void)z, (dx); }            \
  static inline double name##_dz(double x, double z) { return (void)x, (void)z, (dz); }            \
  static void name##_back_run(Node *nd, const Run *r) {                                            \
    const real *a = nd->in[0]->data + r->at[0], *b = nd->in[1]->data + r->at[1];                   \
    const real *dy = nd->out->grad + r->out;                                                       \
    const size_t sa = r->step[0], sb = r->step[1];                                                 \
    if (wants_grad(nd->in[0]))                                                                     \
      ADD_ALONG(0, (double)dy[i] * name##_dx((double)a[i * sa], (double)b[i * sb]));               \
    if (wants_grad(nd->in[1]))                                                                     \
      ADD_ALONG(1, (double)dy[i] * name##_dz((double)a[i * sa], (double)b[i * sb]));               \
  }                                                                                                \
  static Status name##_backward(const Ctx *cx, Node *nd) {                                         \
    return back_runs(cx, nd, name##_back_run);                                                     \
  }                                                                                                \
  DEFINE_OP(name, broadcast_shape, name##_forward, name##_backward);

#define BINARY(name, y, dx, dz)                                                                    \
  BINARY_FORWARD(name, y)                                                                          \
  BINARY_BACKWARD(name, dx, dz)

#define COMPARISON(name, y)                                                                        \
  BINARY_FORWARD(name, y)                                                                          \
  DEFINE_OP(name, broadcast_shape, name##_forward, NULL);

/* At a tie both inputs get half: so min(r A, clip(r) A) has the gradient A inside the bounds. */
static inline double share(double x, double z) { return x < z ? 1 : x == z ? .5 : 0; }
static inline double power_dz(double x, double z) {
  return x == 0 && z >= 0 ? 0 : math_pow(x, z) * math_log(x);
}
static inline double power_dx(double x, double z) { return z == 0 ? 0 : z * math_pow(x, z - 1); }

/* clang-format off */
BINARY(sub, x - z, 1, -1)
BINARY(mul, x * z, z, x)
BINARY(div, x / z, 1 / z, -x / (z * z))
BINARY(pow, math_pow((double)x, (double)z), power_dx(x, z), power_dz(x, z))
BINARY(minimum, x != x || x < z ? x : z, share(x, z), share(z, x))
BINARY(maximum, x != x || x > z ? x : z, share(z, x), share(x, z))
COMPARISON(gt, x > z)
COMPARISON(ge, x >= z)
COMPARISON(lt, x < z)
COMPARISON(le, x <= z)
COMPARISON(eq, x == z)
/* clang-format on */

/* ---- add: the residual stream runs through it, so equal shapes go to the kernels ---- */

static void add_run(Node *nd, const Run *r) {
  const real *a = nd->in[0]->data + r->at[0], *b = nd->in[1]->data + r->at[1];
  real *to = nd->out->data + r->out;
  for (size_t i = 0; i < r->n; i++) to[i] = a[i * r->step[0]] + b[i * r->step[1]];
}

static void add_back_run(Node *nd, const Run *r) {
  const real *dy = nd->out->grad + r->out;
  for (int k = 0; k < 2; k++)
    if (wants_grad(nd->in[k])) ADD_ALONG(k, dy[i]);
}

static Status add_forward(const Ctx *cx, Node *nd) {
  if (all_plain(nd))
    vec_add(cx, nd->out->n, nd->in[0]->data, nd->in[1]->data, nd->out->data);
  else
    each_run(cx, nd, add_run);
  return GRPO_OK;
}

static Status add_backward(const Ctx *cx, Node *nd) {
  if (!all_plain(nd)) return back_runs(cx, nd, add_back_run);
  if (wants_grad(nd->in[1])) {
    bool add;
    real *d = grad_into(nd->in[1], &add);
    (add ? vec_acc : vec_copy)(cx, nd->out->n, nd->out->grad, d);
  }
  if (wants_grad(nd->in[0])) grad_move(cx, nd, nd->in[0]);
  return GRPO_OK;
}

DEFINE_OP(add, broadcast_shape, add_forward, add_backward);

/* ---- where: cond, a, b -------------------------------------------------------------- */

static void where_run(Node *nd, const Run *r) {
  const real *cond = nd->in[0]->data + r->at[0], *a = nd->in[1]->data + r->at[1],
             *b = nd->in[2]->data + r->at[2];
  real *to = nd->out->data + r->out;
  for (size_t i = 0; i < r->n; i++)
    to[i] = cond[i * r->step[0]] != 0 ? a[i * r->step[1]] : b[i * r->step[2]];
}

static void where_back_run(Node *nd, const Run *r) {
  const real *cond = nd->in[0]->data + r->at[0], *dy = nd->out->grad + r->out;
  const size_t step = r->step[0];
  if (wants_grad(nd->in[1])) ADD_ALONG(1, cond[i * step] != 0 ? dy[i] : 0);
  if (wants_grad(nd->in[2])) ADD_ALONG(2, cond[i * step] != 0 ? 0 : dy[i]);
}

static Status where_forward(const Ctx *cx, Node *nd) {
  (void)cx;
  each_run(cx, nd, where_run);
  return GRPO_OK;
}

static Status where_backward(const Ctx *cx, Node *nd) {
  (void)cx;
  return back_runs(cx, nd, where_back_run);
}

DEFINE_OP(where, broadcast_shape, where_forward, where_backward);
