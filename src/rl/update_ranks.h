/* update_ranks.h - an optimizer step that ranks divide by whole groups.
 *
 * Every rank has the plan of the whole step, with its micro-batches, and runs the units of its
 * groups: those at the places first .. end - 1 of plan.order.  Losses are gathered by unit and
 * added in the order of the units, as one process adds them.
 */
#ifndef GRPO_RL_UPDATE_RANKS_H
#define GRPO_RL_UPDATE_RANKS_H

#include "rl/update_state.h"

/* Numbers the groups of the units of plan.order, and leaves this rank its own. */
void update_divide(Update *u);
/* The part of a micro-batch that is this rank's; n is 0 where there is none. */
MicroBatch update_own_part(const Update *u, const MicroBatch *mb);
/* Does a micro-batch have units of several ranks?  The same on all ranks. */
bool update_has_common_batch(const Update *u);

/* u->loss and the sums of metrics become `before` and what all ranks' units add in this pass; a
 * mismatch of one rank is that of all. */
Status update_gather_losses(Update *u, const UnitLoss *before);
/* All log-probabilities and entropies of this pass, from the ranks that have computed them; the
 * units must be in the order of their tokens. */
Status update_gather_tokens(Update *u);
/* The largest deviation of all ranks; NaN: it is not measured. */
Status update_gather_deviation(double *deviation);
/* The critic's values of the rollout: a rank has computed those of its groups. */
Status update_gather_values(Update *u);
/* The units of rank r's groups of the rollout. */
void update_units_of_rank(const Update *u, int rank, int *first, int *end);

#endif
