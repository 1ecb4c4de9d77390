/* share.h - what a rank does of a step, and how the others learn of it.
 *
 * A rank has consecutive groups of a batch: it samples them, and in an update it runs their
 * forward and backward passes.  Every rank then has the whole batch, and computes all else itself.
 */
#ifndef GRPO_RL_SHARE_H
#define GRPO_RL_SHARE_H

#include "rl/engine.h"

/* Do ranks share the update of a step with this number of groups?  Its gradient may be one sum
 * (gradient_tree.h), which cannot be cut; then each rank computes all of it. */
bool share_splits_updates(const Engine *e, int groups);
/* The groups first .. end - 1 of a batch in this slot are rank's. */
void share_range(const Engine *e, BatchSlot slot, int groups, int rank, int *first, int *end);
int share_owner(const Engine *e, BatchSlot slot, int groups, int group);
BatchSlot share_slot(const Engine *e, const Batch *b);

/* Gives all ranks what each has sampled: group i of n is the batch's slots[i] (NULL: i). */
Status share_completions(const Engine *e, BatchSlot slot, int n, const int *slots);
/* Rows of `bytes` bytes, one for each completion: a rank has filled those of its groups. */
Status share_rows(const Engine *e, const Batch *b, void *rows, size_t bytes);

#endif
