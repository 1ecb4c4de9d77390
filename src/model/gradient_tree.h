/* gradient_tree.h - the gradient of a step, summed in an order that does not depend on who sums.
 *
 * The leaves of a binary tree are blocks of consecutive groups of a step (for examples: units).
 * Within a leaf, gradients are added as the backward passes come.  Leaves 2i and 2i + 1 are added
 * to one another, then pairs of these, and so on; what is left of an incomplete tree is added from
 * the right.  A process that has consecutive leaves therefore hands over few partial sums, and the
 * total has the same bits for every cut.
 *
 * Leaves come in order, and sums that wait for their other half need memory: of the size of the
 * gradient log2(leaves) times, rounded down, in one process, and on a rank as often as its leaves
 * need.  Unless the number of blocks is given, a block is one group, but larger where the memory of
 * one process would be more than GRADIENT_TREE_BYTES; where one sum is larger than that, a step is
 * one block.  How a step is cut is a function of its groups, of how many numbers are trained, and
 * of the number that was given.
 */
#ifndef GRPO_MODEL_GRADIENT_TREE_H
#define GRPO_MODEL_GRADIENT_TREE_H

#include "kern/kern.h"
#include "model/model.h"

#define GRADIENT_TREE_BYTES ((size_t)512 << 20)

typedef struct GradientTree GradientTree;

/* The steps of a tree, and who sums them. */
typedef struct TreeSteps {
  int fewest, groups; /* a step has fewest .. groups groups, from 1 */
  int blocks;         /* the most leaves of a step; 0: what GRADIENT_TREE_BYTES allows */
  int rank, ranks;    /* this process is rank 0 .. ranks - 1 */
} TreeSteps;

/* A tree for the trainable parameters of m, which outlives it, and for `more`, a tensor with a
 * gradient (NULL: none).  It takes the memory of these steps. */
Status gradient_tree_new(GradientTree **out, Model *m, Tensor *more, const TreeSteps *steps);
void gradient_tree_free(GradientTree *t); /* NULL is fine */
/* The most sums that wait at once in these steps, if ranks share them; numbers: how many are
 * trained. */
int gradient_tree_sums(uint64_t numbers, const TreeSteps *steps);
size_t gradient_tree_bytes(uint64_t numbers, const TreeSteps *steps); /* of these sums */
/* The numbers that a rank sends and gets at once in these steps, for which a tree has room too. */
size_t gradient_tree_exchange(uint64_t numbers, const TreeSteps *steps);
/* Groups that make a leaf. */
int gradient_tree_block(uint64_t numbers, int groups, int blocks);

/* A step begins, with no gradient yet.  shared: this rank enters only the groups of its range, and
 * the end adds the gradients of all ranks; else it enters all groups.  ENOMEM: the step needs more
 * sums than there is memory for. */
Status gradient_tree_begin(GradientTree *t, int groups, bool shared);
/* The backward passes that follow are of this group, 0, 1, ...; groups may be left out. */
void gradient_tree_enter(GradientTree *t, const Ctx *cx, int group);
int gradient_tree_waiting(const GradientTree *t); /* sums that wait now */
/* The gradients of the parameters become those of the step; zeros where there were none.  If ranks
 * share the step, a rank has only the gradients of its slice (slices.h) and of `more`, and ENOMEM
 * and EIO are possible. */
Status gradient_tree_end(GradientTree *t, const Ctx *cx);

/* The most ranks that can share a step of `groups` groups; then rank r has the groups *first ..
 * *end - 1. */
int gradient_tree_leaves(const GradientTree *t, int groups);
void gradient_tree_range(const GradientTree *t, int groups, int rank, int *first, int *end);

#endif
