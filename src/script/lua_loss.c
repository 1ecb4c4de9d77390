/* lua_loss.c - grpo.loss and grpo.loss_from_logits: a policy loss, by name, of tensors [N], where N
 * is the number of completion tokens.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grad/covariance.h"
#include "grad/quantile.h"
#include "script/lua_tensor.h"
#include "script/push_metrics.h"
#include "script/read_options.h"
#include "script/read_sampling.h"

/* ---- the batch ---------------------------------------------------------------------- */

/* A PolicyLossAttr with one block of memory for all that it points to. */
typedef struct LossBatch {
  lua_State *L;
  int t; /* stack index of the table */
  size_t n;
  Buf *block;
  PolicyLossAttr a;
} LossBatch;

static void *take(LossBatch *b, size_t bytes) {
  void *p = b->block->data + b->block->len;
  b->block->len += (bytes + 15) & ~(size_t)15;
  return p;
}

/* Copies field NAME, a tensor or a list of N numbers, into the block; NULL: absent. */
static real *take_reals(LossBatch *b, const char *name) {
  lua_State *L = b->L;
  if (lua_getfield(L, b->t, name) == LUA_TNIL) return lua_pop(L, 1), NULL;
  Value *v = test_tensor_value(L, -1);
  size_t n = v ? value_tensor(v)->n : lua_istable(L, -1) ? lua_rawlen(L, -1) : b->n + 1;
  if (n != b->n)
    raise_new(L, GRPO_ESHAPE,
              "t.%s: want a tensor or a list of %d numbers, one per token, got %s%d", name,
              (int)b->n, v || lua_istable(L, -1) ? "" : "no list, not ", (int)n);
  real *to = take(b, n * sizeof *to);
  if (v) memcpy(to, value_tensor(v)->data, n * sizeof *to);
  for (size_t i = 0; !v && i < n; i++) {
    if (lua_rawgeti(L, -1, (lua_Integer)i + 1) != LUA_TNUMBER)
      raise_new(L, GRPO_EARG, "t.%s[%d]: want a number, got a %s", name, (int)i + 1,
                luaL_typename(L, -1));
    to[i] = (real)lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return to;
}

static double number_or(LossBatch *b, const char *name, double otherwise) {
  double v = otherwise;
  field_number(b->L, b->t, "t", name, 0, 1e18, &v);
  return v;
}

/* ---- sequences ---- */

static int length_at(LossBatch *b, int list, lua_Unsigned i) {
  lua_State *L = b->L;
  lua_rawgeti(L, list, (lua_Integer)i + 1);
  const double d = lua_type(L, -1) == LUA_TNUMBER ? (double)lua_tonumber(L, -1) : -1;
  if (!(d >= 0 && d <= (double)b->n && d == floor(d)))
    raise_new(L, GRPO_EARG, "t.lengths[%d]: want a whole number up to %d, got %s", (int)i + 1,
              (int)b->n, luaL_tolstring(L, -1, NULL));
  lua_pop(L, 1);
  return (int)d;
}

static void read_lengths(LossBatch *b, int list, int *lengths) {
  double sum = 0;
  for (int i = 0; i < b->a.nseq; i++) sum += lengths[i] = length_at(b, list, (lua_Unsigned)i);
  if (sum != (double)b->n)
    raise_new(b->L, GRPO_ESHAPE, "t.lengths: the lengths add up to %.0f, but t.logp has %d tokens",
              sum, (int)b->n);
}

/* Reads the sequence of token i, which is not below that of the token before. */
static lua_Integer sequence_at(LossBatch *b, int list, size_t i, lua_Integer before) {
  lua_State *L = b->L;
  int whole;
  lua_rawgeti(L, list, (lua_Integer)i + 1);
  const lua_Integer at = lua_tointegerx(L, -1, &whole);
  if (!whole || at < before || at < 1 || (size_t)at > b->n)
    raise_new(L, GRPO_EARG,
              "t.sequence[%d]: want the number of the token's sequence, from 1 to %d and not below "
              "the one before, got %s",
              (int)i + 1, (int)b->n, luaL_tolstring(L, -1, NULL));
  lua_pop(L, 1);
  return at;
}

/* Computes lengths from t.sequence; a sequence may have no tokens. */
static void count_sequences(LossBatch *b, int list, int *lengths) {
  lua_Integer at = 1;
  for (size_t i = 0; i < b->n; i++) {
    at = sequence_at(b, list, i, at);
    if (at > b->a.nseq)
      raise_new(b->L, GRPO_EARG, "t.sequence[%d]: %d is above the last one, %d", (int)i + 1,
                (int)at, b->a.nseq);
    lengths[at - 1]++;
  }
}

static void want_agreement(LossBatch *b, int list, const int *lengths) {
  size_t i = 0;
  for (int own = 1; own <= b->a.nseq; own++)
    for (const size_t end = i + (size_t)lengths[own - 1]; i < end; i++)
      if (sequence_at(b, list, i, 1) != own)
        raise_new(b->L, GRPO_EARG, "t.sequence[%d]: t.lengths puts this token into sequence %d",
                  (int)i + 1, own);
}

/* Reads t.lengths and t.sequence at these stack indices.  Either may be nil, and they must agree;
 * without both all tokens are one sequence. */
static void take_lengths(LossBatch *b, int list, int sequence) {
  const bool given = !lua_isnil(b->L, list), told = !lua_isnil(b->L, sequence);
  if (told && (!lua_istable(b->L, sequence) || lua_rawlen(b->L, sequence) != b->n))
    raise_new(b->L, GRPO_ESHAPE, "t.sequence: want a list of %d whole numbers, one per token",
              (int)b->n);
  b->a.nseq = given ? (int)lua_rawlen(b->L, list) : 1;
  if (!given && told && b->n) b->a.nseq = (int)sequence_at(b, sequence, b->n - 1, 1);
  int *lengths = take(b, (size_t)b->a.nseq * sizeof *lengths);
  b->a.lengths = lengths;
  if (given) read_lengths(b, list, lengths);
  if (given && told) want_agreement(b, sequence, lengths);
  if (!given && told) count_sequences(b, sequence, lengths);
  if (!given && !told) lengths[0] = (int)b->n;
}

/* Limits the policy term to the given share of masked tokens, those with the highest entropy. */
static void keep_top_entropy(LossBatch *b, double share, const real *entropy, const real *mask) {
  lua_State *L = b->L;
  if (share >= 1) return;
  if (!entropy) raise_new(L, GRPO_EARG, "loss.top_entropy_quantile: needs t.entropy");
  uint32_t *scratch = push_scratch(L, b->n, sizeof *scratch);
  real *kept = take(b, b->n * sizeof *kept);
  top_entropy_mask(b->n, mask, entropy, share, scratch, kept);
  b->a.kept = kept;
  lua_pop(L, 1);
}

/* Chooses the tokens of Clip-Cov and KL-Cov, all of whose inputs the batch has. */
static void choose_by_covariance(LossBatch *b, const real *logp) {
  lua_State *L = b->L;
  if (!covariance_is_used(&b->a.options)) return;
  if (!b->a.advantage) raise_new(L, GRPO_EARG, "loss.clip_cov, loss.kl_cov: need t.advantage");
  real *x = push_scratch(L, b->n, sizeof *x);
  uint32_t *at = push_scratch(L, b->n, sizeof *at);
  uint8_t *chosen = take(b, b->n);
  const CovarianceInput in = {.n = b->n,
                              .mask = b->a.mask,
                              .logp = b->a.old_logp ? b->a.old_logp : logp,
                              .advantage = b->a.advantage,
                              .key = {.stream = RNG_COVARIANCE}};
  covariance_choose(&b->a.options, &in, x, at, chosen);
  b->a.chosen = chosen;
  lua_pop(L, 2);
}

/* For mask_truncated: leaves out the completions for which the list t.truncated holds true. */
static void drop_truncated(LossBatch *b, real **mask) {
  lua_State *L = b->L;
  if (lua_getfield(L, b->t, "truncated") != LUA_TTABLE)
    raise_new(L, GRPO_EARG,
              "loss.mask_truncated: needs t.truncated, a list of booleans, one per completion");
  if (!*mask) {
    *mask = take(b, b->n * sizeof **mask);
    for (size_t i = 0; i < b->n; i++) (*mask)[i] = 1;
  }
  real *m = *mask;
  for (int i = 0; i < b->a.nseq; m += b->a.lengths[i++]) {
    lua_rawgeti(L, -1, i + 1);
    if (lua_toboolean(L, -1)) memset(m, 0, (size_t)b->a.lengths[i] * sizeof *m);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static double count_tokens(const LossBatch *b, const real *mask, const real *kept) {
  double n = 0;
  for (size_t i = 0; i < b->n; i++)
    n += (mask ? (double)mask[i] : 1) * (kept ? (double)kept[i] : 1);
  return n > 1 ? n : 1;
}

/* logp: where the batch may choose tokens by it; NULL: nothing is chosen */
static void take_batch(LossBatch *b, Value *logp, Value *entropy) {
  enum { ARRAYS = 9 };
  lua_State *L = b->L;
  size_t nseq = b->n; /* the most that t.sequence can number */
  lua_getfield(L, b->t, "lengths");
  lua_getfield(L, b->t, "sequence");
  const int sequence = lua_gettop(L), list = sequence - 1;
  if (!lua_isnil(L, list) && !lua_istable(L, list))
    raise_new(L, GRPO_EARG, "t.lengths: want a list of whole numbers");
  if (lua_istable(L, list)) nseq = (size_t)lua_rawlen(L, list);
  if (nseq > INT32_MAX) raise_new(L, GRPO_EARG, "t.lengths: too many");
  if (entropy && value_tensor(entropy)->n != b->n)
    raise_new(L, GRPO_ESHAPE, "t.entropy: want a tensor of %d numbers, one per token, got %d",
              (int)b->n, (int)value_tensor(entropy)->n);
  b->block = push_buf(L);
  buf_free(b->block); /* push_buf may have given it memory of an earlier use */
  b->block->cap = ARRAYS * (b->n * sizeof(real) + 16) + (nseq + 1) * sizeof(int) + 16;
  b->block->data = mem_zalloc(b->block->cap);
  if (!b->block->data) raise_new(L, GRPO_ENOMEM, "loss: no memory for %d tokens", (int)b->n);
  take_lengths(b, list, sequence);
  real *mask = take_reals(b, "mask");
  if (b->a.options.mask_truncated) drop_truncated(b, &mask);
  b->a.mask = mask;
  b->a.advantage = take_reals(b, "advantage");
  b->a.old_logp = take_reals(b, "old_logp");
  b->a.ref_logp = take_reals(b, "ref_logp");
  b->a.sampler_logp = take_reals(b, "sampler_logp");
  b->a.kept = take_reals(b, "kept");
  keep_top_entropy(b, b->a.options.top_entropy_quantile,
                   entropy ? value_tensor(entropy)->data : NULL, mask);
  if (logp) choose_by_covariance(b, value_tensor(logp)->data);
  b->a.num_sequences = number_or(b, "num_sequences", b->a.nseq);
  b->a.batch_tokens = count_tokens(b, mask, NULL);
  b->a.num_tokens = number_or(b, "normalizer", number_or(b, "num_tokens", b->a.batch_tokens));
  b->a.num_kept_tokens = b->a.kept ? count_tokens(b, mask, b->a.kept) : b->a.num_tokens;
  b->a.batch_share = 1;
  if (!b->a.options.max_new_tokens)
    b->a.options.max_new_tokens = (int)fmin(number_or(b, "max_new_tokens", 0), INT32_MAX);
}

/* Pushes the tensor t.NAME, [N]; NULL: absent. */
static Value *tensor_field(lua_State *L, int t, const char *name) {
  lua_getfield(L, t, name);
  if (lua_isnil(L, -1)) return NULL;
  Value *v = test_tensor_value(L, -1);
  if (!v) raise_new(L, GRPO_EARG, "t.%s: want a tensor, got %s", name, luaL_typename(L, -1));
  return v;
}

/* ---- metrics ------------------------------------------------------------------------ */

/* Pushes the metrics of a step that depend on the loss alone, and the range of the ratio. */
static void push_loss_metrics(lua_State *L, const PolicyLossAttr *a, const LossMetrics *m) {
  StepMetrics step;
  step_metrics_init(&step);
  loss_metrics_report(m, a->options.kl != 0 || a->ref_logp, &step);
  push_metrics(L, &step);
  set_number(L, "ratio/min", m->ratio_min);
  set_number(L, "ratio/max", m->ratio_max);
  set_number(L, "num_tokens", m->tokens);
}

/* Pushes the result of an operation over the batch, which takes over the block, and the metrics. */
static int finish_loss(lua_State *L, LossBatch *b, TensorHandle *h, Status s, Value *out,
                       const LossMetrics *metrics) {
  if (s == GRPO_OK && value_tensor(out)->needs_grad) {
    s = value_keep(out, b->block->data);
    if (s)
      value_release(out);
    else
      *b->block = (Buf){0};
  }
  if (s == GRPO_OK) b->a.metrics = NULL;
  finish_tensor(L, h, s, out);
  push_loss_metrics(L, &b->a, metrics);
  return 2;
}

/* ---- grpo.loss(name, t, opts) -> loss, metrics -------------------------------------- */

static int l_policy_loss(lua_State *L) {
  static const OptionSet *const sets[] = {&loss_option_set, NULL};
  static const char *const others[] = {"max_new_tokens", NULL};
  const char *name = check_string(L, 1, NULL);
  LossMetrics metrics;
  check_table(L, 2);
  lua_settop(L, 3);
  LossBatch b = {.L = L, .t = 2};
  loss_options_init(&b.a.options, check_loss_option(L, "loss", name));
  check_option_fields(L, 3, "loss", sets, others);
  read_loss_options(L, 3, "loss", 0, &b.a.options);
  Value *in[3] = {tensor_field(L, 2, "logp"), tensor_field(L, 2, "entropy"),
                  tensor_field(L, 2, "full_kl")};
  if (!in[0]) return raise_new(L, GRPO_EARG, "t.logp is missing; want a tensor [N]");
  b.n = value_tensor(in[0])->n;
  check_tensor_room(L, 12 * (double)b.n, "loss");
  take_batch(&b, in[0], in[1]);
  loss_metrics_init(&metrics);
  b.a.metrics = &metrics; /* filled by the forward pass, not used by backward */
  Attr attr = {.p = &b.a};
  Value *out = NULL;
  const Ctx *cx = script_ctx(L);
  TensorHandle *h = push_tensor_handle(L);
  Status s = value_apply(cx, OP_policy_loss, in, &attr, sizeof b.a, tensor_recording(L), &out);
  return finish_loss(L, &b, h, s, out, &metrics);
}

/* ---- grpo.loss_from_logits(logits, targets, advantages, opts) -> loss, metrics ------ */

/* opts also hold the fields of t (old_logp, mask, lengths, ...), from which make_table makes a
 * t. */
#define BATCH_FIELDS                                                                               \
  "mask", "old_logp", "ref_logp", "sampler_logp", "lengths", "sequence", "num_sequences",          \
      "num_tokens", "normalizer", "truncated"

static void make_table(lua_State *L) {
  static const char *const fields[] = {BATCH_FIELDS};
  lua_newtable(L);
  lua_pushvalue(L, 3);
  lua_setfield(L, -2, "advantage");
  for (size_t i = 0; lua_istable(L, 4) && i < sizeof fields / sizeof *fields; i++) {
    lua_getfield(L, 4, fields[i]);
    lua_setfield(L, -2, fields[i]);
  }
}

static int l_loss_from_logits(lua_State *L) {
  static const char where[] = "loss_from_logits";
  static const OptionSet *const sets[] = {&loss_option_set, NULL};
  static const char *const others[] = {BATCH_FIELDS, "max_new_tokens", "loss", "temperature", NULL};
  const char *name = NULL;
  double temperature = 1;
  LossMetrics metrics;
  Value *logits = check_tensor_value(L, 1), *out = NULL;
  lua_settop(L, 4);
  check_option_fields(L, 4, where, sets, others);
  LossBatch b = {.L = L, .t = 5};
  make_table(L);
  /* The default is a sum over all tokens, divided by one normaliser. */
  loss_options_init(&b.a.options, LOSS_dapo);
  b.a.options.clip_high = b.a.options.clip;
  if (field_string(L, 4, where, "loss", &name))
    loss_options_init(&b.a.options, check_loss_option(L, "loss", name));
  read_sampling_temperature(L, 4, where, &temperature);
  read_loss_options(L, 4, "loss", 0, &b.a.options);
  if (b.a.options.top_entropy_quantile < 1)
    return raise_new(L, GRPO_EARG,
                     "loss_from_logits.top_entropy_quantile: only grpo.loss has this option");
  if (covariance_is_used(&b.a.options))
    return raise_new(L, GRPO_EARG,
                     "loss_from_logits.clip_cov, kl_cov: only grpo.loss has these options");
  const Tensor *x = value_tensor(logits);
  if (x->ndim != 2)
    return raise_new(L, GRPO_ESHAPE, "loss_from_logits: logits have shape %s, want [N, vocab]",
                     push_tensor_shape(L, x));
  IntBuf *targets = push_ints(L);
  check_tensor_whole(L, 2, "targets", 0, x->dim[1] - 1, targets);
  if (targets->len != (size_t)x->dim[0])
    return raise_new(L, GRPO_ESHAPE, "loss_from_logits: %d targets for %d rows of logits",
                     (int)targets->len, x->dim[0]);
  b.n = targets->len;
  check_tensor_room(L, 12 * (double)b.n, "loss");
  take_batch(&b, NULL, NULL);
  loss_metrics_init(&metrics);
  b.a.metrics = &metrics;
  TokenLogpAttr target = {.targets = targets->data, .inv_temp = (real)(1 / temperature)};
  const Ctx *cx = script_ctx(L);
  TensorHandle *h = push_tensor_handle(L);
  Status s = policy_loss_from_logits_value(cx, logits, &target, &b.a, tensor_recording(L), &out);
  if (s == GRPO_OK && value_tensor(out)->needs_grad) {
    s = value_keep(out, targets->data);
    if (s)
      value_release(out);
    else
      *targets = (IntBuf){0};
  }
  return finish_loss(L, &b, h, s, out, &metrics);
}

CORE_FUNCTIONS(loss, FN(policy_loss), FN(loss_from_logits))
