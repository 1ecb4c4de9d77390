/* loss.h - reads a host's loss options, batch and advantage options. */
#ifndef GRPO_API_LOSS_H
#define GRPO_API_LOSS_H

#include "api/api.h"
#include "grad/attrs.h"
#include "grad/policy.h"

Status loss_take(const grpo_loss_options *g, LossOptions *o);
/* *out borrows the arrays of b, and *one, which becomes the length if there is one sequence. */
Status batch_take(const grpo_loss_batch *b, const LossOptions *o, int *one, PolicyLossAttr *out);
Status temperature_check(double temperature); /* of log-probabilities: above 0 */
Status targets_check(const int32_t *targets, size_t n, int vocab);
/* Computes advantages of rewards [n, o->rewards]; `group` > 0 replaces o->group.  total and
 * advantage may be NULL. */
Status advantages_take(const grpo_advantage_options *o, int group, size_t n, const double *rewards,
                       double *total, double *advantage);

#endif
