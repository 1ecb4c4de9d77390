/* rollout_activations.h - activations of sampling, kept for the training forward over the same
 * tokens.
 *
 * A store (grad/replay.h) with room for `slots` groups.  The rows of a group are those of its
 * prompt, then those of each completion, whose last token is not a row.  Short sequences leave the
 * rest of their room untouched.
 */
#ifndef GRPO_MODEL_ROLLOUT_ACTIVATIONS_H
#define GRPO_MODEL_ROLLOUT_ACTIVATIONS_H

#include "grad/replay.h"
#include "model/model.h"

typedef struct RolloutActivations {
  ReplayStore store; /* data NULL: nothing is kept */
  int slots, group;
  int prompt, completion; /* rows of the longest */
} RolloutActivations;

/* Without memory yet, and without columns until those of m's forward are counted, while memory is
 * measured (base/mem.h). */
RolloutActivations rollout_activations_of(int slots, int group, int max_prompt, int max_new);
Status rollout_activations_measure(RolloutActivations *a, Model *m);
size_t rollout_activations_bytes(const RolloutActivations *a); /* what _allocate takes */
Status rollout_activations_allocate(RolloutActivations *a);
void rollout_activations_free(RolloutActivations *a); /* a zeroed one is fine */
/* Where the rows of a completion begin; sample -1: those of the prompt. */
size_t rollout_activations_row(const RolloutActivations *a, int slot, int sample);

#endif
