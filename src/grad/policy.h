/* policy.h - the policy losses by name, their defaults, and the loss on raw logits.
 *
 * The per-token formulas are in policy_terms.c, the averages in op_policy_loss.c.
 */
#ifndef GRPO_GRAD_POLICY_H
#define GRPO_GRAD_POLICY_H

#include <stdbool.h>

#include "grad/attrs.h"
#include "grad/tape.h"
#include "grad/value.h"

const char *loss_kind_name(LossKind kind);
/* GRPO_EARG, listing the names, when there is no such loss. */
Status loss_kind_from_name(const char *name, LossKind *out);
/* The defaults that a loss's name sets; everything optional is off. */
void loss_options_init(LossOptions *o, LossKind kind);
void loss_metrics_init(LossMetrics *m);

/* The loss of logits [N, vocab] whose row i predicts target->targets[i]: token_logp, then
 * policy_loss with logp and entropies.  The structs must outlive the graph (of Values: the
 * arrays they point to). */
Status policy_loss_from_logits(Tape *t, Tensor *logits, const TokenLogpAttr *target,
                               const PolicyLossAttr *loss, Tensor **out);
Status policy_loss_from_logits_value(const Ctx *cx, Value *logits, const TokenLogpAttr *target,
                                     const PolicyLossAttr *loss, bool record, Value **out);

#endif
