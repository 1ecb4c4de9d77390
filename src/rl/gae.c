#include "rl/gae.h"

#include <math.h>
#include <string.h>

#include "grad/policy_terms.h"

void gae(int n, const double *reward, const double *value, double bootstrap, double gamma,
         double lambda, double *advantage, double *returns) {
  double next_value = bootstrap, next_advantage = 0;
  for (int t = n; t-- > 0;) {
    const double delta = reward[t] + gamma * next_value - value[t];
    next_advantage = delta + gamma * lambda * next_advantage;
    next_value = value[t];
    advantage[t] = next_advantage;
    if (returns) returns[t] = next_advantage + next_value;
  }
}

/* ---- whitening ------------------------------------------------------------------- */

typedef struct Moments {
  double n, mean, var; /* unbiased */
} Moments;

static bool counts(const real *mask, size_t i) { return !mask || mask[i] != 0; }

static Moments moments(size_t n, const real *mask, const double *x) {
  Moments m = {0};
  double sum = 0;
  for (size_t i = 0; i < n; i++)
    if (counts(mask, i)) m.mean += x[i], m.n++;
  if (m.n == 0) return m;
  m.mean /= m.n;
  for (size_t i = 0; i < n; i++)
    if (counts(mask, i)) sum += (x[i] - m.mean) * (x[i] - m.mean);
  m.var = m.n > 1 ? sum / (m.n - 1) : 0;
  return m;
}

void whiten(size_t n, const real *mask, bool keep_mean, double *x) {
  const Moments m = moments(n, mask, x);
  const double scale = 1 / sqrt(m.var + 1e-8), shift = keep_mean ? m.mean : 0;
  for (size_t i = 0; i < n; i++) x[i] = counts(mask, i) ? (x[i] - m.mean) * scale + shift : 0;
}

/* ---- rewards --------------------------------------------------------------------- */

static double penalty_of(KlEstimator estimator, double d /* log p - log p_ref */) {
  switch (estimator) {
  case KL_K1:
    return d;
  case KL_K2:
    return d * d / 2;
  default:
    return kl_k3(d);
  }
}

/* Fills the rewards of one completion, whose tokens begin at `token`; returns the sum of its KL. */
static double fill_rewards(const TargetOptions *o, const TargetInput *in, int i, size_t token,
                           double *reward) {
  double kl = 0;
  for (int t = 0; t < in->positions[i]; t++) reward[t] = 0;
  for (int t = 0; t < in->length[i]; t++) {
    const size_t at = token + (size_t)t;
    if (in->mask[at] == 0) continue;
    const double d = in->ref_logp ? (double)in->logp[at] - (double)in->ref_logp[at] : 0;
    const double of_token = in->ref_logp ? penalty_of(o->kl_estimator, d) : 0;
    kl += of_token;
    reward[t] = -o->kl_coef * of_token + (in->token_reward ? in->token_reward[at] : 0);
  }
  reward[in->positions[i] - 1] += in->score[i];
  return kl;
}

static bool any(const real *mask, int n) {
  for (int t = 0; t < n; t++)
    if (mask[t] != 0) return true;
  return false;
}

/* Fills the rewards of all completions and their metrics; returns the number of positions. */
static size_t all_rewards(const TargetOptions *o, const TargetInput *in, double *reward,
                          TargetMetrics *m) {
  size_t token = 0, position = 0;
  double count = 0;
  *m = (TargetMetrics){0};
  for (int i = 0; i < in->nseq; i++) {
    const double kl = fill_rewards(o, in, i, token, reward + position);
    if (any(in->mask + token, in->length[i])) m->kl += kl, count++;
    token += (size_t)in->length[i];
    position += (size_t)in->positions[i];
  }
  m->kl = count > 0 ? m->kl / count : 0;
  m->penalty = -o->kl_coef * m->kl;
  return position;
}

/* ---- targets --------------------------------------------------------------------- */

size_t ppo_targets_bytes(size_t positions) { return 5 * positions * sizeof(double) + 1024; }

/* Copies from advantages by position those that belong to a token, one after another, to out. */
static void all_gae(const TargetOptions *o, const TargetInput *in, const double *reward,
                    const double *value, double *advantage, double *returns, double *out) {
  for (int i = 0; i < in->nseq; i++) {
    const int n = in->positions[i];
    gae(n, reward, value, 0, o->gamma, o->lambda, advantage, returns);
    memcpy(out, advantage, (size_t)in->length[i] * sizeof *out);
    reward += n, value += n, returns += n, out += in->length[i];
  }
}

/* The share of the returns' variance that the values explain: 1 - Var(R - V) / Var(R). */
static void explain(size_t n, const real *mask, const double *value, const double *returns,
                    double *scratch, TargetMetrics *m) {
  const Moments v = moments(n, mask, value), r = moments(n, mask, returns);
  for (size_t i = 0; i < n; i++) scratch[i] = returns[i] - value[i];
  const Moments rest = moments(n, mask, scratch);
  m->value_mean = v.mean;
  m->return_mean = r.mean;
  m->explained_variance = r.var > 0 ? 1 - rest.var / r.var : NAN;
}

Status ppo_targets(Arena *a, const TargetOptions *o, const TargetInput *in, real *advantage,
                   real *returns, double *reward_out, TargetMetrics *m) {
  size_t n = 0, tokens = 0;
  for (int i = 0; i < in->nseq; i++) {
    n += (size_t)in->positions[i];
    tokens += (size_t)in->length[i];
  }
  const ArenaMark mark = arena_mark(a);
  double *reward = arena_alloc(a, 5 * n * sizeof *reward);
  if (!reward) return fail(GRPO_ENOMEM, "ppo: no memory for %zu positions", n);
  double *value = reward + n, *ret = value + n, *scratch = ret + n, *adv = scratch + n;
  for (size_t i = 0; i < n; i++) value[i] = (double)in->value[i];
  all_rewards(o, in, reward, m);
  if (o->whiten_rewards) whiten(n, in->value_mask, true, reward);
  if (reward_out) memcpy(reward_out, reward, n * sizeof *reward);
  all_gae(o, in, reward, value, scratch, ret, adv);
  whiten(tokens, in->mask, false, adv);
  explain(n, in->value_mask, value, ret, scratch, m);
  for (size_t i = 0; i < tokens; i++) advantage[i] = (real)adv[i];
  for (size_t i = 0; i < n; i++) returns[i] = (real)ret[i];
  arena_release(a, mark);
  return GRPO_OK;
}
