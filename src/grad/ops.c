#include "grad/ops.h"

#include "base/mem.h"
#include "kern/elementwise.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- shapes ----------------------------------------------------------------- */

Status shape_as(const Tensor *x, Tensor *y) {
  y->ndim = x->ndim;
  memcpy(y->dim, x->dim, sizeof y->dim);
  return GRPO_OK;
}

ShapeText shape_text(const Tensor *x) {
  ShapeText t;
  size_t at = 0;
  t.s[at++] = '[';
  for (int i = 0; i < x->ndim && at < sizeof t.s - 16; i++)
    at += (size_t)snprintf(t.s + at, sizeof t.s - at, i ? ", %d" : "%d", x->dim[i]);
  t.s[at++] = ']';
  t.s[at] = 0;
  return t;
}

Axis axis_of(const Tensor *x, int axis) {
  if (axis < 0) return (Axis){1, x->n, 1};
  Axis a = {1, (size_t)x->dim[axis], 1};
  for (int i = 0; i < axis; i++) a.outer *= (size_t)x->dim[i];
  for (int i = axis + 1; i < x->ndim; i++) a.inner *= (size_t)x->dim[i];
  return a;
}

Status axis_check(const Node *nd, const Tensor *x, int axis) {
  if (axis >= 0 && axis < x->ndim) return GRPO_OK;
  return fail(GRPO_ESHAPE, "%s: axis %d of a tensor of shape %s: it has %d dimensions",
              nd->op->name, axis + 1, shape_text(x).s, x->ndim);
}

Status need_inputs(const Node *nd) {
  for (int i = 0; i < nd->op->nin; i++)
    if (!nd->in[i]) return fail(GRPO_EARG, "%s: input %d is missing", nd->op->name, i + 1);
  return GRPO_OK;
}

Status need_attr(const Node *nd) {
  return nd->attr.p ? GRPO_OK : fail(GRPO_EARG, "%s: attributes are missing", nd->op->name);
}

/* ---- one operation ---------------------------------------------------------- */

static Status count_elements(const OpDef *def, Tensor *y) {
  y->n = 1;
  for (int i = 0; i < y->ndim; i++) {
    if (y->dim[i] && y->n > (size_t)INT_MAX * 64 / (size_t)y->dim[i])
      return fail(GRPO_ESHAPE, "%s: the result would be too large", def->name);
    y->n *= (size_t)y->dim[i];
  }
  return GRPO_OK;
}

/* The input that may be a quantised weight (Tensor.quant); -1: none. */
static int quant_input(const OpDef *def) {
  if (def == &op_embedding) return 0;
  const bool second =
      def == &op_linear || def == &op_lora_linear || def == &op_loghead || def == &op_lora_loghead;
  return second ? 1 : -1;
}

static bool takes_transient(const OpDef *def, int input) {
  return input == 0 && (def == &op_linear || def == &op_lora_linear);
}

static const OpKernel *kernel_of(const Ctx *cx, const OpDef *def) {
  const OpKernel *k = cx->backend ? &cx->backend->kernel[def->id] : NULL;
  return k && k->forward ? k : &def->cpu;
}

Status op_begin(const Ctx *cx, const OpDef *def, Tensor *const in[], const Attr *attr, bool record,
                Node *nd, Tensor *y, size_t *saved_bytes) {
  *nd = (Node){.op = def, .kernel = kernel_of(cx, def), .out = y};
  *y = (Tensor){0};
  *saved_bytes = 0;
  if (attr) nd->attr = *attr;
  bool any = false;
  for (int i = 0; i < def->nin; i++) {
    nd->in[i] = in[i];
    any |= wants_grad(in[i]);
    if (in[i] && in[i]->quant && i != quant_input(def))
      return fail(GRPO_EARG,
                  "%s: input %d is a quantised weight, which this operation cannot read; load the "
                  "model with dtype = \"f32\"",
                  def->name, i + 1);
    if (in[i] && in[i]->again && !takes_transient(def, i))
      return fail(GRPO_EARG, "%s: input %d is a transient result, whose memory has been reused",
                  def->name, i + 1);
  }
  if (!in[0]) return fail(GRPO_EARG, "%s: input 1 is missing", def->name);
  try(def->shape(nd, y, saved_bytes));
  y->needs_grad = any && record && def->cpu.backward;
  return count_elements(def, y);
}

Status tensor_again(const Ctx *cx, const Tensor *x) {
  return x->again ? x->again->kernel->forward(cx, x->again) : GRPO_OK;
}

/* ---- gradients -------------------------------------------------------------- */

real *grad_into(Tensor *t, bool *add) {
  *add = t->grad_live;
  t->grad_live = true;
  return t->grad;
}

real *grad_added(Tensor *t) {
  if (!t->grad_live) mem_zero(t->grad, t->n * sizeof *t->grad);
  t->grad_live = true;
  return t->grad;
}

void grad_move(const Ctx *cx, Node *nd, Tensor *to) {
  real *from = nd->out->grad;
  if (to->grad_live) {
    vec_acc(cx, to->n, from, to->grad);
  } else if (to->grad_borrowed && nd->out->grad_borrowed) {
    nd->out->grad = to->grad;
    to->grad = from;
  } else {
    vec_copy(cx, to->n, from, to->grad);
  }
  to->grad_live = true;
}
