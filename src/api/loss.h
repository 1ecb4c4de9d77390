/* loss.h - a host's loss options and batch as the engine's. */
#ifndef GRPO_API_LOSS_H
#define GRPO_API_LOSS_H

#include "api/api.h"
#include "grad/policy.h"

/* What a loss from logits has where options are NULL: as grpo.loss_from_logits of the Lua interface. */
void loss_from_logits_default(LossOptions *o);
/* b's arrays are borrowed, those of nothing else; EARG, ESHAPE.  `one` is for a batch of a single
 * sequence: its length. */
Status batch_take(const grpo_loss_batch *b, const LossOptions *o, const LossExtras *x, int *one,
                  PolicyLossAttr *out);
Status targets_check(const int32_t *targets, size_t n, int vocab);

#endif
