/* reference.h - log-probabilities of a batch under the frozen reference: a model or rows. */
#ifndef GRPO_RL_REFERENCE_H
#define GRPO_RL_REFERENCE_H

#include "rl/engine.h"

/* Fills the batch's reference log-probabilities, at its sampling temperature.  EARG where the
 * engine has no reference. */
Status engine_reference(Engine *e, Batch *b);

/* Log-probabilities of the batch's tokens under a model, and their entropies (NULL: not wanted), at
 * its sampling temperature: [completions, max_new]. */
Status reference_rows(Engine *e, Model *m, Batch *b, float *logp, float *entropy);

#endif
