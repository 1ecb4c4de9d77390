#include "rl/advantage.h"

#include <math.h>

static const double tiny = 1e-4; /* added to every standard deviation, as in TRL */

/* Sums of rewards that would be equal without rounding, as 0.1 + 0.2 and 0.3, differ by some 1e-16
 * of their size, and by some 1e-13 where large ones have cancelled out. */
static const double rounding = 1e-12;

typedef struct Moments {
  int n; /* values that are there */
  double mean, std, min, max;
  bool tied;
} Moments;

static const Option option_rows[] = {
#define OPTIONS_OF AdvantageOptions
#include "base/option_rows.h"
#include "rl/advantage_options.def"
};

const OptionSet advantage_option_set = OPTION_SET("train.advantage.", option_rows);

void advantage_options_init(AdvantageOptions *o) {
  *o = (AdvantageOptions){.group = 1, .nrewards = 1, .clip_low = NAN, .clip_high = NAN};
  options_init_rows(&advantage_option_set, o);
}

static bool equal(double min, double max) {
  return max - min <= rounding * fmax(fabs(min), fabs(max));
}

bool rewards_tied(int n, const double *x) {
  double min = INFINITY, max = -INFINITY;
  for (int i = 0; i < n; i++) {
    if (x[i] < min) min = x[i];
    if (x[i] > max) max = x[i];
  }
  return min >= max || equal(min, max);
}

/* The moments of x[0], x[stride], ..., without NaNs.  std: 0 when they are tied, NaN for fewer than
 * two. */
static Moments moments(const double *x, int n, int stride) {
  Moments m = {.min = INFINITY, .max = -INFINITY};
  double sum = 0, squares = 0;
  for (int i = 0; i < n; i++) {
    const double v = x[i * stride];
    if (isnan(v)) continue;
    m.n++;
    sum += v;
    if (v < m.min) m.min = v;
    if (v > m.max) m.max = v;
  }
  m.mean = m.n ? sum / m.n : 0;
  for (int i = 0; i < n; i++) {
    const double d = x[i * stride] - m.mean;
    if (!isnan(d)) squares += d * d;
  }
  m.tied = m.n == 0 || equal(m.min, m.max);
  m.std = m.n < 2 ? NAN : m.tied ? 0 : sqrt(squares / (m.n - 1));
  return m;
}

/* A sum of terms of this size together; 0 where only their rounding is left of it. */
static double without_residue(double sum, double size) {
  return fabs(sum) <= rounding * size ? 0 : sum;
}

double total_reward(const AdvantageOptions *o, const double *row) {
  double sum = 0, size = 0;
  bool any = false;
  for (int k = 0; k < o->nrewards; k++) {
    if (isnan(row[k])) continue;
    any = true;
    const double term = (o->weights ? o->weights[k] : 1) * row[k];
    sum += term;
    size += fabs(term);
  }
  if (!any) return NAN;
  sum = without_residue(sum, size);
  if (sum < o->clip_low) sum = o->clip_low;
  if (sum > o->clip_high) sum = o->clip_high;
  return sum;
}

/* x <- (x - mean) / (std + tiny) over the entries that are not NaN. */
static void normalize(int n, double *x) {
  const Moments m = moments(x, n, 1);
  for (int i = 0; i < n; i++) x[i] = m.n < 2 || m.tied ? 0 : (x[i] - m.mean) / (m.std + tiny);
}

/* Adds w_k (r_ik - mean) / (std + tiny), moments within the group; returns the size of the largest
 * of these terms. */
static double add_normalized(const AdvantageOptions *o, int k, const double *column, double *sum) {
  const Moments m = moments(column, o->group, o->nrewards);
  if (!(m.std > 0)) return 0; /* tied, or alone: no signal */
  const double w = o->weights ? o->weights[k] : 1;
  for (int i = 0; i < o->group; i++)
    if (!isnan(column[i * o->nrewards]))
      sum[i] += w * (column[i * o->nrewards] - m.mean) / (m.std + tiny);
  return fabs(w) * fmax(m.max - m.mean, m.mean - m.min) / (m.std + tiny);
}

/* The sum of these over k, for each completion. */
static void sum_normalized(const AdvantageOptions *o, int n, const double *rewards, double *sum) {
  for (int i = 0; i < n; i++) sum[i] = 0;
  for (int g = 0; g < n; g += o->group) {
    double size = 0;
    for (int k = 0; k < o->nrewards; k++)
      size += add_normalized(o, k, rewards + (size_t)g * (size_t)o->nrewards + k, sum + g);
    for (int i = g; i < g + o->group; i++) sum[i] = without_residue(sum[i], size);
  }
}

/* R minus its baseline; 0 where the group's rewards are tied; NaN where there is nothing to
 * compare with. */
static double centred(AdvantageBaseline b, double r, const Moments *m) {
  if (b == BASELINE_NONE || isnan(r)) return r;
  if (b == BASELINE_LEAVE_ONE_OUT && m->n < 2) return NAN;
  if (m->tied) return 0;
  return b == BASELINE_MEAN ? r - m->mean : (r - m->mean) * m->n / (m->n - 1);
}

static void from_totals(const AdvantageOptions *o, int n, const double *total, double *advantage) {
  const bool divide = o->baseline != BASELINE_NONE && o->scale != SCALE_NONE;
  const Moments batch = moments(total, n, 1);
  for (int g = 0; g < n; g += o->group) {
    const Moments m = moments(total + g, o->group, 1);
    const double std = o->scale == SCALE_GROUP ? m.std : batch.std;
    for (int i = g; i < g + o->group; i++) {
      const double a = centred(o->baseline, total[i], &m);
      advantage[i] = a == 0 || !divide ? a : a / (std + tiny);
    }
  }
}

static Status check_rewards(const AdvantageOptions *o, int n, const double *rewards) {
  if (o->group < 1 || n % o->group)
    return fail(GRPO_EARG, "advantages: %d rewards do not make groups of %d", n, o->group);
  for (int i = 0; i < n * o->nrewards; i++)
    if (fabs(rewards[i]) > LARGEST_REWARD)
      return fail(GRPO_EARG, "advantages: reward %d is %g, want at most %g in size",
                  i / o->nrewards + 1, rewards[i], LARGEST_REWARD);
  return GRPO_OK;
}

static Status check_totals(int n, const double *total) {
  for (int i = 0; i < n; i++)
    if (fabs(total[i]) > LARGEST_REWARD)
      return fail(GRPO_EARG,
                  "advantages: the weighted sum of rewards %d is %g, want at most %g in "
                  "size; lower the weights",
                  i + 1, total[i], LARGEST_REWARD);
  return GRPO_OK;
}

Status advantages(const AdvantageOptions *o, int n, const double *rewards, double *total,
                  double *advantage, double *group_std) {
  try(check_rewards(o, n, rewards));
  for (int i = 0; i < n; i++) total[i] = total_reward(o, rewards + (size_t)i * (size_t)o->nrewards);
  try(check_totals(n, total));
  for (int g = 0; g < n; g += o->group)
    group_std[g / o->group] = moments(total + g, o->group, 1).std;
  if (o->normalize_then_sum) {
    sum_normalized(o, n, rewards, advantage);
    for (int i = 0; i < n; i++)
      if (isnan(total[i])) advantage[i] = NAN;
  } else {
    from_totals(o, n, total, advantage);
  }
  if (o->normalize || o->normalize_then_sum) normalize(n, advantage);
  for (int i = 0; i < n; i++)
    if (isnan(advantage[i])) advantage[i] = 0;
  return GRPO_OK;
}

/* Subtracts the group's mean at each position; x holds the group's completions one after
 * another. */
static void centre_positions(int group, const int *lengths, double *x) {
  int longest = 0;
  for (int i = 0; i < group; i++) longest = lengths[i] > longest ? lengths[i] : longest;
  for (int t = 0; t < longest; t++) {
    double sum = 0, min = INFINITY, max = -INFINITY;
    int n = 0, at = 0;
    for (int i = 0; i < group; at += lengths[i++]) {
      if (t >= lengths[i] || isnan(x[at + t])) continue;
      sum += x[at + t], n++;
      min = fmin(min, x[at + t]);
      max = fmax(max, x[at + t]);
    }
    const bool tied = n > 0 && equal(min, max);
    at = 0;
    for (int i = 0; i < group; at += lengths[i++])
      if (t < lengths[i] && !isnan(x[at + t])) x[at + t] = tied ? 0 : x[at + t] - sum / n;
  }
}

Status advantages_dense(int group, int n, const int *lengths, const double *rewards,
                        double *advantage) {
  if (group < 1 || n % group)
    return fail(GRPO_EARG, "advantages: %d completions do not make groups of %d", n, group);
  int tokens = 0;
  for (int i = 0; i < n; i++) tokens += lengths[i];
  for (int t = 0; t < tokens; t++) advantage[t] = rewards[t];
  for (int g = 0, at = 0; g < n; g += group) {
    centre_positions(group, lengths + g, advantage + at);
    for (int i = g; i < g + group; i++) at += lengths[i];
  }
  const Moments m = moments(advantage, tokens, 1);
  for (int t = 0; t < tokens; t++)
    advantage[t] =
        isnan(advantage[t]) || !(m.std > 0) ? 0 : (advantage[t] - m.mean) / (m.std + tiny);
  return GRPO_OK;
}
