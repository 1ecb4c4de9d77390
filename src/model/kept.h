/* kept.h - activations of generation, kept for the training forward over the same tokens.
 *
 * A store (grad/replay.h) with room for `slots` groups.  Rows of a group: its prompt's, then each
 * completion's, whose last token is no row.  Short sequences leave the rest of their room untouched.
 */
#ifndef GRPO_MODEL_KEPT_H
#define GRPO_MODEL_KEPT_H

#include "grad/replay.h"
#include "model/estimate.h"

typedef struct Kept {
  ReplayStore store; /* data NULL: nothing is kept */
  int slots, group;
  int prompt, completion; /* rows of the longest */
} Kept;

/* Without memory yet. */
Kept kept_plan(const ModelPlan *p, int slots, int group, int max_prompt, int max_new);
size_t kept_bytes(const Kept *k); /* that kept_take takes */
Status kept_take(Kept *k);
void kept_free(Kept *k); /* a zeroed one is fine */
/* Where a completion's rows begin; sample -1: the prompt's. */
size_t kept_row(const Kept *k, int slot, int sample);

#endif
