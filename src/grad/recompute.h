/* recompute.h - gradient checkpointing: a part of the graph that keeps only its input.
 *
 * tape_recompute() runs fn without recording and puts one node in its place.  Backward runs fn
 * again, recording this time, walks back through it and drops what it recorded.  fn must compute
 * the same bits both times; every gradient then has the bits that plain recording gives.
 *
 * fn may read other tensors of the graph, which stay; those that may need a gradient are named.
 */
#ifndef GRPO_GRAD_RECOMPUTE_H
#define GRPO_GRAD_RECOMPUTE_H

#include "grad/tape.h"

/* y has the shape of x. */
typedef Status (*RecomputeFn)(void *user, Tape *t, Tensor *x, Tensor **y);
enum { RECOMPUTE_OTHERS = 3 };
/* user outlives the graph.  others: tensors that fn reads beside x, NULL where there is none.  With
 * nothing to record (t->off) the result is the same. */
Status tape_recompute(Tape *t, RecomputeFn fn, void *user, Tensor *x,
                      Tensor *const others[RECOMPUTE_OTHERS], Tensor **y);

#endif
