/* update_impl.h - the parts of update.c that PPO's passes are made of too. */
#ifndef GRPO_RL_UPDATE_IMPL_H
#define GRPO_RL_UPDATE_IMPL_H

#include "rl/update_state.h"

Status update_check_numbers(const Engine *e, const Batch *b, const UpdateOptions *o);
/* Lays the step out in the engine's step arena; left_out, end_below: as in PlanCut. */
Status update_begin(Update *u, const bool *left_out, int end_below);
/* Asks o->before, if there is one, for the rate and the KL of the next optimizer step. */
Status update_ask(const Update *u, UpdateOptions *o);
/* One optimizer step on the units of plan.order. */
Status update_iterate(Update *u, int iteration, double *norm);

#endif
