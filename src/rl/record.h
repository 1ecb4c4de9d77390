/* record.h - the record that sampling made, in place of a forward.
 *
 * While the policy samples, the batch records the log-probability and the entropy of every
 * token. In the first iteration of an update the weights are still those that sampled, so the
 * record equals, bit for bit, what the training forward would compute.  It is used three times:
 *
 *   - A unit whose advantages are all 0 has no gradient unless the loss has other terms: it needs
 *     no forward, and its metrics come from the record.
 *   - One pass: the loss is evaluated from the record before the output projection runs, so that
 *     the projection computes its logits once, in backward, instead of twice.
 *   - Replay: with train.reuse_rollout the layers take the activations of the rollout instead of
 *     computing them again.
 *
 * Backward then compares each unit with the record.  If one token differs, `mismatch` is set, and
 * update.c repeats the iteration in two passes.
 *
 * Of a batch that older weights have sampled (UpdateOptions.older_sampler) the record holds the
 * sampler's log-probabilities; the first iteration computes those of the weights before the update,
 * and the record then has them too.
 */
#ifndef GRPO_RL_RECORD_H
#define GRPO_RL_RECORD_H

#include "rl/update_state.h"

/* Decides one_pass and replay for the iteration that begins. */
void record_begin(Update *u);
bool record_needs_forward(const Update *u, int unit);
/* The unit's log-probabilities and entropies of this forward: from the record, or from `out`
 * [2 or 3, tokens]; 0 for injected tokens. */
void record_use(Update *u, const Unit *unit);
void record_result(Update *u, const Unit *unit, const Tensor *out);
/* Is `out`, which backward has filled in, what the loss was evaluated from? */
bool record_agrees(const Update *u, const Unit *unit, const Tensor *out);
/* Injected tokens send no gradient back, even where a user's loss forgets the mask: seed [rows,
 * tokens]. */
void record_silence_injected(const Update *u, const Unit *unit, real *seed, size_t rows);
/* Measures how far the ratios of the first iteration are from 1, and warns when they are not 1.
 * NaN with an adapter's dropout, which sampling does not apply, and where older weights have
 * sampled. */
void record_check_ratio(Update *u);

#endif
