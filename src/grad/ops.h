/* ops.h - what an operation is: its definition, its node in a graph, and what the files that define
 * operations share.
 *
 * An operation is a row of ops.def.  `shape` validates and is where a caller's mistakes are found;
 * `forward` computes; `backward` adds into the gradients of those inputs that need one.  A file
 * defines its operations with DEFINE_OP: the number of inputs and the
 * attributes come from ops.def, so that a row is the only place that says them.  Its forward and
 * backward are the CPU's; a device has a table of its own, which a context names (Ctx.backend).
 */
#ifndef GRPO_GRAD_OPS_H
#define GRPO_GRAD_OPS_H

#include <stddef.h>

#include "base/err.h"
#include "grad/tensor.h"
#include "kern/kern.h"

enum { OP_MAX_IN = 5 };

typedef enum OpId {
#define OP(name, inputs, attributes) OP_##name,
#include "grad/ops.def"
#undef OP
  OP_COUNT
} OpId;

/* The parameters of an operation beside its tensors.  `p`: a struct of attrs.h that outlives the
 * graph. */
typedef struct Attr {
  int i[6];
  double f[2];
  const void *p;
} Attr;

typedef struct Node Node;

typedef struct OpKernel {
  Status (*forward)(const Ctx *cx, Node *nd);
  Status (*backward)(const Ctx *cx, Node *nd); /* NULL: no gradient flows (comparisons) */
} OpKernel;

/* A device.  Where a row has no `forward`, the CPU computes; else gradients flow as on the CPU. */
typedef struct Backend {
  const char *name;
  const OpKernel *kernel; /* [OP_COUNT] */
} Backend;

typedef struct OpDef {
  const char *name;
  OpId id;
  int nin;
  const char *attributes;
  /* Sets out->ndim, dim and the number of bytes that forward saves for backward. */
  Status (*shape)(const Node *nd, Tensor *out, size_t *saved_bytes);
  OpKernel cpu;
  const struct OpReplay
      *replay; /* NULL: always computed, even when results are replayed (replay.h) */
} OpDef;

struct Node {
  const OpDef *op;
  const OpKernel *kernel; /* computes it, forward and backward */
  Attr attr;
  Tensor *in[OP_MAX_IN]; /* NULL where an optional input is absent */
  Tensor *out;
  void *saved;
};

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
  const OpDef op_##name = {#name,                                                                  \
                           OP_##name,                                                              \
                           OP_INPUTS_##name,                                                       \
                           op_attributes_##name,                                                   \
                           shape,                                                                  \
                           {forward, backward},                                                    \
                           replay}

/* Fills nd and y for an operation: checks the inputs, calls `shape`, sets y->n and y->needs_grad
 * (false with record == false), and takes the kernel of cx's
 * backend.  Allocates nothing. */
Status op_begin(const Ctx *cx, const OpDef *def, Tensor *const in[], const Attr *attr, bool record,
                Node *nd, Tensor *y, size_t *saved_bytes);

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

/* For the backward of operations that take transient results (tape_apply_transient): computes
 * x's data again if its memory has been reused. */
Status tensor_again(const Ctx *cx, const Tensor *x);
/* For backward functions: returns the buffer to contribute to, and whether to add (*add) or to
 * overwrite; marks the gradient live.  The tape has allocated the buffer. */
real *grad_into(Tensor *t, bool *add);
/* Like grad_into, for code that can only add: zeroes a buffer that holds nothing yet. */
real *grad_added(Tensor *t);
/* Moves the gradient of the node's output to an input of the same size, or adds it there.
 * Nothing may need the output's gradient afterwards, so this is the last action of a backward. */
void grad_move(const Ctx *cx, Node *nd, Tensor *to);

static inline int last_dim(const Tensor *x) { return x->ndim ? x->dim[x->ndim - 1] : 1; }
static inline bool wants_grad(const Tensor *x) { return x && x->needs_grad; }

#endif
