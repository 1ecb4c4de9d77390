/* gae.h - PPO's targets: rewards and values to advantages and returns (1506.02438, 1707.06347).
 *
 * A completion of n tokens has a value before each token; one that ended before the longest that is
 * allowed has one more, after its last token.  Tokens and positions of all completions lie one
 * after another.  Everything inside is double; nothing is allocated but scratch in the arena.
 */
#ifndef GRPO_RL_GAE_H
#define GRPO_RL_GAE_H

#include <stdbool.h>

#include "base/arena.h"
#include "grad/attrs.h"

/* d_t = r_t + gamma v_(t+1) - v_t, A_t = d_t + gamma lambda A_(t+1), v_n = bootstrap; returns = A +
 * v.  advantage and returns [n]; returns may be NULL. */
void gae(int n, const double *reward, const double *value, double bootstrap, double gamma,
         double lambda, double *advantage, double *returns);

/* x <- (x - mean) / sqrt(var + 1e-8), plus the mean with `keep_mean`, over entries whose mask is
 * not 0 (NULL: all); the others become 0.  The variance is unbiased. */
void whiten(size_t n, const real *mask, bool keep_mean, double *x);

typedef struct TargetOptions {
  double gamma, lambda;
  double kl_coef;
  KlEstimator kl_estimator; /* of the penalty of a token: any but full */
  bool whiten_rewards;
} TargetOptions;

typedef struct TargetInput {
  int nseq;
  const int *length;           /* [nseq] tokens */
  const int *positions;        /* [nseq] values: length, or length + 1 */
  const double *score;         /* [nseq] added at the last position */
  const double *token_reward;  /* [tokens]; NULL: none */
  const real *logp, *ref_logp; /* [tokens]; ref_logp NULL: no penalty */
  const real *mask;            /* [tokens] 0 or 1 */
  const real *value_mask;      /* [positions] 0 or 1 */
  const real *value;           /* [positions] */
} TargetInput;

typedef struct TargetMetrics {
  double kl, penalty; /* sums over a completion, mean over completions with a masked token */
  double value_mean, return_mean, explained_variance; /* over masked positions */
} TargetMetrics;

/* advantage [tokens], whitened over masked tokens; returns [positions]; reward [positions], what
 * GAE was given (NULL: not wanted). */
Status ppo_targets(Arena *a, const TargetOptions *o, const TargetInput *in, real *advantage,
                   real *returns, double *reward, TargetMetrics *m);
size_t ppo_targets_bytes(size_t positions); /* of the arena, at most */

#endif
