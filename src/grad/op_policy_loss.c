/* op_policy_loss.c - every loss of losses.def: value, gradient and metrics in one pass.
 *
 *   loss = sum over sequences of
 *            scale  * sum_t m_t kept_t factor_t term_t      (policy_terms.c)
 *          + kl * kl_scale * sum_t m_t KL_t (times w_t with kl_bias_correction)
 *          + kl_cov.coef * kl_scale * sum over tokens that KL-Cov chose of m_t |d_t|
 *          - entropy * sum_t m_t kept_t H_t / tokens
 *
 * Terms depend on l_t = logp directly and through the ratio w = exp(lw).  Forward adds up both
 * parts of d loss / d l, then sends the second one from lw back to l:
 *   token            lw_t = d_t                    d loss/d l_t += g_t
 *   sequence         lw_t = sum_s m_s d_s / n_i    d loss/d l_t += m_t / n_i sum_s g_s
 *   sequence_token   that value, gradient as token
 * Inside, everything is double.  Kept for backward: d loss by logp, entropy and KL, [3, N].
 */
#include <math.h>
#include <string.h>

#include "base/exponential.h"
#include "grad/ops.h"
#include "grad/policy.h"
#include "grad/policy_terms.h"

static const double LOG_WEIGHT_MIN = -18.420680743952367, LOG_WEIGHT_MAX = 20; /* log 1e-8 */

static const PolicyLossAttr *attr_of(const Node *nd) { return nd->attr.p; }
static const LossRule *rule_of(const PolicyLossAttr *a) { return &loss_rules[a->options.kind]; }
static bool has_trait(const PolicyLossAttr *a, enum LossTrait t) { return rule_of(a)->traits & t; }

static bool by_sequence(const PolicyLossAttr *a) {
  return a->options.sampler_mode == SAMPLER_SEQUENCE_TRUNCATE ||
         a->options.sampler_mode == SAMPLER_SEQUENCE_MASK;
}

/* ---- shape: everything a caller can get wrong --------------------------------- */

static Status check_sizes(const Node *nd) {
  static const char *const names[] = {"logp", "entropy", "kl"};
  const PolicyLossAttr *a = attr_of(nd);
  size_t sum = 0;
  for (int i = 0; i < a->nseq; i++) {
    if (a->lengths[i] < 0)
      return fail(GRPO_ESHAPE, "policy_loss: sequence %d has length %d", i + 1, a->lengths[i]);
    sum += (size_t)a->lengths[i];
  }
  for (int k = 0; k < 3; k++)
    if (nd->in[k] && (nd->in[k]->n != sum || nd->in[k]->ndim != 1))
      return fail(GRPO_ESHAPE,
                  "policy_loss: %s has shape %s but the lengths of %d sequences add up "
                  "to %zu",
                  names[k], shape_text(nd->in[k]).s, a->nseq, sum);
  return GRPO_OK;
}

static Status check_present(const Node *nd) {
  const PolicyLossAttr *a = attr_of(nd);
  const LossOptions *o = &a->options;
  const char *name = loss_kind_name(o->kind);
  if (!a->advantage && !has_trait(a, NO_ADVANTAGE))
    return fail(GRPO_EARG, "policy_loss: %s needs advantages", name);
  if (o->kl != 0 && o->kl_estimator == KL_FULL && !nd->in[2])
    return fail(GRPO_EARG, "policy_loss: kl_estimator full needs the KL over the vocabulary");
  if (o->kl != 0 && o->kl_estimator != KL_FULL && !a->ref_logp)
    return fail(GRPO_EARG, "policy_loss: kl = %g needs ref_logp", o->kl);
  if (o->sampler_mode != SAMPLER_NONE && !a->sampler_logp)
    return fail(GRPO_EARG, "policy_loss: sampler_correction needs sampler_logp");
  if (o->entropy != 0 && !nd->in[1])
    return fail(GRPO_EARG, "policy_loss: entropy = %g needs the entropies", o->entropy);
  return GRPO_OK;
}

static Status check_normalizers(const PolicyLossAttr *a) {
  const LossOptions *o = &a->options;
  const Average average = rule_of(a)->average;
  if (average != BY_TOKEN && average != BY_BATCH && !(a->num_sequences > 0))
    return fail(GRPO_EARG, "policy_loss: %s needs num_sequences, got %g", loss_kind_name(o->kind),
                a->num_sequences);
  if (average == BY_LENGTH && o->max_new_tokens < 1)
    return fail(GRPO_EARG, "policy_loss: dr_grpo needs max_new_tokens, got %d", o->max_new_tokens);
  return GRPO_OK;
}

/* Losses with one term per sequence need one advantage and one correction per sequence. */
static Status check_one_per_sequence(const PolicyLossAttr *a) {
  const char *name = loss_kind_name(a->options.kind);
  if (!rule_of(a)->sequence) return GRPO_OK;
  if (a->options.sampler_mode != SAMPLER_NONE && !by_sequence(a))
    return fail(GRPO_EARG,
                "policy_loss: %s has one term per sequence: use a sampler_correction of "
                "mode sequence_truncate or sequence_mask",
                name);
  size_t at = 0; /* the sequence's first token, which carries its advantage */
  for (int i = 0; i < a->nseq; at += (size_t)a->lengths[i++])
    for (size_t t = at + 1; t < at + (size_t)a->lengths[i]; t++)
      if ((!a->mask || a->mask[t] != 0) && a->advantage[t] != a->advantage[at])
        return fail(GRPO_EARG,
                    "policy_loss: %s needs one advantage per sequence, but those of "
                    "sequence %d differ from token to token",
                    name, i + 1);
  return GRPO_OK;
}

static Status shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)out; /* a number */
  try(need_attr(nd));
  const PolicyLossAttr *a = attr_of(nd);
  if ((unsigned)a->options.kind >= LOSS_COUNT)
    return fail(GRPO_EARG, "policy_loss: unknown loss %d", (int)a->options.kind);
  try(check_sizes(nd));
  try(check_present(nd));
  try(check_normalizers(a));
  try(check_one_per_sequence(a));
  *saved = 3 * nd->in[0]->n * sizeof(real);
  return GRPO_OK;
}

/* ---- one sequence ------------------------------------------------------------- */

/* A pass over the batch: where the sequence is, its numbers, and its gradients so far. */
typedef struct Pass {
  const PolicyLossAttr *a;
  const real *logp, *entropy, *full_kl; /* inputs, or NULL */
  size_t at;                            /* first token of the sequence */
  Sequence s;
  double *d_logp, *d_log_ratio; /* [n] d loss / d l directly, and by lw */
  real *out[3];                 /* [N] d loss by logp, entropy, KL */
  double loss;
} Pass;

static double value_at(const real *x, size_t i, double otherwise) {
  return x ? (double)x[i] : otherwise;
}

static double old_logp(const Pass *p, int t) {
  return value_at(p->a->old_logp, p->at + (size_t)t, p->s.logp[t]);
}

static bool is_chosen(const PolicyLossAttr *a, size_t i, int bit) {
  return a->chosen && a->chosen[i] & bit;
}

static void load_tokens(Pass *p, int n) {
  const PolicyLossAttr *a = p->a;
  Sequence *s = &p->s;
  s->n = n;
  s->mass = 0;
  for (int t = 0; t < n; t++) {
    const size_t i = p->at + (size_t)t;
    s->mask[t] = value_at(a->mask, i, 1);
    s->kept[t] = is_chosen(a, i, CHOSEN_CLIP) ? 0 : value_at(a->kept, i, 1);
    s->advantage[t] = value_at(a->advantage, i, 1);
    s->logp[t] = s->mask[t] != 0 ? (double)p->logp[i] : 0;
    s->diff[t] = s->mask[t] != 0 ? s->logp[t] - old_logp(p, t) : 0;
    s->mass += s->mask[t];
    p->d_logp[t] = p->d_log_ratio[t] = 0;
  }
  s->count = s->mass < 1 ? 1 : s->mass;
}

static void load_ratios(const PolicyLossAttr *a, Sequence *s) {
  double mean = 0;
  for (int t = 0; t < s->n; t++) mean += s->mask[t] * s->diff[t] / s->count;
  for (int t = 0; t < s->n; t++) {
    s->log_ratio[t] = a->options.importance == IMPORTANCE_TOKEN ? s->diff[t] : mean;
    s->ratio[t] = exp_clamped(s->log_ratio[t]);
  }
}

/* A correction weight held to its bounds: cut to them, or dropped outside them. */
static double bounded(const LossOptions *o, double c) {
  const bool truncate =
      o->sampler_mode == SAMPLER_TOKEN_TRUNCATE || o->sampler_mode == SAMPLER_SEQUENCE_TRUNCATE;
  if (c < o->sampler_min) return truncate ? o->sampler_min : 0; /* NaN: no bound */
  if (c > o->sampler_max) return truncate ? o->sampler_max : 0;
  return c;
}

static void measure_sampler(LossMetrics *m, double weight) {
  if (!m) return;
  m->sampler_sum += weight;
  m->sampler_count++;
  m->sampler_min = fmin(m->sampler_min, weight);
  m->sampler_max = fmax(m->sampler_max, weight);
}

/* factor = the sampler's correction exp(old - sampler); returns the sum of its logs */
static double load_sampler(const Pass *p) {
  const PolicyLossAttr *a = p->a;
  const Sequence *s = &p->s;
  double sum = 0, logs = 0;
  for (int t = 0; t < s->n; t++) s->factor[t] = 1;
  if (a->options.sampler_mode == SAMPLER_NONE) return 0;
  for (int t = 0; t < s->n; t++) {
    if (s->mask[t] == 0) continue;
    const double u = old_logp(p, t) - (double)a->sampler_logp[p->at + (size_t)t];
    s->factor[t] = bounded(&a->options, exp_clamped(u));
    logs += clamp_to(math_log(s->factor[t]), LOG_WEIGHT_MIN, LOG_WEIGHT_MAX);
    sum += s->mask[t] * u;
    if (!by_sequence(a)) measure_sampler(a->metrics, exp_clamped(u));
  }
  if (!by_sequence(a)) return logs;
  if (s->mass > 0) measure_sampler(a->metrics, exp_clamped(sum));
  const double c = bounded(&a->options, exp_clamped(sum));
  for (int t = 0; t < s->n; t++) s->factor[t] = c;
  return clamp_to(math_log(c), LOG_WEIGHT_MIN, LOG_WEIGHT_MAX);
}

/* With SEQUENCE_WEIGHT the correction goes into the weight W instead. */
static void load_weight(const Pass *p, Sequence *s, double sampler_log) {
  double sum = sampler_log;
  if (!has_trait(p->a, SEQUENCE_WEIGHT)) return;
  for (int t = 0; t < s->n; t++) {
    sum += s->mask[t] * clamp_to(s->diff[t], -LOG_WEIGHT_MAX, LOG_WEIGHT_MAX);
    s->factor[t] = 1;
  }
  s->log_weight = clamp_to(sum, LOG_WEIGHT_MIN, LOG_WEIGHT_MAX);
}

/* The off-policy mask leaves out sequences with a negative advantage from which the policy has
 * moved too far away. */
static void load_off_policy_mask(const Pass *p, Sequence *s) {
  const PolicyLossAttr *a = p->a;
  double gap = 0;
  if (isnan(a->options.off_policy_mask)) return;
  for (int t = 0; t < s->n; t++) {
    if (s->mask[t] == 0) continue;
    const double other = a->options.sampler_mode != SAMPLER_NONE
                             ? (double)a->sampler_logp[p->at + (size_t)t]
                             : old_logp(p, t);
    gap += s->mask[t] * (other - s->logp[t]) / s->count;
  }
  for (int t = 0; t < s->n; t++)
    if (s->advantage[t] < 0 && !(gap <= a->options.off_policy_mask)) s->factor[t] = 0;
}

static void load(Pass *p, int n) {
  load_tokens(p, n);
  load_ratios(p->a, &p->s);
  load_weight(p, &p->s, load_sampler(p));
  load_off_policy_mask(p, &p->s);
}

/* ---- its parts of the loss ---------------------------------------------------- */

static double scale_of(const PolicyLossAttr *a, const Sequence *s) {
  switch (rule_of(a)->average) {
  case BY_SEQUENCE:
    return 1 / (s->count * a->num_sequences);
  case BY_LENGTH:
    return 1 / (a->num_sequences * a->options.max_new_tokens);
  case BY_TOKEN:
    return 1 / fmax(1, a->num_tokens);
  case BY_BATCH:
    return a->batch_share / fmax(1, a->batch_tokens);
  case BY_SUM:
    return 1 / a->num_sequences;
  }
  return NAN;
}

static void add_token_terms(Pass *p) {
  const LossOptions *o = &p->a->options;
  const Sequence *s = &p->s;
  const double scale = scale_of(p->a, s);
  for (int t = 0; t < s->n; t++) {
    const double f = scale * s->mask[t] * s->kept[t] * s->factor[t];
    if (f == 0) continue;
    const Term term = rule_of(p->a)->token(o, s, t);
    p->loss += f * term.value;
    p->d_logp[t] += f * term.d_logp;
    p->d_log_ratio[t] += f * term.d_ratio * exp_clamped_slope(s->log_ratio[t]);
  }
}

static void add_sequence_term(Pass *p) {
  const Sequence *s = &p->s;
  if (s->mass == 0) return; /* no token that counts */
  const double f = s->factor[0] / p->a->num_sequences;
  p->loss += f * rule_of(p->a)->sequence(&p->a->options, s, p->d_logp);
  for (int t = 0; t < s->n; t++) p->d_logp[t] *= f;
}

typedef struct Kl {
  double value, d_logp, d_full;
} Kl;

static Kl kl_at(const Pass *p, int t) {
  const size_t i = p->at + (size_t)t;
  if (p->a->options.kl_estimator == KL_FULL) return (Kl){value_at(p->full_kl, i, 0), 0, 1};
  if (!p->a->ref_logp) return (Kl){0, 0, 0};
  const double d = p->s.logp[t] - (double)p->a->ref_logp[i];
  switch (p->a->options.kl_estimator) {
  case KL_K1:
    return (Kl){d, 1, 0};
  case KL_K2:
    return (Kl){d * d / 2, d, 0};
  default:
    return (Kl){kl_k3(d), 1 - exp_clamped_slope(-d), 0};
  }
}

static double kl_scale_of(const PolicyLossAttr *a, const Sequence *s) {
  return has_trait(a, KL_BY_SEQUENCE) ? 1 / (s->count * a->num_sequences) : scale_of(a, s);
}

/* Also the KL's metric, which is wanted where the coefficient is 0 but a reference is there. */
static void add_kl(Pass *p) {
  const LossOptions *o = &p->a->options;
  const Sequence *s = &p->s;
  const double scale = o->kl * kl_scale_of(p->a, s);
  double sum = 0;
  const real *measured = p->a->kl_mask ? p->a->kl_mask + p->at : NULL;
  for (int t = 0; t < s->n; t++) {
    if (s->mask[t] == 0 || (measured && measured[t] == 0)) continue;
    const Kl kl = kl_at(p, t);
    const double w = o->kl_bias_correction ? s->ratio[t] : 1, f = scale * s->mask[t];
    sum += s->mask[t] * kl.value * w;
    if (o->kl == 0) continue;
    p->loss += f * kl.value * w;
    p->d_logp[t] += f * kl.d_logp * w;
    p->out[2][p->at + (size_t)t] = (real)(f * kl.d_full * w);
    if (o->kl_bias_correction)
      p->d_log_ratio[t] += f * kl.value * exp_clamped_slope(s->log_ratio[t]);
  }
  if (p->a->metrics) p->a->metrics->kl_sum += sum;
}

/* KL-Cov: |l - old| of the chosen tokens, whose slope is 0 where they are equal. */
static void add_kl_cov(Pass *p) {
  const PolicyLossAttr *a = p->a;
  const Sequence *s = &p->s;
  const double f = a->options.kl_cov_coef * kl_scale_of(a, s);
  for (int t = 0; a->chosen && t < s->n; t++) {
    if (s->mask[t] == 0 || !is_chosen(a, p->at + (size_t)t, CHOSEN_KL)) continue;
    const double d = s->diff[t];
    p->loss += f * s->mask[t] * fabs(d);
    p->d_logp[t] += f * s->mask[t] * (d > 0 ? 1 : d < 0 ? -1 : 0);
  }
}

static void add_entropy(Pass *p) {
  const PolicyLossAttr *a = p->a;
  const Sequence *s = &p->s;
  const double tokens = has_trait(a, ENTROPY_BY_TOKEN) ? a->num_tokens : a->num_kept_tokens;
  const double scale = a->options.entropy / fmax(1, tokens);
  double sum = 0;
  for (int t = 0; p->entropy && t < s->n; t++) {
    if (s->mask[t] == 0) continue;
    const size_t i = p->at + (size_t)t;
    const double h = (double)p->entropy[i], f = scale * s->mask[t] * value_at(a->kept, i, 1);
    sum += s->mask[t] * h;
    if (f == 0) continue;
    p->loss -= f * h;
    p->out[1][i] = (real)-f;
  }
  if (a->metrics) a->metrics->entropy_sum += sum;
}

/* From lw back to l, and out. */
static void store_gradient(Pass *p) {
  const Sequence *s = &p->s;
  double sum = 0;
  for (int t = 0; t < s->n; t++) sum += p->d_log_ratio[t];
  for (int t = 0; t < s->n; t++) {
    const double through = p->a->options.importance == IMPORTANCE_SEQUENCE
                               ? s->mask[t] / s->count * sum
                               : p->d_log_ratio[t];
    p->out[0][p->at + (size_t)t] = s->mask[t] != 0 ? (real)(p->d_logp[t] + through) : 0;
  }
}

/* ---- metrics ------------------------------------------------------------------ */

static Clipped clipped_tokens(const LossOptions *o, const LossRule *rule, const Sequence *s) {
  Clipped sum = {0};
  for (int t = 0; t < s->n; t++) {
    const Clipped c = rule->clipped(o, s->ratio[t], s->advantage[t]);
    sum.low += s->mask[t] * c.low;
    sum.high += s->mask[t] * c.high;
    sum.count += s->mask[t];
  }
  return sum;
}

static void measure_clipping(const LossOptions *o, const Sequence *s, LossMetrics *m) {
  const LossRule *rule = &loss_rules[o->kind];
  Clipped c;
  if (!rule->clipped || s->n == 0) return;
  if (rule->traits & SEQUENCE_CLIPPED)
    c = rule->clipped(o, sequence_ratio(s), s->advantage[0]);
  else if (o->importance == IMPORTANCE_SEQUENCE)
    c = rule->clipped(o, s->ratio[0], s->advantage[0]);
  else
    c = clipped_tokens(o, rule, s);
  m->clip_low += c.low;
  m->clip_high += c.high;
  m->clip_count += c.count;
  m->clip_low_min = fmin(m->clip_low_min, c.low / fmax(1, c.count));
  m->clip_high_max = fmax(m->clip_high_max, c.high / fmax(1, c.count));
}

static void measure(const Pass *p) {
  LossMetrics *m = p->a->metrics;
  if (!m) return;
  m->tokens += p->s.mass;
  for (int t = 0; t < p->s.n; t++) {
    if (p->s.mask[t] == 0) continue;
    const double ratio = exp_clamped(p->s.diff[t]);
    m->ratio_min = fmin(m->ratio_min, ratio);
    m->ratio_max = fmax(m->ratio_max, ratio);
  }
  measure_clipping(&p->a->options, &p->s, m);
}

/* ---- forward, backward -------------------------------------------------------- */

static Status pass_init(const Ctx *cx, Node *nd, Pass *p) {
  const PolicyLossAttr *a = attr_of(nd);
  *p = (Pass){.a = a, .logp = nd->in[0]->data};
  if (nd->in[1]) p->entropy = nd->in[1]->data;
  if (nd->in[2]) p->full_kl = nd->in[2]->data;
  size_t longest = 0;
  for (int i = 0; i < a->nseq; i++)
    if ((size_t)a->lengths[i] > longest) longest = (size_t)a->lengths[i];
  double **array[] = {&p->s.mask,      &p->s.kept,  &p->s.advantage, &p->s.logp, &p->s.diff,
                      &p->s.log_ratio, &p->s.ratio, &p->s.factor,    &p->d_logp, &p->d_log_ratio};
  enum { ARRAYS = sizeof array / sizeof *array };
  double *memory = arena_alloc(cx->arena, ARRAYS * longest * sizeof *memory);
  if (!memory) return fail(GRPO_ENOMEM, "policy_loss: no memory for a sequence");
  for (size_t k = 0; k < ARRAYS; k++) *array[k] = memory + k * longest;
  if (nd->saved) memset(nd->saved, 0, 3 * nd->in[0]->n * sizeof(real)); /* NULL: no tokens */
  for (int k = 0; k < 3; k++) p->out[k] = (real *)nd->saved + (size_t)k * nd->in[0]->n;
  return GRPO_OK;
}

static Status forward(const Ctx *cx, Node *nd) {
  const ArenaMark mark = arena_mark(cx->arena);
  const PolicyLossAttr *a = attr_of(nd);
  Pass p;
  try(pass_init(cx, nd, &p));
  for (int i = 0; i < a->nseq; i++) {
    load(&p, a->lengths[i]);
    if (rule_of(a)->sequence)
      add_sequence_term(&p);
    else
      add_token_terms(&p);
    add_kl(&p);
    add_kl_cov(&p);
    add_entropy(&p);
    store_gradient(&p);
    measure(&p);
    p.at += (size_t)a->lengths[i];
  }
  nd->out->data[0] = (real)p.loss;
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

static Status backward(const Ctx *cx, Node *nd) {
  (void)cx;
  const size_t n = nd->in[0]->n;
  const real dy = nd->out->grad[0];
  for (size_t k = 0; k < 3; k++) {
    if (!wants_grad(nd->in[k])) continue;
    const real *d = (const real *)nd->saved + k * n;
    real *to = grad_added(nd->in[k]);
    for (size_t i = 0; i < n; i++) to[i] += dy * d[i];
  }
  return GRPO_OK;
}

DEFINE_OP(policy_loss, shape, forward, backward);
