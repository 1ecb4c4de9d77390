/* recompute.h - gradient checkpointing: a part of the graph that keeps only its input.
 *
 * tape_recompute() runs fn without recording and puts one node in its place.  Backward runs fn
 * again, recording this time, walks back through it and drops what it recorded.  fn must compute
 * the same bits both times; every gradient then has the bits that plain recording gives.
 */
#ifndef GRPO_GRAD_RECOMPUTE_H
#define GRPO_GRAD_RECOMPUTE_H

#include "grad/tape.h"

/* y has the shape of x. */
typedef Status (*RecomputeFn)(void *user, Tape *t, Tensor *x, Tensor **y);
/* user outlives the graph.  With nothing to record (t->off) the result is the same. */
Status tape_recompute(Tape *t, RecomputeFn fn, void *user, Tensor *x, Tensor **y);

#endif
