/* loss.c - losses and advantages on plain arrays. */
#include "api/loss.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "rl/advantage.h"
#include "rl/options.h"

/* ---- options ------------------------------------------------------------------------------- */

static const grpo_loss_options defaults = {.size = sizeof(grpo_loss_options),
                                           .clip = NAN,
                                           .clip_high = NAN,
                                           .delta = NAN,
                                           .off_policy_mask = NAN,
                                           .sampler_min = NAN,
                                           .sampler_max = NAN,
                                           .top_entropy_quantile = 1,
                                           .sapo_pos = NAN,
                                           .sapo_neg = NAN,
                                           .cispo_cap = NAN,
                                           .vespo_k_pos = NAN,
                                           .vespo_lambda_pos = NAN,
                                           .vespo_k_neg = NAN,
                                           .vespo_lambda_neg = NAN};

grpo_status grpo_loss_options_init(grpo_loss_options *o, size_t size) {
  return options_init(o, size, &defaults, sizeof defaults);
}

/* NaN: the default stays. */
static Status take_number(const char *name, double v, double low, double high, double *to) {
  if (isnan(v)) return GRPO_OK;
  if (!(v >= low && v <= high))
    return fail(GRPO_EARG, "loss.%s: %g, want %g to %g", name, v, low, high);
  *to = v;
  return GRPO_OK;
}

static Status take_numbers(const grpo_loss_options *g, LossOptions *o) {
  const double most = 1e300;
  const struct {
    const char *name;
    double v, low, high, *to;
  } rows[] = {{"clip", g->clip, 0, 1000, &o->clip},
              {"clip_high", isnan(g->clip_high) ? g->clip : g->clip_high, 0, 1000, &o->clip_high},
              {"delta", g->delta, 0, most, &o->delta},
              {"kl", g->kl, 0, most, &o->kl},
              {"off_policy_mask", g->off_policy_mask, -most, most, &o->off_policy_mask},
              {"sampler_min", g->sampler_min, 0, most, &o->sampler_min},
              {"entropy", g->entropy, -most, most, &o->entropy},
              {"sapo_pos", g->sapo_pos, 1e-6, most, &o->sapo_pos},
              {"sapo_neg", g->sapo_neg, 1e-6, most, &o->sapo_neg},
              {"cispo_cap", g->cispo_cap, 0, most, &o->cispo_cap},
              {"vespo_k_pos", g->vespo_k_pos, 0, most, &o->vespo_k_pos},
              {"vespo_lambda_pos", g->vespo_lambda_pos, 0, most, &o->vespo_lambda_pos},
              {"vespo_k_neg", g->vespo_k_neg, 0, most, &o->vespo_k_neg},
              {"vespo_lambda_neg", g->vespo_lambda_neg, 0, most, &o->vespo_lambda_neg}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    try(take_number(rows[i].name, rows[i].v, rows[i].low, rows[i].high, rows[i].to));
  return GRPO_OK;
}

static Status take_words(const grpo_loss_options *g, LossOptions *o) {
  int choice;
  if (g->importance) {
    try(choice_of("loss.importance", g->importance, "token|sequence", &choice));
    o->importance = choice == 0                  ? IMPORTANCE_TOKEN
                    : o->kind == LOSS_gspo_token ? IMPORTANCE_SEQUENCE_TOKEN
                                                 : IMPORTANCE_SEQUENCE;
  }
  if (g->kl_estimator) {
    try(choice_of("loss.kl_estimator", g->kl_estimator, "k1|k2|k3|full", &choice));
    o->kl_estimator = (KlEstimator)choice;
  }
  if (g->sampler_correction) {
    try(choice_of("loss.sampler_correction", g->sampler_correction,
                  "token_truncate|token_mask|sequence_truncate|sequence_mask", &choice));
    o->sampler_mode = (SamplerMode)(SAMPLER_TOKEN_TRUNCATE + choice);
    o->sampler_max = 3;
    try(take_number("sampler_max", g->sampler_max, 0, 1e300, &o->sampler_max));
  }
  return GRPO_OK;
}

Status loss_take(const grpo_loss_options *g, LossOptions *o, LossExtras *x) {
  grpo_loss_options own = defaults;
  LossKind kind = LOSS_grpo;
  try(options_take(&own, sizeof own, g, "grpo_loss_options"));
  if (own.loss) try(loss_kind_from_name(own.loss, &kind));
  loss_options_init(o, kind);
  try(take_numbers(&own, o));
  try(take_words(&own, o));
  o->kl_bias_correction = own.kl_bias_correction != 0;
  if (own.max_new_tokens < 0) return fail(GRPO_EARG, "loss.max_new_tokens: %d", own.max_new_tokens);
  o->max_new_tokens = own.max_new_tokens;
  *x = (LossExtras){1, own.mask_truncated != 0};
  try(take_number("top_entropy_quantile", own.top_entropy_quantile, 0, 1,
                  &x->top_entropy_quantile));
  return loss_options_check(o);
}

void loss_from_logits_default(LossOptions *o) {
  loss_options_init(o, LOSS_dapo);
  o->clip_high = o->clip;
}

/* ---- the batch ------------------------------------------------------------------------------ */

grpo_status grpo_loss_batch_init(grpo_loss_batch *b, size_t size) {
  const grpo_loss_batch d = {.size = sizeof d};
  return options_init(b, size, &d, sizeof d);
}

static double masked(const float *mask, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += mask ? (double)mask[i] : 1;
  return sum > 1 ? sum : 1;
}

static Status take_lengths(const grpo_loss_batch *b, int *one, PolicyLossAttr *a) {
  *one = (int)b->count;
  a->nseq = b->sequences ? (int)b->sequences : 1;
  a->lengths = b->lengths ? b->lengths : one;
  if (!b->lengths && a->nseq > 1) return need(b->lengths, "batch.lengths");
  for (int i = 0; b->lengths && i < a->nseq; i++)
    if (a->lengths[i] > a->padded_width) a->padded_width = a->lengths[i];
  return GRPO_OK;
}

Status batch_take(const grpo_loss_batch *b, const LossOptions *o, const LossExtras *x, int *one,
                  PolicyLossAttr *out) {
  grpo_loss_batch own = {.size = sizeof own};
  try(need(b, "batch"));
  try(options_take(&own, sizeof own, b, "grpo_loss_batch"));
  if (own.count < 1 || own.count > INT32_MAX / 2 || own.sequences > own.count)
    return fail(GRPO_EARG, "batch: %zu tokens in %zu sequences", own.count, own.sequences);
  if (!(own.num_sequences >= 0 && own.num_tokens >= 0))
    return fail(GRPO_EARG, "batch: num_sequences %g and num_tokens %g must not be negative",
                own.num_sequences, own.num_tokens);
  if (x->top_entropy_quantile < 1 || x->mask_truncated)
    return fail(GRPO_EARG,
                "loss: top_entropy_quantile and mask_truncated are a trainer's; give mask");
  *out = (PolicyLossAttr){.options = *o,
                          .mask = own.mask,
                          .advantage = own.advantage,
                          .old_logp = own.old_logp,
                          .ref_logp = own.ref_logp,
                          .sampler_logp = own.sampler_logp,
                          .batch_share = 1};
  try(take_lengths(&own, one, out));
  out->num_sequences = own.num_sequences > 0 ? own.num_sequences : out->nseq;
  out->batch_tokens = masked(own.mask, own.count);
  out->num_tokens = own.num_tokens > 0 ? own.num_tokens : out->batch_tokens;
  out->num_kept_tokens = out->num_tokens;
  if (!out->options.max_new_tokens)
    out->options.max_new_tokens = out->padded_width ? out->padded_width : *one;
  return GRPO_OK;
}

Status targets_check(const int32_t *targets, size_t n, int vocab) {
  try(need(targets, "targets"));
  for (size_t i = 0; i < n; i++)
    if (targets[i] < 0 || targets[i] >= vocab)
      return fail(GRPO_EARG, "targets[%zu]: %d is outside the vocabulary of %d", i, (int)targets[i],
                  vocab);
  return GRPO_OK;
}

/* ---- value and gradient ------------------------------------------------------------------------ */

/* A tensor around the host's memory: d, when wanted, gets the gradient. */
static Tensor borrowed(const float *data, float *d, int ndim, const int *dim) {
  Tensor t = tensor_view((real *)(uintptr_t)data, ndim, dim);
  t.grad = d;
  t.needs_grad = d != NULL;
  return t;
}

/* No contribution is a gradient of 0. */
static void settle(const Tensor *t) {
  if (t->grad && !t->grad_live) memset(t->grad, 0, t->n * sizeof(real));
}

static Status take_value(const Ctx *cx, Value *loss, double *value) {
  *value = (double)value_tensor(loss)->data[0];
  const Status s = value_tensor(loss)->needs_grad ? value_backward(cx, loss) : GRPO_OK;
  value_release(loss);
  return s;
}

static Status apply_policy(const Ctx *cx, Tensor *logp, Tensor *entropy, const PolicyLossAttr *a,
                           double *value) {
  Value *in[3] = {NULL}, *loss = NULL;
  const Attr attr = {.p = a};
  Status s = value_wrap(&in[0], logp);
  if (s == GRPO_OK && entropy) s = value_wrap(&in[1], entropy);
  if (s == GRPO_OK) s = value_apply(cx, OP_policy_loss, in, &attr, sizeof *a, true, &loss);
  if (s == GRPO_OK) s = take_value(cx, loss, value);
  value_release(in[0]);
  value_release(in[1]);
  return s;
}

static Status policy_loss(grpo_context *c, const grpo_loss_options *o, const grpo_loss_batch *b,
                          const float *logp, const float *entropy, double *value, float *d_logp,
                          float *d_entropy) {
  LossOptions options;
  LossExtras extras;
  PolicyLossAttr a;
  const Ctx *cx;
  int one;
  try(need(logp, "logp"));
  try(need(value, "value"));
  if (d_entropy) try(need(entropy, "entropy"));
  try(loss_take(o, &options, &extras));
  try(batch_take(b, &options, &extras, &one, &a));
  try(context_ctx(c, &cx));
  Tensor l = borrowed(logp, d_logp, 1, &one), e = borrowed(entropy, d_entropy, 1, &one);
  try(apply_policy(cx, &l, entropy ? &e : NULL, &a, value));
  settle(&l);
  settle(&e);
  return GRPO_OK;
}

grpo_status grpo_policy_loss(grpo_context *c, const grpo_loss_options *o, const grpo_loss_batch *b,
                             const float *logp, const float *entropy, double *value, float *d_logp,
                             float *d_entropy) {
  Call k;
  try(call_begin(&k, c));
  return call_end(&k, policy_loss(c, o, b, logp, entropy, value, d_logp, d_entropy));
}

static Status from_logits(grpo_context *c, const grpo_loss_options *o, const grpo_loss_batch *b,
                          const float *logits, int32_t vocab, const int32_t *targets,
                          double temperature, double *value, float *d_logits) {
  LossOptions options;
  LossExtras extras;
  PolicyLossAttr a;
  const Ctx *cx;
  int one;
  Value *in = NULL, *loss = NULL;
  try(need(logits, "logits"));
  try(need(value, "value"));
  if (vocab < 1 || !(temperature > 0 && temperature <= 1e6))
    return fail(GRPO_EARG, "loss: a vocabulary of %d at temperature %g", vocab, temperature);
  try(loss_take(o, &options, &extras));
  if (!o) loss_from_logits_default(&options);
  try(batch_take(b, &options, &extras, &one, &a));
  try(targets_check(targets, (size_t)one, vocab));
  try(context_ctx(c, &cx));
  Tensor x = borrowed(logits, d_logits, 2, (int[2]){one, vocab});
  const TokenLogpAttr target = {.targets = targets, .inv_temp = (real)(1 / temperature)};
  try(value_wrap(&in, &x));
  Status s = policy_loss_from_logits_value(cx, in, &target, &a, true, &loss);
  if (s == GRPO_OK) s = take_value(cx, loss, value);
  value_release(in);
  settle(&x);
  return s;
}

grpo_status grpo_policy_loss_from_logits(grpo_context *c, const grpo_loss_options *o,
                                         const grpo_loss_batch *b, const float *logits,
                                         int32_t vocab, const int32_t *targets, double temperature,
                                         double *value, float *d_logits) {
  Call k;
  try(call_begin(&k, c));
  return call_end(&k, from_logits(c, o, b, logits, vocab, targets, temperature, value, d_logits));
}

/* ---- advantages ------------------------------------------------------------------------------- */

static const grpo_advantage_options advantage_defaults = {.size = sizeof(grpo_advantage_options),
                                                          .scale = "group",
                                                          .baseline = "mean",
                                                          .group = 1,
                                                          .rewards = 1,
                                                          .clip_low = NAN,
                                                          .clip_high = NAN};

grpo_status grpo_advantage_options_init(grpo_advantage_options *o, size_t size) {
  return options_init(o, size, &advantage_defaults, sizeof advantage_defaults);
}

static Status convert(const grpo_advantage_options *o, int group, AdvantageOptions *a) {
  grpo_advantage_options own = advantage_defaults;
  int choice;
  try(options_take(&own, sizeof own, o, "grpo_advantage_options"));
  advantage_options_init(a);
  a->group = group ? group : own.group;
  a->nrewards = own.rewards;
  if (a->group < 1 || a->nrewards < 1 || a->nrewards > 1 << 16)
    return fail(GRPO_EARG, "advantages: groups of %d with %d rewards each", a->group, a->nrewards);
  if (own.scale) {
    try(choice_of("advantages.scale", own.scale, "group|batch|none", &choice));
    a->scale = (AdvantageScale)choice;
  }
  if (own.baseline) {
    try(choice_of("advantages.baseline", own.baseline, "mean|leave_one_out|none", &choice));
    a->baseline = (AdvantageBaseline)choice;
  }
  a->weights = own.weights;
  a->normalize = own.normalize != 0;
  a->normalize_then_sum = own.normalize_then_sum != 0;
  a->clip_low = own.clip_low;
  a->clip_high = own.clip_high;
  return GRPO_OK;
}

static Status check_rewards(const AdvantageOptions *a, size_t n, const double *rewards) {
  try(need(rewards, "rewards"));
  if (n < 1 || n > 1 << 24 || n % (size_t)a->group)
    return fail(GRPO_ESHAPE, "advantages: %zu completions in groups of %d", n, a->group);
  for (size_t i = 0; i < n * (size_t)a->nrewards; i++)
    if (isinf(rewards[i]))
      return fail(GRPO_EARG, "rewards[%zu]: is infinite, want a finite number or NaN", i);
  return GRPO_OK;
}

Status advantages_take(const grpo_advantage_options *o, int group, size_t n, const double *rewards,
                       double *total, double *advantage) {
  AdvantageOptions a;
  try(convert(o, group, &a));
  try(check_rewards(&a, n, rewards));
  double *memory = mem_alloc(3 * n * sizeof *memory);
  if (!memory) return fail(GRPO_ENOMEM, "advantages of %zu completions", n);
  const Status s = advantages(&a, (int)n, rewards, memory, memory + n, memory + 2 * n);
  if (s == GRPO_OK && total) memcpy(total, memory, n * sizeof *total);
  if (s == GRPO_OK && advantage) memcpy(advantage, memory + n, n * sizeof *advantage);
  mem_free(memory);
  return s;
}

grpo_status grpo_advantages(grpo_context *c, const grpo_advantage_options *o, size_t count,
                            const double *rewards, double *total, double *advantage) {
  Call k;
  try(call_begin(&k, c));
  return call_end(&k, advantages_take(o, 0, count, rewards, total, advantage));
}
