/* op_unary.c - elementwise operations on one tensor.  Each formula is written once, in double,
 * with x the input and y the output. */
#include <math.h>

#include "base/exponential.h"
#include "grad/ops.h"
#include "kern/elementwise.h"

static Status same_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  return shape_as(nd->in[0], out);
}

#define UNARY_FORWARD(name, y_of_x)                                                                \
  static void name##_piece(void *arg, size_t at, size_t n) {                                       \
    const Node *nd = arg;                                                                          \
    for (size_t i = at; i < at + n; i++) {                                                         \
      const double x = (double)nd->in[0]->data[i];                                                 \
      nd->out->data[i] = (real)(y_of_x);                                                           \
    }                                                                                              \
  }                                                                                                \
  static Status name##_forward(const Ctx *cx, Node *nd) {                                          \
    each_piece(cx, nd->out->n, name##_piece, nd);                                                  \
    return GRPO_OK;                                                                                \
  }

#define UNARY_BACKWARD(name, dy_dx)                                                                \
  static void name##_back_piece(void *arg, size_t at, size_t n) {                                  \
    const Node *nd = arg;                                                                          \
    for (size_t i = at; i < at + n; i++) {                                                         \
      const double x = (double)nd->in[0]->data[i], y = (double)nd->out->data[i];                   \
      (void)x, (void)y;                                                                            \
      nd->in[0]->grad[i] += (real)((double)nd->out->grad[i] * (dy_dx));                            \
    }                                                                                              \
  }                                                                                                \
  static Status name##_backward(const Ctx *cx, Node *nd) {                                         \
    grad_added(nd->in[0]);                                                                         \
    each_piece(cx, nd->out->n, name##_back_piece, nd);                                             \
    return GRPO_OK;                                                                                \
  }

#define UNARY(name, y_of_x, dy_dx)                                                                 \
  UNARY_FORWARD(name, y_of_x)                                                                      \
  UNARY_BACKWARD(name, dy_dx)                                                                      \
  DEFINE_OP(name, same_shape, name##_forward, name##_backward);

static double sigmoid_of(double x) {
  if (x >= 0) return 1 / (1 + math_exp(-x));
  const double e = math_exp(x); /* does not overflow */
  return e / (1 + e);
}
static double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; /* 0 and NaN stay */ }
static double silu_slope(double x) {
  const double s = sigmoid_of(x);
  return s * (1 + x * (1 - s));
}

/* clang-format off */
UNARY(neg, -x, -1)
UNARY(exp, math_exp(x), y)
UNARY(log, math_log(x), 1 / x)
UNARY(sqrt, sqrt(x), .5 / y)
UNARY(abs, fabs(x), sign_of(x))
UNARY(relu, x < 0 ? 0 : x, x > 0)
UNARY(silu, x * sigmoid_of(x), silu_slope(x))
UNARY(sigmoid, sigmoid_of(x), y * (1 - y))
UNARY(tanh, math_tanh(x), 1 - y * y)
/* clang-format on */

UNARY_FORWARD(sign, sign_of(x))
DEFINE_OP(sign, same_shape, sign_forward, NULL);

/* ---- gelu, tanh approximation --------------------------------------------------- */

static Status gelu_run(const Ctx *cx, Node *nd) {
  gelu_forward(cx, nd->out->n, nd->in[0]->data, nd->out->data);
  return GRPO_OK;
}

static Status gelu_back(const Ctx *cx, Node *nd) {
  bool add;
  real *dx = grad_into(nd->in[0], &add);
  gelu_backward(cx, nd->out->n, nd->in[0]->data, nd->out->grad, dx, add);
  return GRPO_OK;
}

DEFINE_OP(gelu, same_shape, gelu_run, gelu_back);

/* ---- clamp: Attr.f[0] .. Attr.f[1] ----------------------------------------------- */

static Status clamp_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  if (nd->attr.f[0] > nd->attr.f[1])
    return fail(GRPO_EARG, "clamp: the lower bound %g is above the upper bound %g", nd->attr.f[0],
                nd->attr.f[1]);
  return shape_as(nd->in[0], out);
}

UNARY_FORWARD(clamp, x<nd->attr.f[0] ? nd->attr.f[0] : x> nd->attr.f[1] ? nd->attr.f[1] : x)
UNARY_BACKWARD(clamp, x >= nd->attr.f[0] && x <= nd->attr.f[1])
DEFINE_OP(clamp, clamp_shape, clamp_forward, clamp_backward);
