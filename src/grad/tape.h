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

#include <stdbool.h>
#include <stddef.h>

#include "grad/ops.h"
#include "grad/replay.h"

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

#endif
