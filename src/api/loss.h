/* loss.h - a host's loss options and batch as the engine's. */
#ifndef GRPO_API_LOSS_H
#define GRPO_API_LOSS_H

#include "api/api.h"
#include "grad/policy.h"

/* b's arrays are borrowed, those of nothing else; EARG, ESHAPE.  `one` is for a batch of a single
 * sequence: its length. */
Status batch_take(const grpo_loss_batch *b, const LossOptions *o, int *one, PolicyLossAttr *out);
Status temperature_check(double temperature); /* of log-probabilities: above 0 */
Status targets_check(const int32_t *targets, size_t n, int vocab);

#endif
