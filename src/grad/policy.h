/* policy.h - the policy losses by name, their options, and the loss on raw logits.
 *
 * The per-token formulas are in policy_terms.c, the averages in op_policy_loss.c.
 */
#ifndef GRPO_GRAD_POLICY_H
#define GRPO_GRAD_POLICY_H

#include <stdbool.h>

#include "base/options.h"
#include "grad/attrs.h"
#include "grad/tape.h"
#include "grad/value.h"

const char *loss_kind_name(LossKind kind);
/* GRPO_EARG, listing the names, when there is no such loss. */
Status loss_kind_from_name(const char *name, LossKind *out);
const char *loss_kind_words(void); /* "grpo|bnpo|...": what train.loss offers */

extern const OptionSet loss_option_set; /* of LossOptions */

/* The default that an option has with a loss: a number, or a word of a CHOICE.  The option may be
 * one of losses or one of advantages. */
typedef struct LossDefault {
  LossKind kind;
  const char *path;
  double number;
  const char *word; /* NULL: a number */
} LossDefault;
int loss_default_count(void);
const LossDefault *loss_default_at(int i);

/* The initial values of the rows, except what the loss's name changes; clip_high is clip. */
void loss_options_init(LossOptions *o, LossKind kind);
/* After importance was read: what "sequence" means depends on the loss. */
void loss_options_adapt(LossOptions *o);
/* Bounds, and what has no meaning together: k1 in the loss, full KL with bias correction, sequence
 * importance where the loss has a weight of its own, corrections of tokens where it has no terms of
 * tokens, a Clip-Cov that no token can meet. */
Status loss_options_check(const LossOptions *o);
/* Otherwise it has one term, and one advantage, for a whole sequence. */
bool loss_has_token_terms(LossKind kind);
void loss_metrics_init(LossMetrics *m);
void loss_metrics_add(LossMetrics *m, const LossMetrics *more);

/* The loss of logits [N, vocab] whose row i predicts target->targets[i]: token_logp, then
 * policy_loss with logp and entropies.  The structs must outlive the graph (of Values: the
 * arrays they point to). */
Status policy_loss_from_logits(Tape *t, Tensor *logits, const TokenLogpAttr *target,
                               const PolicyLossAttr *loss, Tensor **out);
Status policy_loss_from_logits_value(const Ctx *cx, Value *logits, const TokenLogpAttr *target,
                                     const PolicyLossAttr *loss, bool record, Value **out);

#endif
