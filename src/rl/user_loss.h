/* user_loss.h - a loss written by the user, for one micro-batch. */
#ifndef GRPO_RL_USER_LOSS_H
#define GRPO_RL_USER_LOSS_H

#include "rl/update_state.h"

/* Calls o->loss_fn with the micro-batch's tokens, adds its value to u->loss, and leaves the
 * gradients by log-probability and entropy in the plan.  Metrics are those of `own`, the part that
 * is this rank's.  EARG where it returns no number or one that depends on neither. */
Status user_loss(Update *u, const MicroBatch *mb, const MicroBatch *own);

#endif
