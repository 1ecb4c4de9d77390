/* covariance.h - the tokens that Clip-Cov and KL-Cov choose (2505.22617).
 *
 * The covariance of a token is (log p - mean of log p) (A - mean of A), the means over all masked
 * tokens of the step.  A token with a large one lowers the entropy most when it is trained.
 */
#ifndef GRPO_GRAD_COVARIANCE_H
#define GRPO_GRAD_COVARIANCE_H

#include <stddef.h>

#include "grad/attrs.h"

/* The tokens of a whole step. */
typedef struct CovarianceInput {
  size_t n;
  const real *mask;             /* [n]; NULL: all 1 */
  const real *logp, *advantage; /* [n] logp: under the policy that sampled */
  RngKey key;                   /* of Clip-Cov's choice: token i has the number at i */
} CovarianceInput;

/* Do the options choose any tokens? */
bool covariance_is_used(const LossOptions *o);
/* chosen [n] = 0, or the sum of CHOSEN_CLIP and CHOSEN_KL.  Of equal tokens the earlier one is
 * chosen.  x, at [n] are scratch. */
void covariance_choose(const LossOptions *o, const CovarianceInput *in, real *x, uint32_t *at,
                       uint8_t *chosen);

#endif
