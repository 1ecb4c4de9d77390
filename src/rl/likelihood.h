/* likelihood.h - maximum likelihood over units of outputs: what kind = "sft" and similar
 * kinds of extensions share.
 *
 * loss = -(1/N) sum over outputs of log p, where a mask may leave outputs out, and N counts the
 * others over the whole step.  Its gradient by each log-probability is the constant -1/N, so the
 * output projection computes log-probabilities and gradients in one pass.
 *
 * The outputs may be other numbers than log-probabilities, and the loss another sum of them.
 */
#ifndef GRPO_RL_LIKELIHOOD_H
#define GRPO_RL_LIKELIHOOD_H

#include "rl/engine.h"
#include "rl/metrics.h"
#include "rl/nonfinite.h"
#include "rl/units.h"

typedef struct SftOptions {
#include "base/option_fields.h"
#include "rl/step_options.def"
  uint64_t seed, step; /* as in UpdateOptions */
  bool accumulate;     /* likewise */
  const volatile int *cancel;
} SftOptions;
extern const OptionSet sft_option_set;
void sft_options_init(SftOptions *o);

typedef struct Likelihood {
  Engine *e;
  const char *what; /* "sft", in messages */
  const Unit *unit; /* the last one ends with the last output */
  int nunits;
  /* Lays a unit out in the arena; its outputs are the unit's tokens. */
  Status (*pack)(void *user, Arena *a, const Unit *u, Pack *out);
  void *user;
  /* Makes the outputs of hidden states; NULL: the log-probabilities of the pack's targets. */
  Status (*outputs)(void *user, Tape *t, const Unit *u, const Pack *p, Tensor *hidden,
                    Tensor **out);
  const double *slope; /* of all outputs: the loss is the sum of slope times output; NULL: -1/N */
  const uint8_t *mask; /* of all outputs in order, 0: not in the loss; NULL: all are in it */
  /* Filled in: the outputs in the loss, over all units, and N times the loss. */
  int64_t tokens;
  double nll;
  double rows, aux_loss; /* over all units; the loss of routers, without its coefficient */
  Nonfinite *nonfinite;  /* looks for a value that is not finite; NULL: as nearly always */
} Likelihood;

/* One optimizer step.  Metrics: loss, gradient, rate, times; num_tokens and trained_tokens are the
 * outputs. */
Status likelihood_step(Likelihood *l, const SftOptions *o, StepMetrics *out);
/* Computes the outputs alone: out [outputs]. */
Status likelihood_outputs(Likelihood *l, real *out);
/* Computes the loss alone and changes nothing else. */
Status likelihood_sum(Likelihood *l);

#endif
