/* tape.h - define-by-run autograd over coarse operations.
 *
 * An operation is a row of ops.def.  `shape` validates and is where a caller's
 * mistakes are found; `forward` computes; `backward` adds into the gradients
 * of those inputs that need one.  A node whose inputs need no gradient is not
 * recorded, so inference is the same code with an empty tape.
 *
 * Everything a tape makes lives in its arena until tape_reset().  After
 * warm-up a step allocates nothing from the system.
 */
#ifndef GRPO_GRAD_TAPE_H
#define GRPO_GRAD_TAPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "grad/replay.h"
#include "grad/tensor.h"
#include "kern/kern.h"

enum { OP_MAX_IN = 5 };

typedef enum OpId {
#define OP(name, inputs, attributes) OP_##name,
#include "grad/ops.def"
#undef OP
  OP_COUNT
} OpId;

/* What an operation needs beside tensors.  `p`: a struct of attrs.h that outlives the graph. */
typedef struct Attr {
  int i[6];
  double f[2];
  const void *p;
} Attr;

typedef struct Node Node;

typedef struct OpDef {
  const char *name;
  int nin;
  const char *attributes;
  /* Fill out->ndim, dim and the bytes that forward saves for backward. */
  Status (*shape)(const Node *nd, Tensor *out, size_t *saved_bytes);
  Status (*forward)(const Ctx *cx, Node *nd);
  Status (*backward)(const Ctx *cx, Node *nd); /* NULL: no gradient flows (comparisons) */
  const OpReplay *replay; /* NULL: computed again, whatever was kept (replay.h) */
} OpDef;

struct Node {
  const OpDef *op;
  Attr attr;
  Tensor *in[OP_MAX_IN]; /* NULL where an optional input is absent */
  Tensor *out;
  void *saved;
};

extern const OpDef *const op_table[OP_COUNT];

typedef struct Tape {
  Ctx cx; /* arena: the tape's own */
  Arena arena;
  Node **node; /* recorded nodes, oldest first */
  int n, cap;
  bool off;       /* record nothing: inference */
  Replay *replay; /* results are kept or taken; NULL: neither */
  real *passing;  /* memory of the results that pass; NULL: none yet */
  size_t passing_n;
} Tape;

Status tape_init(Tape *t, Pool *pool); /* t must not move afterwards */
void tape_reset(Tape *t);              /* forgets all tensors and nodes; keeps the memory */
void tape_free(Tape *t);

/* A tensor in the tape's arena, not initialised. */
Status tape_tensor(Tape *t, int ndim, const int *dim, Tensor **out);
/* attr may be NULL */
Status tape_apply(Tape *t, OpId op, Tensor *const in[], const Attr *attr, Tensor **out);
/* For a result that is cheaper to make twice than to keep: the next that passes may take its memory.
 * Only linear and lora_linear take it, and make it again in backward where a weight's gradient needs
 * it.  The operation keeps nothing for backward, which does not read the result.  The memory is taken
 * from the tape's arena by the first: who releases the arena to a mark before that uses tape_apply(). */
Status tape_apply_passing(Tape *t, OpId op, Tensor *const in[], const Attr *attr, Tensor **out);
/* The result, of the same size, takes the place of input `over`, which nobody reads any more: neither
 * backward of what made it nor of this operation, which works in place. */
Status tape_apply_over(Tape *t, OpId op, Tensor *const in[], const Attr *attr, int over,
                       Tensor **out);
/* Adds to the gradients of the leaves (parameters, tensors that no node made); those of results on
 * the way are used up and their buffers reused.  A second call adds another result's gradients.
 * loss is a number: seeds 1 */
Status tape_backward(Tape *t, Tensor *loss);
/* seed: d (something) / d out, out->n reals */
Status tape_backward_from(Tape *t, Tensor *out, const real *seed);
/* A seed for another result of the same graph: the next tape_backward_from() takes both through the
 * nodes at once. */
Status tape_seed(Tape *t, Tensor *out, const real *seed);
/* The same through the nodes first .. only; for files of this layer that record on their own. */
Status tape_backward_since(Tape *t, int first, Tensor *out, const real *seed);
Status tape_record(Tape *t, Node *nd); /* nd lives in the tape's arena */

/* For backward functions of those that take passing results: makes x's data again if it passed. */
Status tensor_again(const Ctx *cx, const Tensor *x);
/* For backward functions: the buffer to contribute to and whether to add (*add) or overwrite.  The
 * gradient must already exist (the tape sees to that); marks it live. */
real *grad_into(Tensor *t, bool *add);
/* The same for code that can only add: zeroes a buffer that holds nothing yet. */
real *grad_added(Tensor *t);
/* For the last thing that a backward does: its output's gradient, which nobody needs afterwards, is
 * added to that of an input of the same size, or becomes it. */
void grad_hand_on(const Ctx *cx, Node *nd, Tensor *to);

#endif
