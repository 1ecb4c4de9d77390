/* tape.h - define-by-run autograd over coarse operations.
 *
 * An operation (ops.h) whose inputs need no gradient is not recorded, so inference is the
 * same code with an empty tape.
 *
 * Everything a tape makes lives in its arena until tape_reset().  After
 * warm-up a step allocates nothing from the system.
 */
#ifndef GRPO_GRAD_TAPE_H
#define GRPO_GRAD_TAPE_H

#include <stdbool.h>
#include <stddef.h>

#include "grad/ops.h"
#include "grad/replay.h"

typedef struct Tape Tape;
/* Looks at a node whose result has just been computed, or, with `backward`, at the gradients of its
 * inputs.  at: its place among the recorded nodes, or the number of those so far.  A status other
 * than GRPO_OK ends the pass, which returns it. */
typedef Status (*TapeLook)(void *user, const Tape *t, const Node *nd, int at, bool backward);

struct Tape {
  Ctx cx; /* arena: the tape's own */
  Arena arena;
  Node **node; /* recorded nodes, oldest first */
  int n, cap;
  bool off;        /* record nothing: inference */
  Replay *replay;  /* records results or takes recorded ones; NULL: neither */
  real *transient; /* memory that transient results share; NULL: none yet */
  size_t transient_n;
  TapeLook look; /* NULL: nobody looks */
  void *look_user;
};

Status tape_init(Tape *t, Pool *pool); /* t must not move afterwards */
void tape_reset(Tape *t);              /* forgets all tensors and nodes; keeps the memory */
void tape_free(Tape *t);

/* A tensor in the tape's arena, not initialised. */
Status tape_tensor(Tape *t, int ndim, const int *dim, Tensor **out);
/* attr may be NULL */
Status tape_apply(Tape *t, OpId op, Tensor *const in[], const Attr *attr, Tensor **out);
/* For a transient result, which is cheaper to compute twice than to keep: all such results share
 * one buffer.  Only linear and lora_linear accept one as input, and compute it again in backward
 * where a weight's gradient needs it.  The operation must save nothing for backward, and its
 * backward must not read the result.  The first transient result takes the buffer from the
 * tape's arena: a caller that releases the arena to an earlier mark uses tape_apply(). */
Status tape_apply_transient(Tape *t, OpId op, Tensor *const in[], const Attr *attr, Tensor **out);
/* Computes the result in the memory of input `over`, which has the same size.  Nothing may read
 * that input afterwards: neither the backward of the operation that made it nor of this one. */
Status tape_apply_over(Tape *t, OpId op, Tensor *const in[], const Attr *attr, int over,
                       Tensor **out);
/* Adds to the gradients of the leaves, which are parameters and tensors that no node made.
 * Gradients of intermediate results are dropped and their buffers reused.  A second call adds
 * the gradients of another result.  The loss is a single number, whose own gradient is 1. */
Status tape_backward(Tape *t, Tensor *loss);
/* seed: d (something) / d out, out->n reals */
Status tape_backward_from(Tape *t, Tensor *out, const real *seed);
/* Adds the gradient of another result of the same graph: the next tape_backward_from() sends both
 * back at once. */
Status tape_seed(Tape *t, Tensor *out, const real *seed);
/* Like tape_backward_from, through the nodes from `first` on; for files of src/grad that record
 * themselves. */
Status tape_backward_since(Tape *t, int first, Tensor *out, const real *seed);
Status tape_record(Tape *t, Node *nd); /* nd lives in the tape's arena */

#endif
