#include "grad/policy.h"

#include <math.h>
#include <string.h>

#include "base/err.h"
#include "grad/policy_terms.h"

/* ---- names ------------------------------------------------------------------------ */

static const char *const names[LOSS_COUNT] = {
#define LOSS(name, ...) #name,
#include "grad/losses.def"
};

static const char all_names[] =
#define LOSS(name, ...) " " #name
#include "grad/losses.def"
    ;

static const char offered[] =
#define INNER_LOSS(...)
#define LOSS(name, ...) "|" #name
#include "grad/losses.def"
    ;

const char *loss_kind_words(void) { return offered + 1; }

const char *loss_kind_name(LossKind kind) {
  return (unsigned)kind < LOSS_COUNT ? names[kind] : "unknown";
}

Status loss_kind_from_name(const char *name, LossKind *out) {
  for (int i = 0; i < LOSS_COUNT; i++)
    if (strcmp(names[i], name) == 0) {
      *out = (LossKind)i;
      return GRPO_OK;
    }
  return fail(GRPO_EARG, "loss '%s' is unknown; there are%s", name, all_names);
}

/* ---- options ------------------------------------------------------------------------ */

static const Option option_rows[] = {
#define OPTIONS_OF LossOptions
#include "base/option_rows.h"
#include "grad/loss_options.def"
};

const OptionSet loss_option_set = OPTION_SET("train.", option_rows);

static const LossDefault defaults[] = {
#define LOSS_NUMBER(name, path, value) {LOSS_##name, path, value, NULL},
#define LOSS_WORD(name, path, word)    {LOSS_##name, path, NAN, word},
#include "grad/losses.def"
};

int loss_default_count(void) { return (int)(sizeof defaults / sizeof *defaults); }
const LossDefault *loss_default_at(int i) { return &defaults[i]; }

void loss_options_adapt(LossOptions *o) {
  if (o->importance == IMPORTANCE_SEQUENCE && loss_rules[o->kind].traits & TOKEN_GRADIENT)
    o->importance = IMPORTANCE_SEQUENCE_TOKEN;
}

void loss_options_init(LossOptions *o, LossKind kind) {
  *o = (LossOptions){.kind = kind};
  options_init_rows(&loss_option_set, o);
  for (int i = 0; i < loss_default_count(); i++) {
    const LossDefault *d = &defaults[i];
    const Option *row = option_find(&loss_option_set, d->path); /* NULL: of other options */
    int enumerator = 0;
    if (d->kind != kind || !row) continue;
    if (d->word) (void)option_find_word(row, d->word, &enumerator);
    option_set(row, o, d->word ? enumerator : d->number);
  }
  if (isnan(o->clip_high)) o->clip_high = o->clip;
  loss_options_adapt(o);
}

/* ---- rules: what options mean together ------------------------------------------------ */

static Status check_kl(const LossOptions *o) {
  if (o->kl == 0) return GRPO_OK;
  if (o->kl_estimator == KL_K1)
    return fail(
        GRPO_EARG,
        "train.kl_estimator: \"k1\" does nothing in the loss, because its expected gradient "
        "is 0 on-policy; use \"k2\" or \"k3\", or train.kl_in = \"reward\"");
  if (o->kl_bias_correction && o->kl_estimator == KL_FULL)
    return fail(GRPO_EARG,
                "train.kl_bias_correction: the full KL is exact, so it has no sampling bias to "
                "correct; turn it off");
  return GRPO_OK;
}

static Status check_importance(const LossOptions *o) {
  const unsigned traits = loss_rules[o->kind].traits;
  const char *name = loss_kind_name(o->kind);
  if (traits & SEQUENCE_ONLY && o->importance != IMPORTANCE_SEQUENCE)
    return fail(GRPO_EARG,
                "train.importance: the loss %s weights whole sequences; set it to \"sequence\" or "
                "remove it",
                name);
  if (traits & OWN_WEIGHT && o->importance != IMPORTANCE_TOKEN)
    return fail(GRPO_EARG,
                "train.importance: has no effect with the loss %s, which has a weight of its own; "
                "set it to \"token\" or remove it",
                name);
  return GRPO_OK;
}

static Status check_sampler(const LossOptions *o) {
  const SamplerMode mode = o->sampler_mode;
  if (loss_has_token_terms(o->kind)) return GRPO_OK;
  if (mode != SAMPLER_TOKEN_TRUNCATE && mode != SAMPLER_TOKEN_MASK) return GRPO_OK;
  return fail(GRPO_EARG,
              "train.sampler_correction.mode: the loss %s has one term for a whole completion, not "
              "one for each token; set it to \"sequence_truncate\" or \"sequence_mask\"",
              loss_kind_name(o->kind));
}

static Status check_clip_cov(const LossOptions *o) {
  if (o->clip_cov_ratio == 0 || o->clip_cov_low < o->clip_cov_high) return GRPO_OK;
  return fail(GRPO_EARG,
              "train.clip_cov.low: got %g, but train.clip_cov.high is %g, so that no token is "
              "between them; lower it",
              o->clip_cov_low, o->clip_cov_high);
}

Status loss_options_check(const LossOptions *o) {
  try(options_check(&loss_option_set, o));
  try(check_kl(o));
  try(check_importance(o));
  try(check_clip_cov(o));
  return check_sampler(o);
}

bool loss_has_token_terms(LossKind kind) { return !loss_rules[kind].sequence; }

void loss_metrics_init(LossMetrics *m) {
  *m = (LossMetrics){.clip_low_min = 1,
                     .ratio_min = INFINITY,
                     .ratio_max = -INFINITY,
                     .sampler_min = INFINITY,
                     .sampler_max = -INFINITY};
}

void loss_metrics_add(LossMetrics *m, const LossMetrics *more) {
  m->kl_sum += more->kl_sum;
  m->entropy_sum += more->entropy_sum;
  m->tokens += more->tokens;
  m->clip_low += more->clip_low;
  m->clip_high += more->clip_high;
  m->clip_count += more->clip_count;
  m->clip_low_min = fmin(m->clip_low_min, more->clip_low_min);
  m->clip_high_max = fmax(m->clip_high_max, more->clip_high_max);
  m->ratio_min = fmin(m->ratio_min, more->ratio_min);
  m->ratio_max = fmax(m->ratio_max, more->ratio_max);
  m->sampler_sum += more->sampler_sum;
  m->sampler_count += more->sampler_count;
  m->sampler_min = fmin(m->sampler_min, more->sampler_min);
  m->sampler_max = fmax(m->sampler_max, more->sampler_max);
}

/* ---- from logits ----------------------------------------------------------------------- */

static Attr row_attr(int row) { return (Attr){.i = {0, row, 1}}; } /* narrow: one row of [2, n] */
static Attr flat_attr(int n) { return (Attr){.i = {1, n}}; }       /* reshape: [1, n] to [n] */

static Status tape_row(Tape *t, Tensor *x, int row, Tensor **out) {
  const Attr narrow = row_attr(row), flat = flat_attr(x->dim[1]);
  Tensor *y;
  try(tape_apply(t, OP_narrow, &x, &narrow, &y));
  return tape_apply(t, OP_reshape, &y, &flat, out);
}

Status policy_loss_from_logits(Tape *t, Tensor *logits, const TokenLogpAttr *target,
                               const PolicyLossAttr *loss, Tensor **out) {
  const Attr token = {.p = target}, policy = {.p = loss};
  Tensor *both, *in[3] = {NULL};
  try(tape_apply(t, OP_token_logp, &logits, &token, &both));
  try(tape_row(t, both, 0, &in[0]));
  try(tape_row(t, both, 1, &in[1]));
  return tape_apply(t, OP_policy_loss, in, &policy, out);
}

static Status value_row(const Ctx *cx, Value *x, int row, bool record, Value **out) {
  const Attr narrow = row_attr(row), flat = flat_attr(value_tensor(x)->dim[1]);
  Value *y;
  try(value_apply(cx, OP_narrow, &x, &narrow, 0, record, &y));
  const Status s = value_apply(cx, OP_reshape, &y, &flat, 0, record, out);
  value_release(y);
  return s;
}

static Status value_loss(const Ctx *cx, Value *both, const PolicyLossAttr *loss, bool record,
                         Value **out) {
  const Attr policy = {.p = loss};
  Value *in[3] = {NULL};
  Status s = value_row(cx, both, 0, record, &in[0]);
  if (s == GRPO_OK) s = value_row(cx, both, 1, record, &in[1]);
  if (s == GRPO_OK) s = value_apply(cx, OP_policy_loss, in, &policy, sizeof *loss, record, out);
  value_release(in[0]);
  value_release(in[1]);
  return s;
}

Status policy_loss_from_logits_value(const Ctx *cx, Value *logits, const TokenLogpAttr *target,
                                     const PolicyLossAttr *loss, bool record, Value **out) {
  const Attr token = {.p = target};
  Value *both;
  try(value_apply(cx, OP_token_logp, &logits, &token, sizeof *target, record, &both));
  const Status s = value_loss(cx, both, loss, record, out);
  value_release(both);
  return s;
}
