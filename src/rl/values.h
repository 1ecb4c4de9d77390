/* values.h - the critic's side of an update: values, their loss and its gradient.
 *
 * A shared critic is a head on the policy's own hidden states: it runs inside the policy's forward
 * and backward.  A separate one has a trunk of its own, whose forward and backward follow those of
 * the policy in each micro-batch.
 */
#ifndef GRPO_RL_VALUES_H
#define GRPO_RL_VALUES_H

#include "rl/ppo_options.h"
#include "rl/update_state.h"

/* Lays *v out in the engine's step arena beside the plan, and makes it the update's. */
Status values_begin(Update *u, Values *v, const PpoOptions *o);
/* The values of the rollout, before anything is updated, go to v->old. */
Status values_of_rollout(Update *u);
bool values_shared(const Update *u); /* on the policy's own states */
/* out[i] has the values of unit i: they go to v->now. */
void values_store(Update *u, int i);
/* Adds the value loss of the unit at this place of plan.order, and leaves its gradient in `slope`.
 * It comes after the policy's loss of the unit. */
Status values_loss(Update *u, int place);
/* Forward, loss and backward of the trunk on this micro-batch. */
Status values_train_trunk(Update *u, const MicroBatch *mb);

#endif
