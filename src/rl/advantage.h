/* advantage.h - rewards to advantages; every option of train.advantage and reward.aggregate.
 *
 * Rows are completions, `group` consecutive ones to a prompt.  NaN is "does not
 * apply": the entry is left out of its row's sum, and a row without any entry
 * is unscorable: total NaN, advantage 0, in no mean and no deviation.
 * Everything is computed in double, standard deviations are unbiased (n - 1),
 * and nothing is allocated.  Formulas: docs/algorithms.md.
 */
#ifndef GRPO_RL_ADVANTAGE_H
#define GRPO_RL_ADVANTAGE_H

#include <stdbool.h>

#include "base/options.h"

typedef enum AdvantageScale { SCALE_GROUP, SCALE_BATCH, SCALE_NONE } AdvantageScale;
typedef enum AdvantageBaseline {
  BASELINE_MEAN,
  BASELINE_LEAVE_ONE_OUT,
  BASELINE_NONE
} AdvantageBaseline;

/* Without a baseline A = R, whatever the scale. */
typedef struct AdvantageOptions {
  int group; /* completions of a prompt */
#include "base/option_fields.h"
#include "rl/advantage_options.def"
  bool normalize_then_sum;    /* each reward normalised in its group first */
  int nrewards;               /* entries of a row */
  const double *weights;      /* [nrewards]; NULL: all 1 */
  double clip_low, clip_high; /* bounds of the total; NaN: none */
} AdvantageOptions;
extern const OptionSet advantage_option_set;
void advantage_options_init(AdvantageOptions *o); /* group 1, nrewards 1, the rows' values */

/* The squares of larger rewards could not be summed. */
#define LARGEST_REWARD 1e30

/* The weighted sum of a row's nrewards entries, within the bounds; 0 where nothing but rounding
 * is left of them, NaN if none applies. */
double total_reward(const AdvantageOptions *o, const double *row);

/* Do these rewards of a group differ by rounding at most (1e-12 of their size), or are they fewer
 * than two?  NaN: not there. */
bool rewards_tied(int n, const double *x);

/* rewards [n, nrewards] -> total [n], advantage [n]; group_std [n / group]: of the totals, NaN
 * where a group has fewer than two scorable rows.  A group whose totals are tied has A = 0
 * exactly. */
Status advantages(const AdvantageOptions *o, int n, const double *rewards, double *total,
                  double *advantage, double *group_std);

/* Per-token rewards: subtracts from each reward the mean at its position over the group's
 * completions that are long enough; then (x - mean) / (std + 1e-4) over all tokens of the step.
 * rewards and advantage are [sum of lengths] and may be the same memory. */
Status advantages_dense(int group, int n, const int *lengths, const double *rewards,
                        double *advantage);

#endif
