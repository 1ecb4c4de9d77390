/* unit_forward.h - the forward of one unit in an engine: for its update, and for finding out how
 * much memory that takes. */
#ifndef GRPO_RL_UNIT_FORWARD_H
#define GRPO_RL_UNIT_FORWARD_H

#include "grad/balance.h"
#include "rl/engine_struct.h"
#include "rl/units.h"

/* Counts what the routers choose in a pack's forward, if the options ask for an auxiliary loss. */
Status unit_count_routes(Engine *e, Pack *p);
/* After the pack's forward: `share` of its auxiliary loss, which backward then includes; 0: there
 * is none. */
double unit_balance(const Engine *e, const Pack *p, double share);
/* The policy's forward_logp() of the pack, whose routes are counted.  ref: the packs of the
 * reference, for p->divergence from its whole distribution; NULL: that is not wanted.  value: what
 * a shared critic makes of the same states; NULL: not wanted. */
Status unit_forward(Engine *e, Pack *p, const RefPacks *ref, double temperature, Tensor **value,
                    Tensor **logp);

#endif
