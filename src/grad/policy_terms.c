#include "grad/policy_terms.h"

#include <math.h>

#include "base/exponential.h"

static const double EXPONENT_LIMIT = 20;

double clamp_to(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

double exp_clamped(double x) { return math_exp(clamp_to(x, -EXPONENT_LIMIT, EXPONENT_LIMIT)); }

double exp_clamped_slope(double x) {
  return x < -EXPONENT_LIMIT || x > EXPONENT_LIMIT ? 0 : math_exp(x);
}

double kl_k3(double d) { return exp_clamped(-d) + d - 1; }

/* cispo's */
static double ratio_cap(const LossOptions *o) {
  return isnan(o->cispo_cap) ? 1 + o->clip_high : o->cispo_cap;
}

/* ---- a term per token ----------------------------------------------------------- */

/* min(min(w, delta) A, clip(w, 1 - clip, 1 + clip_high) A) and its derivative by w */
static Term surrogate(const LossOptions *o, double w, double advantage) {
  const bool capped = o->delta > 0 && w > o->delta;
  const double low = 1 - o->clip, high = 1 + o->clip_high;
  const double plain = (capped ? o->delta : w) * advantage;
  const double clipped = clamp_to(w, low, high) * advantage;
  if (plain <= clipped) return (Term){plain, capped ? 0 : advantage, 0};
  return (Term){clipped, w < low || w > high ? 0 : advantage, 0};
}

static Term clipped_term(const LossOptions *o, const Sequence *s, int t) {
  const Term best = surrogate(o, s->ratio[t], s->advantage[t]);
  return (Term){-best.value, -best.d_ratio, 0};
}

/* -weight A l, the weight without gradient */
static Term weighted_logp(double weight, const Sequence *s, int t) {
  const double slope = -weight * s->advantage[t];
  return (Term){slope * s->logp[t], 0, slope};
}

static Term cispo_term(const LossOptions *o, const Sequence *s, int t) {
  const double cap = ratio_cap(o);
  return weighted_logp(s->ratio[t] > cap ? cap : s->ratio[t], s, t);
}

/* -(4 / tau) sigmoid(tau (w - 1)) A */
static Term sapo_term(const LossOptions *o, const Sequence *s, int t) {
  const double a = s->advantage[t], tau = a > 0 ? o->sapo_pos : o->sapo_neg;
  const double gate = 1 / (1 + math_exp(-tau * (s->ratio[t] - 1)));
  return (Term){-4 / tau * gate * a, -4 * gate * (1 - gate) * a, 0};
}

/* -phi(W) A l with phi = exp(lambda) W^k exp(-lambda W) */
static Term vespo_term(const LossOptions *o, const Sequence *s, int t) {
  const bool up = s->advantage[t] >= 0;
  const double k = up ? o->vespo_k_pos : o->vespo_k_neg;
  const double lambda = up ? o->vespo_lambda_pos : o->vespo_lambda_neg;
  const double log_phi = lambda + k * s->log_weight - lambda * math_exp(s->log_weight);
  return weighted_logp(math_exp(log_phi), s, t);
}

static Term reinforce_term(const LossOptions *o, const Sequence *s, int t) {
  (void)o;
  return weighted_logp(1, s, t);
}

static Term nll_term(const LossOptions *o, const Sequence *s, int t) {
  (void)o;
  return (Term){-s->logp[t], 0, -1};
}

/* ---- a term per sequence ----------------------------------------------------------- */

/* Is token t's log-ratio held at a bound?  Only on the side where A could still gain. */
static bool gmpo_clips(const LossOptions *o, double diff, double advantage) {
  return advantage > 0 ? diff > o->clip_high : diff < -o->clip;
}

/* -A times the geometric mean of the clipped ratios */
static double gmpo_term(const LossOptions *o, const Sequence *s, double *d_logp) {
  const double a = s->advantage[0];
  double sum = 0, mass = 0;
  for (int t = 0; t < s->n; t++) {
    const double m = s->mask[t] * s->kept[t];
    const double bound = a > 0 ? o->clip_high : -o->clip;
    sum += m * (gmpo_clips(o, s->diff[t], a) ? bound : s->diff[t]);
    mass += m;
  }
  const double count = mass < 1 ? 1 : mass, slope = -a * exp_clamped_slope(sum / count) / count;
  for (int t = 0; t < s->n; t++) {
    const double m = s->mask[t] * s->kept[t];
    d_logp[t] = gmpo_clips(o, s->diff[t], a) ? 0 : slope * m;
  }
  return -a * exp_clamped(sum / count);
}

static double sequence_diff(const Sequence *s) {
  double sum = 0;
  for (int t = 0; t < s->n; t++) sum += s->mask[t] * s->kept[t] * s->diff[t];
  return sum;
}

double sequence_ratio(const Sequence *s) { return exp_clamped(sequence_diff(s)); }

static double rloo_term(const LossOptions *o, const Sequence *s, double *d_logp) {
  const Term best = surrogate(o, sequence_ratio(s), s->advantage[0]);
  const double slope = -best.d_ratio * exp_clamped_slope(sequence_diff(s));
  for (int t = 0; t < s->n; t++) d_logp[t] = slope * s->mask[t] * s->kept[t];
  return -best.value;
}

/* ---- what the clip metrics count ----------------------------------------------------- */

static Clipped ratio_clipped(const LossOptions *o, double w, double advantage) {
  const double capped = o->delta > 0 && w > o->delta ? o->delta : w;
  return (Clipped){capped < 1 - o->clip && advantage < 0,
                   capped > 1 + o->clip_high && advantage > 0, 1};
}

/* gmpo's bounds are of the log-ratio. */
static Clipped log_ratio_clipped(const LossOptions *o, double w, double advantage) {
  return (Clipped){
      math_log(w) < -o->clip && advantage<0, math_log(w)> o->clip_high && advantage > 0, 1};
}

static Clipped cap_clipped(const LossOptions *o, double w, double advantage) {
  return (Clipped){0, w > ratio_cap(o) && advantage > 0, 1};
}

/* ---- every loss ------------------------------------------------------------------ */

const LossRule loss_rules[LOSS_COUNT] = {
#define PER_TOKEN(f)    .token = f
#define PER_SEQUENCE(f) .sequence = f
#define LOSS(name, term, average_by, clipped_by, traits_of)                                        \
  [LOSS_##name] = {term, .average = average_by, .clipped = clipped_by, .traits = traits_of},
#include "grad/losses.def"
};
