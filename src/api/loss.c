/* loss.c - losses and advantages on plain arrays. */
#include "api/loss.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "grad/covariance.h"
#include "model/sampler.h"
#include "rl/advantage.h"

/* ---- options ---------------------------------------------------------------------- */

/* In a host's struct NaN and NULL stand for the default of the loss. */
static grpo_loss_options defaults(void) {
  grpo_loss_options o = {
      .size = sizeof(grpo_loss_options),
#define NUMBER(path, field, ...) .field = NAN,
#define INT(path, field, ...)
#define BOOL(path, field, ...)
#define CHOICE(path, field, ...)
#define SECTION(path, doc)
#include "grad/loss_options.def"
  };
  o.kl = o.entropy = 0; /* no loss has another default of these */
  o.top_entropy_quantile = 1;
  o.clip_cov_ratio = o.kl_cov_ratio = 0;
  return o;
}

/* Its size before it had Clip-Cov. */
enum { FIRST_LOSS_OPTIONS = offsetof(grpo_loss_options, clip_cov_ratio) };

grpo_status grpo_loss_options_init(grpo_loss_options *o, size_t size) {
  const grpo_loss_options d = defaults();
  return options_init_grown(o, size, &d, sizeof d, FIRST_LOSS_OPTIONS);
}

/* The names that these options have as fields in grpo.h; only the last one differs. */
#define WORD_importance   importance
#define WORD_kl_estimator kl_estimator
#define WORD_sampler_mode sampler_correction

/* Copies the options that are set; NaN, NULL and 0 leave the default. */
static Status take_rows(const grpo_loss_options *g, LossOptions *o) {
  const char *word;
  int enumerator;
  if (g->sampler_correction) options_begin_section(&loss_option_set, "train.sampler_correction", o);
#define NUMBER(path, field, ...)                                                                   \
  if (!isnan(g->field)) o->field = g->field;
#define INT(path, field, ...)                                                                      \
  if (g->field) o->field = g->field;
#define BOOL(path, field, ...) o->field = g->field != 0;
#define CHOICE(path, field, Type, ...)                                                             \
  if ((word = g->WORD_##field)) {                                                                  \
    try(option_find_word(option_find(&loss_option_set, path), word, &enumerator));                 \
    o->field = (Type)enumerator;                                                                   \
  }
#define SECTION(path, doc)
#include "grad/loss_options.def"
  return GRPO_OK;
}

Status loss_take(const grpo_loss_options *g, LossOptions *o) {
  grpo_loss_options own = defaults();
  LossKind kind = LOSS_grpo;
  try(options_take_grown(&own, sizeof own, FIRST_LOSS_OPTIONS, g, "grpo_loss_options"));
  if (own.loss) try(loss_kind_from_name(own.loss, &kind));
  loss_options_init(o, kind);
  try(take_rows(&own, o));
  if (!isnan(own.clip) && isnan(own.clip_high)) o->clip_high = o->clip;
  loss_options_adapt(o);
  if (own.max_new_tokens < 0)
    return fail(GRPO_EARG, "sampling.max_new_tokens: %d, want at least 1, or 0 for the default",
                own.max_new_tokens);
  o->max_new_tokens = own.max_new_tokens;
  return loss_options_check(o);
}

/* ---- the batch -------------------------------------------------------------------- */

grpo_status grpo_loss_batch_init(grpo_loss_batch *b, size_t size) {
  const grpo_loss_batch d = {.size = sizeof d};
  return options_init(b, size, &d, sizeof d);
}

static double masked(const float *mask, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += mask ? (double)mask[i] : 1;
  return sum > 1 ? sum : 1;
}

static Status take_lengths(const grpo_loss_batch *b, int *one, int *longest, PolicyLossAttr *a) {
  *one = (int)b->count;
  a->nseq = b->sequences ? (int)b->sequences : 1;
  a->lengths = b->lengths ? b->lengths : one;
  if (!b->lengths && a->nseq > 1) return need(b->lengths, "batch.lengths");
  *longest = b->lengths ? 0 : *one;
  for (int i = 0; b->lengths && i < a->nseq; i++)
    if (a->lengths[i] > *longest) *longest = a->lengths[i];
  return GRPO_OK;
}

Status batch_take(const grpo_loss_batch *b, const LossOptions *o, int *one, PolicyLossAttr *out) {
  grpo_loss_batch own = {.size = sizeof own};
  int longest = 0;
  try(need(b, "batch"));
  try(options_take(&own, sizeof own, b, "grpo_loss_batch"));
  if (own.count < 1 || own.count > INT32_MAX / 2 || own.sequences > own.count)
    return fail(GRPO_EARG,
                "batch: %zu tokens in %zu sequences; want at least one token, and one in each "
                "sequence",
                own.count, own.sequences);
  if (!(own.num_sequences >= 0 && own.num_tokens >= 0))
    return fail(GRPO_EARG, "batch: num_sequences %g and num_tokens %g must not be negative",
                own.num_sequences, own.num_tokens);
  if (o->top_entropy_quantile < 1 || o->mask_truncated || covariance_is_used(o))
    return fail(GRPO_EARG,
                "loss: only a trainer knows top_entropy_quantile, mask_truncated, clip_cov_ratio "
                "and kl_cov_ratio; set mask");
  *out = (PolicyLossAttr){.options = *o,
                          .mask = own.mask,
                          .advantage = own.advantage,
                          .old_logp = own.old_logp,
                          .ref_logp = own.ref_logp,
                          .sampler_logp = own.sampler_logp,
                          .batch_share = 1};
  try(take_lengths(&own, one, &longest, out));
  out->num_sequences = own.num_sequences > 0 ? own.num_sequences : out->nseq;
  out->batch_tokens = masked(own.mask, own.count);
  out->num_tokens = own.num_tokens > 0 ? own.num_tokens : out->batch_tokens;
  out->num_kept_tokens = out->num_tokens;
  if (!out->options.max_new_tokens) out->options.max_new_tokens = longest ? longest : *one;
  return GRPO_OK;
}

Status temperature_check(double temperature) {
  const Option *o = option_find(&sampling_option_set, "sampling.temperature");
  if (temperature == 0)
    return fail(GRPO_EARG, "%s: 0 is greedy, which has no gradient; use more than 0", o->path);
  return option_check_number(o, temperature);
}

Status targets_check(const int32_t *targets, size_t n, int vocab) {
  try(need(targets, "targets"));
  for (size_t i = 0; i < n; i++)
    if (targets[i] < 0 || targets[i] >= vocab)
      return fail(GRPO_EARG, "targets[%zu]: %d is outside the vocabulary of %d", i, (int)targets[i],
                  vocab);
  return GRPO_OK;
}

/* ---- value and gradient ---------------------------------------------------------- */

/* Makes a tensor around the host's memory; d, which may be NULL, receives the gradient. */
static Tensor borrowed(const float *data, float *d, int ndim, const int *dim) {
  Tensor t = tensor_view((real *)(uintptr_t)data, ndim, dim);
  t.grad = d;
  t.needs_grad = d != NULL;
  return t;
}

/* A gradient that nothing has added to is 0. */
static void zero_unreached(const Tensor *t) {
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
  PolicyLossAttr a;
  const Ctx *cx;
  int one;
  try(need(logp, "logp"));
  try(need(value, "value"));
  if (d_entropy) try(need(entropy, "entropy"));
  try(loss_take(o, &options));
  try(batch_take(b, &options, &one, &a));
  try(context_ctx(c, &cx));
  Tensor l = borrowed(logp, d_logp, 1, &one), e = borrowed(entropy, d_entropy, 1, &one);
  try(apply_policy(cx, &l, entropy ? &e : NULL, &a, value));
  zero_unreached(&l);
  zero_unreached(&e);
  return GRPO_OK;
}

grpo_status grpo_policy_loss(grpo_context *c, const grpo_loss_options *o, const grpo_loss_batch *b,
                             const float *logp, const float *entropy, double *value, float *d_logp,
                             float *d_entropy) {
  in_call(call_begin, c, policy_loss(c, o, b, logp, entropy, value, d_logp, d_entropy));
}

static Status from_logits(grpo_context *c, const grpo_loss_options *o, const grpo_loss_batch *b,
                          const float *logits, int32_t vocab, const int32_t *targets,
                          double temperature, double *value, float *d_logits) {
  LossOptions options;
  PolicyLossAttr a;
  const Ctx *cx;
  int one;
  Value *in = NULL, *loss = NULL;
  try(need(logits, "logits"));
  try(need(value, "value"));
  if (vocab < 1) return fail(GRPO_EARG, "loss: vocab is %d, want at least 1", vocab);
  try(temperature_check(temperature));
  try(loss_take(o, &options));
  try(batch_take(b, &options, &one, &a));
  try(targets_check(targets, (size_t)one, vocab));
  try(context_ctx(c, &cx));
  Tensor x = borrowed(logits, d_logits, 2, (int[2]){one, vocab});
  const TokenLogpAttr target = {.targets = targets, .inv_temp = (real)(1 / temperature)};
  try(value_wrap(&in, &x));
  Status s = policy_loss_from_logits_value(cx, in, &target, &a, true, &loss);
  if (s == GRPO_OK) s = take_value(cx, loss, value);
  value_release(in);
  zero_unreached(&x);
  return s;
}

grpo_status grpo_policy_loss_from_logits(grpo_context *c, const grpo_loss_options *o,
                                         const grpo_loss_batch *b, const float *logits,
                                         int32_t vocab, const int32_t *targets, double temperature,
                                         double *value, float *d_logits) {
  in_call(call_begin, c,
          from_logits(c, o, b, logits, vocab, targets, temperature, value, d_logits));
}

/* ---- advantages ------------------------------------------------------------------ */

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

static Status take_advantage_rows(const grpo_advantage_options *g, AdvantageOptions *o) {
  int enumerator;
#define BOOL(path, field, ...) o->field = g->field != 0;
#define CHOICE(path, field, Type, ...)                                                             \
  if (g->field) {                                                                                  \
    try(option_find_word(option_find(&advantage_option_set, path), g->field, &enumerator));        \
    o->field = (Type)enumerator;                                                                   \
  }
#include "rl/advantage_options.def"
  return GRPO_OK;
}

static Status convert(const grpo_advantage_options *o, int group, AdvantageOptions *a) {
  grpo_advantage_options own = advantage_defaults;
  try(options_take(&own, sizeof own, o, "grpo_advantage_options"));
  advantage_options_init(a);
  a->group = group ? group : own.group;
  a->nrewards = own.rewards;
  if (a->group < 1 || a->nrewards < 1 || a->nrewards > 1 << 16)
    return fail(GRPO_EARG, "advantages: group is %d and rewards is %d, want at least 1", a->group,
                a->nrewards);
  try(take_advantage_rows(&own, a));
  a->weights = own.weights;
  a->normalize_then_sum = own.normalize_then_sum != 0;
  a->clip_low = own.clip_low;
  a->clip_high = own.clip_high;
  if (a->clip_low > a->clip_high)
    return fail(GRPO_EARG, "advantages: clip_low is %g, above clip_high, which is %g", a->clip_low,
                a->clip_high);
  return GRPO_OK;
}

static Status check_rewards(const AdvantageOptions *a, size_t n, const double *rewards) {
  try(need(rewards, "rewards"));
  if (n < 1 || n > 1 << 24 || n % (size_t)a->group)
    return fail(GRPO_ESHAPE, "advantages: %zu completions do not make whole groups of %d", n,
                a->group);
  for (size_t i = 0; i < n * (size_t)a->nrewards; i++)
    if (isinf(rewards[i]))
      return fail(GRPO_EARG, "rewards[%zu] is infinite, want a finite number or NaN", i);
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
  in_call(call_begin, c, advantages_take(o, 0, count, rewards, total, advantage));
}
