/* ops.h - what the files of operations share; for src/grad only.
 *
 * A file defines its operations with DEFINE_OP: the number of inputs and the
 * attributes come from ops.def, so that a row is the only place that says them.
 */
#ifndef GRPO_GRAD_OPS_H
#define GRPO_GRAD_OPS_H

#include <stddef.h>

#include "base/err.h"
#include "grad/tape.h"

#define OP(name, inputs, attributes)                                                               \
  enum { OP_INPUTS_##name = inputs };                                                              \
  extern const char op_attributes_##name[];                                                        \
  extern const OpDef op_##name;
#include "grad/ops.def"
#undef OP

#define DEFINE_OP(name, shape, forward, backward)                                                  \
  DEFINE_REPLAYED_OP(name, shape, forward, backward, NULL)
/* replay: an OpReplay */
#define DEFINE_REPLAYED_OP(name, shape, forward, backward, replay)                                 \
  const OpDef op_##name = {                                                                        \
      #name, OP_INPUTS_##name, op_attributes_##name, shape, forward, backward, replay}

/* Fill nd and y for an operation: checks inputs, asks `shape`, sets y->n and y->needs_grad (false
 * with record == false).  Allocates nothing. */
Status op_begin(const OpDef *def, Tensor *const in[], const Attr *attr, bool record, Node *nd,
                Tensor *y, size_t *saved_bytes);

/* y gets x's shape. */
Status shape_as(const Tensor *x, Tensor *y);
/* GRPO_EARG when one of the node's inputs is absent. */
Status need_inputs(const Node *nd);
/* GRPO_EARG when the operation has no attributes. */
Status need_attr(const Node *nd);

typedef struct ShapeText {
  char s[64];
} ShapeText;
ShapeText shape_text(const Tensor *x); /* "[2, 3]", for messages */

/* The dimensions before, at and after an axis. */
typedef struct Axis {
  size_t outer, len, inner;
} Axis;
Axis axis_of(const Tensor *x, int axis); /* axis -1: everything is `len` */
Status axis_check(const Node *nd, const Tensor *x, int axis);

static inline int last_dim(const Tensor *x) { return x->ndim ? x->dim[x->ndim - 1] : 1; }
static inline bool wants_grad(const Tensor *x) { return x && x->needs_grad; }

#endif
