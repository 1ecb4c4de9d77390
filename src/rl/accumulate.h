/* accumulate.h - gradients of several updates, summed before one optimizer step.
 *
 * With `accumulate` of UpdateOptions or SftOptions an update adds its gradient to a sum of the
 * engine's, which is zero at first, in place of its optimizer step.
 */
#ifndef GRPO_RL_ACCUMULATE_H
#define GRPO_RL_ACCUMULATE_H

#include "rl/engine.h"

/* Adds the gradients of the parameters to the sum. */
Status engine_accumulate(Engine *e);
/* Copies the sum of a trainable parameter to values [p->t.n], or back.  EARG: it is frozen. */
Status engine_gradient(Engine *e, const Param *p, real *values, bool set);
/* Makes an optimizer step with the sum, which is zero afterwards.  *norm: its norm before clipping;
 * EDIVERGED if that is not finite, and the sum stays. */
Status engine_apply(Engine *e, double lr, double max_grad_norm, double *norm);

#endif
