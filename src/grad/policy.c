#include "grad/policy.h"

#include <math.h>
#include <string.h>

#include "base/err.h"

/* ---- names ------------------------------------------------------------------------ */

static const char *const names[LOSS_COUNT] = {
#define LOSS(name) #name,
#include "grad/losses.def"
#undef LOSS
};

static const char all_names[] =
#define LOSS(name) " " #name
#include "grad/losses.def"
#undef LOSS
    ;

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

/* ---- defaults ----------------------------------------------------------------------- */

static void set_clip(LossOptions *o, double low, double high) {
  o->clip = low;
  o->clip_high = high;
}

void loss_options_init(LossOptions *o, LossKind kind) {
  *o = (LossOptions){
      .kind = kind,
      .clip = .2,
      .clip_high = .2,
      .kl_estimator = KL_K3,
      .off_policy_mask = NAN,
      .sampler_min = NAN,
      .sampler_max = NAN,
      .cispo_cap = NAN,
      .sapo_pos = 1,
      .sapo_neg = 1.05,
      .vespo_k_pos = 2,
      .vespo_lambda_pos = 3,
      .vespo_k_neg = 3,
      .vespo_lambda_neg = 2,
  };
  switch (kind) {
  case LOSS_gspo:
  case LOSS_luspo:
    o->importance = IMPORTANCE_SEQUENCE;
    set_clip(o, 3e-4, 4e-4);
    break;
  case LOSS_gspo_token:
    o->importance = IMPORTANCE_SEQUENCE_TOKEN;
    set_clip(o, 3e-4, 4e-4);
    break;
  case LOSS_dapo:
    set_clip(o, .2, .28);
    break;
  case LOSS_gmpo:
    set_clip(o, .4, .4);
    break;
  default:
    break;
  }
}

void loss_metrics_init(LossMetrics *m) {
  *m = (LossMetrics){.clip_low_min = 1, .ratio_min = INFINITY, .ratio_max = -INFINITY};
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
