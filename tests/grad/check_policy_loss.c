/* check_policy_loss.c - every loss against the formulas of docs/algorithms.md, written here a
 * second time, straight from the text: values, and differences for the gradients.
 *
 * Where a formula stops a gradient (sg), the reference below takes that part from `frozen`
 * log-probabilities; moving `l` alone then gives the derivative the loss means.
 */
#include <stdlib.h>

#include "check.h"
#include "grad/policy.h"

enum { NSEQ = 5, N = 14 };
static const int lengths[NSEQ] = {4, 1, 3, 0, 6};

typedef struct Problem {
  PolicyLossAttr a;
  real *mask, *kept, *advantage, *old, *ref, *sampler;
  uint8_t *chosen; /* of Clip-Cov and KL-Cov */
  Tensor *in[3];   /* logp, entropy, full KL */
  LossMetrics metrics;
} Problem;

/* ---- the formulas ------------------------------------------------------------------- */

static double mask_of(const Problem *p, int i) { return p->a.mask ? p->mask[i] : 1; }
static double kept_of(const Problem *p, int i) { return p->a.kept ? p->kept[i] : 1; }
static bool is_chosen(const Problem *p, int i, int bit) {
  return p->a.chosen && p->chosen[i] & bit;
}
/* Is the token in the policy term? */
static double term_of(const Problem *p, int i) {
  return is_chosen(p, i, CHOSEN_CLIP) ? 0 : kept_of(p, i);
}
static double old_of(const Problem *p, const real *frozen, int i) {
  return p->a.old_logp ? p->old[i] : frozen[i];
}

typedef struct Span {
  int from, to;
  double mass, count;
} Span;

static Span span_of(const Problem *p, int sequence) {
  Span s = {0, 0, 0, 0};
  for (int i = 0; i < sequence; i++) s.from += lengths[i];
  s.to = s.from + lengths[sequence];
  for (int t = s.from; t < s.to; t++) s.mass += mask_of(p, t);
  s.count = fmax(1, s.mass);
  return s;
}

static double mean_diff(const Problem *p, Span s, const real *l, const real *frozen) {
  double sum = 0;
  for (int t = s.from; t < s.to; t++) sum += mask_of(p, t) * (l[t] - old_of(p, frozen, t));
  return sum / s.count;
}

static double ratio(const Problem *p, Span s, const real *l, const real *frozen, int t) {
  switch (p->a.options.importance) {
  case IMPORTANCE_TOKEN:
    return exp(l[t] - old_of(p, frozen, t));
  case IMPORTANCE_SEQUENCE:
    return exp(mean_diff(p, s, l, frozen));
  default:
    return exp(mean_diff(p, s, frozen, frozen) + l[t] - frozen[t]);
  }
}

static double bounded(double x, double low, double high) { return fmin(fmax(x, low), high); }

static double surrogate(const LossOptions *o, double w, double a) {
  const double capped = o->delta > 0 ? fmin(w, o->delta) : w;
  return fmin(capped * a, bounded(w, 1 - o->clip, 1 + o->clip_high) * a);
}

static double correction(const Problem *p, Span s, const real *frozen, int t) {
  const LossOptions *o = &p->a.options;
  const bool sequence = o->sampler_mode >= SAMPLER_SEQUENCE_TRUNCATE;
  const bool drop =
      o->sampler_mode == SAMPLER_TOKEN_MASK || o->sampler_mode == SAMPLER_SEQUENCE_MASK;
  double u = 0;
  if (o->sampler_mode == SAMPLER_NONE) return 1;
  for (int i = sequence ? s.from : t; i < (sequence ? s.to : t + 1); i++)
    u += mask_of(p, i) * (old_of(p, frozen, i) - p->sampler[i]);
  const double low = isnan(o->sampler_min) ? 0 : o->sampler_min;
  const double high = isnan(o->sampler_max) ? INFINITY : o->sampler_max, c = exp(u);
  return drop ? (c < low || c > high ? 0 : c) : bounded(c, low, high);
}

static double vespo_phi(const Problem *p, Span s, const real *frozen, double a) {
  const LossOptions *o = &p->a.options;
  const double k = a >= 0 ? o->vespo_k_pos : o->vespo_k_neg;
  const double lambda = a >= 0 ? o->vespo_lambda_pos : o->vespo_lambda_neg;
  double q = 0;
  for (int t = s.from; t < s.to; t++) {
    q += mask_of(p, t) * (frozen[t] - old_of(p, frozen, t));
    if (o->sampler_mode < SAMPLER_SEQUENCE_TRUNCATE && mask_of(p, t) != 0)
      q += bounded(log(correction(p, s, frozen, t)), log(1e-8), 20);
  }
  if (o->sampler_mode >= SAMPLER_SEQUENCE_TRUNCATE && s.to > s.from)
    q += bounded(log(correction(p, s, frozen, s.from)), log(1e-8), 20);
  q = bounded(q, log(1e-8), 20);
  return exp(lambda + k * q - lambda * exp(q));
}

static double off_policy(const Problem *p, Span s, const real *frozen, double a) {
  const LossOptions *o = &p->a.options;
  double gap = 0;
  if (isnan(o->off_policy_mask) || a >= 0) return 1;
  for (int t = s.from; t < s.to; t++)
    gap += mask_of(p, t) / s.count *
           ((o->sampler_mode != SAMPLER_NONE ? p->sampler[t] : old_of(p, frozen, t)) - frozen[t]);
  return gap <= o->off_policy_mask;
}

static double token_term(const Problem *p, Span s, const real *l, const real *frozen, int t) {
  const LossOptions *o = &p->a.options;
  const double a = p->advantage[t], w = ratio(p, s, l, frozen, t);
  const double tau = a > 0 ? o->sapo_pos : o->sapo_neg;
  const double cap = isnan(o->cispo_cap) ? 1 + o->clip_high : o->cispo_cap;
  switch (o->kind) {
  case LOSS_cispo:
    return -fmin(ratio(p, s, frozen, frozen, t), cap) * a * l[t];
  case LOSS_sapo:
    return -4 / tau / (1 + exp(-tau * (w - 1))) * a;
  case LOSS_vespo:
    return -vespo_phi(p, s, frozen, a) * a * l[t];
  case LOSS_reinforce:
    return -a * l[t];
  case LOSS_nll:
    return -l[t];
  default:
    return -surrogate(o, w, a);
  }
}

static double sequence_term(const Problem *p, Span s, const real *l, const real *frozen) {
  const LossOptions *o = &p->a.options;
  const double a = p->advantage[s.from];
  double sum = 0, mass = 0;
  for (int t = s.from; t < s.to; t++) {
    const double d = l[t] - old_of(p, frozen, t), m = mask_of(p, t) * term_of(p, t);
    const double cut = bounded(d, -o->clip, o->clip_high);
    sum += m * (o->kind == LOSS_rloo ? d : a > 0 ? fmin(d, cut) : fmax(d, cut));
    mass += m;
  }
  if (o->kind == LOSS_rloo) return -surrogate(o, exp(sum), a);
  return -a * exp(sum / fmax(1, mass));
}

static double kl_term(const Problem *p, Span s, const real *l, const real *frozen, const real *full,
                      int t) {
  const LossOptions *o = &p->a.options;
  const double d = p->a.ref_logp ? l[t] - p->ref[t] : 0;
  const double kl = o->kl_estimator == KL_FULL ? full[t]
                    : o->kl_estimator == KL_K1 ? d
                    : o->kl_estimator == KL_K2 ? d * d / 2
                                               : exp(-d) + d - 1;
  return kl * (o->kl_bias_correction ? ratio(p, s, l, frozen, t) : 1);
}

/* A sequence whose tokens are all masked has no term. */
static bool counts(const Problem *p, Span s) {
  double mass = 0;
  for (int t = s.from; t < s.to; t++) mass += mask_of(p, t);
  return mass > 0;
}

static double reference(const Problem *p, const real *l, const real *frozen, const real *entropy,
                        const real *full) {
  const LossOptions *o = &p->a.options;
  const LossKind k = o->kind;
  const double b = p->a.num_sequences;
  const bool whole = k == LOSS_gmpo || k == LOSS_rloo;
  const bool by_token = k == LOSS_dapo || k == LOSS_cispo || k == LOSS_vespo;
  const bool tokens = by_token || k == LOSS_reinforce || k == LOSS_nll;
  double loss = 0;
  for (int i = 0; i < NSEQ; i++) {
    const Span s = span_of(p, i);
    const double scale = tokens              ? 1 / p->a.num_tokens
                         : k == LOSS_bnpo    ? p->a.batch_share / p->a.batch_tokens
                         : k == LOSS_dr_grpo ? 1 / (b * o->max_new_tokens)
                         : k == LOSS_luspo   ? 1 / b
                                             : 1 / (b * s.count);
    double kl_scale = scale;
    if (k == LOSS_luspo) kl_scale = 1 / (b * s.count);
    if (whole && counts(p, s))
      loss += sequence_term(p, s, l, frozen) * correction(p, s, frozen, s.from) *
              off_policy(p, s, frozen, p->advantage[s.from]) / b;
    for (int t = s.from; t < s.to; t++) {
      const double m = mask_of(p, t), kept = m * kept_of(p, t);
      if (!whole)
        loss += scale * m * term_of(p, t) * token_term(p, s, l, frozen, t) *
                (k == LOSS_vespo ? 1 : correction(p, s, frozen, t)) *
                off_policy(p, s, frozen, p->advantage[t]);
      loss += o->kl * kl_scale * m * kl_term(p, s, l, frozen, full, t);
      if (is_chosen(p, t, CHOSEN_KL))
        loss += o->kl_cov_coef * kl_scale * m * fabs(l[t] - old_of(p, frozen, t));
      loss -= o->entropy * kept * entropy[t] / (by_token ? p->a.num_tokens : p->a.num_kept_tokens);
    }
  }
  return loss;
}

/* ---- the comparison -------------------------------------------------------------------- */

/* a copy of the input's data with one element moved */
static real *moved(const Tensor *x, int i, double by) {
  real *copy = check_alloc(x->n * sizeof *copy);
  memcpy(copy, x->data, x->n * sizeof *copy);
  copy[i] += (real)by;
  return copy;
}

static double moved_loss(const Problem *p, int input, int i, double by) {
  const real *l = p->in[0]->data, *x = moved(p->in[input], i, by);
  return reference(p, input == 0 ? x : l, l, input == 1 ? x : p->in[1]->data,
                   input == 2 ? x : p->in[2]->data);
}

static void compare(Problem *p, const char *what) {
  const Attr attr = {.p = &p->a};
  Tape *tape = check_tape();
  Tensor *loss = NULL;
  const double h = 1e-5;
  const char *name = loss_kind_name(p->a.options.kind);
  tape_reset(tape);
  tape->off = false;
  for (int k = 0; k < 3; k++) p->in[k]->grad_live = false;
  if (tape_apply(tape, OP_policy_loss, p->in, &attr, &loss) || tape_backward(tape, loss)) {
    test_fail(__FILE__, __LINE__, "%s %s: %s", name, what, err_message());
    return;
  }
  const double want = moved_loss(p, 0, 0, 0);
  if (!(fabs(loss->data[0] - want) <= 1e-12 * fmax(1, fabs(want))))
    test_fail(__FILE__, __LINE__, "%s %s: loss %.15g, want %.15g", name, what, loss->data[0], want);
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < N; i++) {
      const double slope = (moved_loss(p, k, i, h) - moved_loss(p, k, i, -h)) / (2 * h);
      if (!(fabs(p->in[k]->grad[i] - slope) <= 1e-7))
        test_fail(__FILE__, __LINE__, "%s %s: input %d, token %d: gradient %.12g, want %.12g", name,
                  what, k, i, p->in[k]->grad[i], slope);
      if (mask_of(p, i) == 0) CHECK(p->in[k]->grad[i] == 0);
    }
}

/* ---- the problems ------------------------------------------------------------------------- */

static Problem problem(LossKind kind) {
  Problem p = {0};
  real **array[] = {&p.mask, &p.kept, &p.advantage, &p.old, &p.ref, &p.sampler};
  for (int k = 0; k < 6; k++) *array[k] = check_alloc(N * sizeof(real));
  p.chosen = check_alloc(N);
  for (int k = 0; k < 3; k++) p.in[k] = LEAF(.1, 2, N);
  int at = 0;
  for (int s = 0; s < NSEQ; s++) {
    const double a = check_random(-2, 2);
    for (int t = 0; t < lengths[s]; t++, at++) {
      p.in[0]->data[at] = (real)check_random(-3, -.1);
      p.old[at] = p.in[0]->data[at] + (real)check_random(-.5, .5);
      p.ref[at] = p.in[0]->data[at] + (real)check_random(-.5, .5);
      p.sampler[at] = p.old[at] + (real)check_random(-.3, .3);
      p.advantage[at] = (real)a;
      p.kept[at] = check_random(0, 1) > .4;
      p.chosen[at] = (uint8_t)(4 * check_random(0, 1));
      p.mask[at] = s != 2 && check_random(0, 1) > .2; /* the third is masked whole */
    }
  }
  p.a = (PolicyLossAttr){.nseq = NSEQ,
                         .lengths = lengths,
                         .mask = p.mask,
                         .advantage = p.advantage,
                         .old_logp = p.old,
                         .num_sequences = 7,
                         .num_tokens = 23,
                         .num_kept_tokens = 11,
                         .batch_tokens = 9,
                         .batch_share = .5};
  loss_options_init(&p.a.options, kind);
  p.a.options.max_new_tokens = 8;
  p.a.options.clip = .15; /* so that some tokens are clipped, whatever the loss's default */
  p.a.options.clip_high = .25;
  return p;
}

static void check_importance(LossKind kind) {
  static const char *const names[] = {"token", "sequence", "sequence_token"};
  for (int i = 0; i < 3; i++) {
    Problem p = problem(kind);
    p.a.options.importance = (Importance)i;
    compare(&p, names[i]);
    p.a.mask = NULL;
    compare(&p, "without a mask");
    p.a.options.delta = 1.3;
    compare(&p, "with delta");
    p.a.kept = p.kept;
    p.a.mask = p.mask;
    p.a.options.kl = .1;
    p.a.options.kl_bias_correction = true;
    p.a.ref_logp = p.ref;
    compare(&p, "kept, kl_bias_correction");
  }
}

static void check_kl(LossKind kind) {
  static const char *const names[] = {"k1", "k2", "k3", "full"};
  for (int i = 0; i < 4; i++) {
    Problem p = problem(kind);
    p.a.options.kl = .3;
    p.a.options.kl_estimator = (KlEstimator)i;
    if (i != KL_FULL) p.a.ref_logp = p.ref;
    compare(&p, names[i]);
    p.a.options.kl_bias_correction = true;
    compare(&p, "bias correction");
    p.a.old_logp = NULL; /* on-policy: old is logp itself, detached */
    compare(&p, "on policy");
  }
}

static void check_corrections(LossKind kind) {
  static const char *const names[] = {"none", "token_truncate", "token_mask", "sequence_truncate",
                                      "sequence_mask"};
  for (int i = 0; i < 5; i++) {
    if (i > 0 && i < 3 && (kind == LOSS_gmpo || kind == LOSS_rloo)) continue; /* refused */
    Problem p = problem(kind);
    p.a.options.sampler_mode = (SamplerMode)i;
    p.a.sampler_logp = p.sampler;
    compare(&p, names[i]);
    p.a.options.sampler_min = .9;
    p.a.options.sampler_max = 1.15;
    compare(&p, "bounds");
    p.a.options.off_policy_mask = .01;
    compare(&p, "off_policy_mask");
    p.a.options.entropy = .05;
    p.a.kept = p.kept;
    compare(&p, "entropy bonus");
  }
}

static void check_covariance(LossKind kind) {
  Problem p = problem(kind);
  p.a.chosen = p.chosen;
  p.a.options.kl_cov_coef = .7;
  compare(&p, "Clip-Cov and KL-Cov");
  p.a.kept = p.kept;
  p.a.options.entropy = .05;
  compare(&p, "beside the entropy bonus");
}

void check_policy_loss(void) {
  for (int kind = 0; kind < LOSS_COUNT; kind++)
    for (int round = 0; round < 4; round++) { /* other numbers each time */
      check_importance((LossKind)kind);
      check_kl((LossKind)kind);
      check_corrections((LossKind)kind);
      check_covariance((LossKind)kind);
    }
  Problem p = problem(LOSS_grpo); /* the rules every operation keeps */
  p.a.options.entropy = .1;
  p.a.options.kl = .2;
  p.a.options.kl_estimator = KL_FULL;
  CHECK_GRADIENTS(OP_policy_loss, p.in, (&(Attr){.p = &p.a}));
}
