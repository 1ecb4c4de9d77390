/* tensor.c - tensors with gradients, and the operations that a small transformer is made of. */
#include <math.h>
#include <string.h>

#include "api/loss.h"
#include "base/mem.h"
#include "grad/op_table.h"
#include "grad/value_optimizer.h"
#include "kern/random_normal.h"

struct grpo_tensor {
  HANDLE_FIELDS;
  Value *v;
};

/* ---- handles ---------------------------------------------------------------------- */

/* Makes a handle, which takes over v. */
static Status wrap(grpo_context *c, Value *v, grpo_tensor **out) {
  grpo_tensor *t = mem_alloc(sizeof *t);
  if (!t) {
    value_release(v);
    return fail(GRPO_ENOMEM, "tensor");
  }
  *t = (grpo_tensor){.c = context_retain(c), .v = v};
  *out = t;
  return GRPO_OK;
}

static Status check_shape(int32_t ndim, const int32_t *shape) {
  double n = 1;
  if (ndim < 0 || ndim > TENSOR_DIMS)
    return fail(GRPO_ESHAPE, "tensor: %d dimensions, want 0 to %d", ndim, TENSOR_DIMS);
  if (ndim) try(need(shape, "shape"));
  for (int i = 0; i < ndim; i++) {
    if (shape[i] < 0)
      return fail(GRPO_ESHAPE, "tensor: shape[%d] is %d, want 0 or more", i, shape[i]);
    n *= shape[i];
  }
  if (n > 1e12) return fail(GRPO_ENOMEM, "tensor: %g elements are too many", n);
  return GRPO_OK;
}

static Status make(grpo_context *c, int32_t ndim, const int32_t *shape, const float *values,
                   bool requires_grad, grpo_tensor **out) {
  Value *v = NULL;
  try(need(out, "out"));
  try(check_shape(ndim, shape));
  try(value_new(&v, ndim, shape));
  Tensor *t = value_tensor(v);
  if (values && t->n) memcpy(t->data, values, t->n * sizeof *values);
  t->needs_grad = requires_grad;
  return wrap(c, v, out);
}

grpo_status grpo_tensor_new(grpo_context *c, int32_t dimensions, const int32_t *shape,
                            const float *values, int32_t requires_grad, grpo_tensor **out) {
  in_call(call_begin, c, make(c, dimensions, shape, values, requires_grad != 0, out));
}

static Status randn(grpo_context *c, int32_t ndim, const int32_t *shape, double deviation,
                    uint64_t seed, bool requires_grad, grpo_tensor **out) {
  const RngKey key = {.seed = seed, .stream = RNG_USER};
  if (!isfinite(deviation)) return fail(GRPO_EARG, "randn: the deviation is not finite");
  try(make(c, ndim, shape, NULL, requires_grad, out));
  Tensor *t = value_tensor((*out)->v);
  random_normal(&(Ctx){0}, &key, t->n, deviation, t->data);
  return GRPO_OK;
}

grpo_status grpo_tensor_randn(grpo_context *c, int32_t dimensions, const int32_t *shape,
                              double deviation, uint64_t seed, int32_t requires_grad,
                              grpo_tensor **out) {
  in_call(call_begin, c, randn(c, dimensions, shape, deviation, seed, requires_grad != 0, out));
}

void grpo_tensor_free(grpo_tensor *t) {
  if (!t || free_refused(t->c, __func__)) return;
  grpo_context *c = t->c;
  value_release(t->v);
  mem_free(t);
  context_release(c);
}

/* ---- looking at them ------------------------------------------------------------- */

static Status shape_of(const grpo_tensor *h, int32_t *ndim, int32_t *shape) {
  const Tensor *t = value_tensor(h->v);
  try(need(ndim, "dimensions"));
  *ndim = t->ndim;
  for (int i = 0; shape && i < t->ndim; i++) shape[i] = t->dim[i];
  return GRPO_OK;
}

grpo_status grpo_tensor_shape(grpo_tensor *t, int32_t *dimensions, int32_t shape[4]) {
  in_call(call_begin, t ? t->c : NULL, shape_of(t, dimensions, shape));
}

static Status data_of(const grpo_tensor *h, float **data, size_t *count) {
  const Tensor *t = value_tensor(h->v);
  try(need(data, "data"));
  *data = t->data;
  if (count) *count = t->n;
  return GRPO_OK;
}

grpo_status grpo_tensor_data(grpo_tensor *t, float **data, size_t *count) {
  in_call(call_begin, t ? t->c : NULL, data_of(t, data, count));
}

static Status grad_of(const grpo_tensor *h, const float **grad, size_t *count) {
  const Tensor *t = value_tensor(h->v);
  try(need(grad, "grad"));
  *grad = t->grad_live ? t->grad : NULL;
  if (count) *count = t->n;
  return GRPO_OK;
}

grpo_status grpo_tensor_grad(grpo_tensor *t, const float **grad, size_t *count) {
  in_call(call_begin, t ? t->c : NULL, grad_of(t, grad, count));
}

static Status set_recording(grpo_context *c, bool on) {
  c->off = !on;
  return GRPO_OK;
}

grpo_status grpo_set_recording(grpo_context *c, int32_t on) {
  in_call(call_begin, c, set_recording(c, on != 0));
}

/* ---- applying an operation ------------------------------------------------------- */

/* An optional input may be NULL.  attr may point into `keep`, memory that is freed with the result,
 * or at once if backward does not need it. */
static Status apply(grpo_context *c, OpId op, int n, grpo_tensor *const *in, const Attr *attr,
                    size_t attr_bytes, void *keep, grpo_tensor **out) {
  Value *v[OP_MAX_IN] = {NULL}, *y = NULL;
  const Ctx *cx = NULL;
  Status s = context_ctx(c, &cx);
  for (int i = 0; i < n && s == GRPO_OK; i++) {
    if (in[i] && in[i]->c != c)
      s = fail(GRPO_EARG, "%s: input %d belongs to another context", op_table[op]->name, i + 1);
    v[i] = in[i] ? in[i]->v : NULL;
  }
  if (s == GRPO_OK) s = value_apply(cx, op, v, attr, attr_bytes, !c->off, &y);
  if (s == GRPO_OK && keep && value_tensor(y)->needs_grad) {
    s = value_keep(y, keep);
    if (s == GRPO_OK)
      keep = NULL;
    else
      value_release(y);
  }
  mem_free(keep);
  return s == GRPO_OK ? wrap(c, y, out) : s;
}

static Status find_op(const char *name, OpId *out) {
  try(need(name, "operation"));
  for (int i = 0; i < OP_COUNT; i++) {
    if (strcmp(op_table[i]->name, name) != 0) continue;
    if (*op_table[i]->attributes != '-') return *out = (OpId)i, GRPO_OK;
    break;
  }
  return fail(GRPO_EARG, "operation: '%.40s' is not one of those that grpo.h lists", name);
}

static Status whole(const OpDef *def, double v, int *out) {
  if (!(v >= -1e9 && v <= 1e9) || v != floor(v))
    return fail(GRPO_EARG, "%s: got the argument %g, want a whole number", def->name, v);
  *out = (int)v;
  return GRPO_OK;
}

/* Reads arguments into an Attr, as grad/attrs.h says. */
static Status take_args(const OpDef *def, size_t n, const double *args, Attr *a) {
  const char *kinds = def->attributes;
  const size_t wanted = strlen(kinds);
  if (n) try(need(args, "args"));
  *a = (Attr){{0}, {0}, NULL};
  if (*kinds == 'd') {
    if (n > TENSOR_DIMS)
      return fail(GRPO_ESHAPE, "%s: got %zu dimensions, want at most %d", def->name, n,
                  TENSOR_DIMS);
    a->i[0] = (int)n;
    for (size_t i = 0; i < n; i++) try(whole(def, args[i], &a->i[i + 1]));
    return GRPO_OK;
  }
  if (*kinds == 'A' && n == 0) return a->i[0] = -1, GRPO_OK;
  if (n != wanted) return fail(GRPO_EARG, "%s: got %zu arguments, want %zu", def->name, n, wanted);
  for (size_t i = 0, ints = 0, floats = 0; i < n; i++) {
    if (kinds[i] == 'f')
      a->f[floats++] = args[i];
    else
      try(whole(def, args[i], &a->i[ints++]));
  }
  if (*kinds == 'A' && a->i[0] < 0)
    return fail(GRPO_ESHAPE, "%s: axis is %d, want 0 or more", def->name, a->i[0]);
  return GRPO_OK;
}

static Status apply_named(grpo_context *c, const char *name, size_t inputs, grpo_tensor *const *in,
                          size_t count, const double *args, grpo_tensor **out) {
  OpId op;
  Attr attr;
  try(find_op(name, &op));
  const OpDef *def = op_table[op];
  try(need(in, "in"));
  try(need(out, "out"));
  if (inputs != (size_t)def->nin)
    return fail(GRPO_EARG, "%s: got %zu inputs, want %d", name, inputs, def->nin);
  for (size_t i = 0; i < inputs; i++) try(need(in[i], "in[]"));
  try(take_args(def, count, args, &attr));
  return apply(c, op, def->nin, in, &attr, 0, NULL, out);
}

grpo_status grpo_tensor_apply(grpo_context *c, const char *operation, size_t inputs,
                              grpo_tensor *const *in, size_t count, const double *args,
                              grpo_tensor **out) {
  in_call(call_begin, c, apply_named(c, operation, inputs, in, count, args, out));
}

/* ---- layers ---------------------------------------------------------------------- */

static Status linear(grpo_tensor *x, grpo_tensor *w, grpo_tensor *bias, grpo_tensor **out) {
  grpo_tensor *const in[] = {x, w, bias};
  const Attr attr = {.p = NULL};
  try(need(w, "w"));
  try(need(out, "out"));
  return apply(x->c, OP_linear, 3, in, &attr, 0, NULL, out);
}

grpo_status grpo_tensor_linear(grpo_tensor *x, grpo_tensor *w, grpo_tensor *bias,
                               grpo_tensor **out) {
  in_call(call_begin, x ? x->c : NULL, linear(x, w, bias, out));
}

static Status embedding(grpo_tensor *table, const int32_t *ids, size_t n,
                        grpo_tensor *position_table, const int32_t *positions, grpo_tensor **out) {
  grpo_tensor *const in[] = {table, position_table};
  try(need(ids, "ids"));
  try(need(out, "out"));
  if (position_table) try(need(positions, "positions"));
  if (n < 1 || n > INT32_MAX / 2)
    return fail(GRPO_EARG, "embedding: got %zu ids, want 1 to %d", n, INT32_MAX / 2);
  int32_t *copy = mem_alloc(2 * n * sizeof *copy);
  if (!copy) return fail(GRPO_ENOMEM, "embedding of %zu ids", n);
  memcpy(copy, ids, n * sizeof *copy);
  if (position_table) memcpy(copy + n, positions, n * sizeof *copy);
  const EmbeddingAttr e = {.tokens = (int)n, .ids = copy, .pos = copy + n};
  const Attr attr = {.p = &e};
  return apply(table->c, OP_embedding, 2, in, &attr, sizeof e, copy, out);
}

grpo_status grpo_tensor_embedding(grpo_tensor *table, const int32_t *ids, size_t count,
                                  grpo_tensor *position_table, const int32_t *positions,
                                  grpo_tensor **out) {
  in_call(call_begin, table ? table->c : NULL,
          embedding(table, ids, count, position_table, positions, out));
}

static Status layernorm(grpo_tensor *x, grpo_tensor *w, grpo_tensor *b, double eps,
                        grpo_tensor **out) {
  grpo_tensor *const in[] = {x, w, b};
  const Attr attr = {.f = {eps}};
  try(need(w, "w"));
  try(need(b, "b"));
  try(need(out, "out"));
  if (!(eps >= 0)) return fail(GRPO_EARG, "layernorm: eps is %g, want 0 or more", eps);
  return apply(x->c, OP_layernorm, 3, in, &attr, 0, NULL, out);
}

grpo_status grpo_tensor_layernorm(grpo_tensor *x, grpo_tensor *w, grpo_tensor *b, double eps,
                                  grpo_tensor **out) {
  in_call(call_begin, x ? x->c : NULL, layernorm(x, w, b, eps, out));
}

/* Makes a span of rows for each sequence; the caller frees *out with mem_free. */
static Status make_spans(const int32_t *lengths, size_t n, PackSpan **out) {
  int64_t row = 0;
  PackSpan *spans = *out = mem_alloc(n * sizeof *spans);
  if (!spans) return fail(GRPO_ENOMEM, "attention over %zu sequences", n);
  for (size_t i = 0; i < n; row += lengths[i++]) {
    if (lengths[i] < 0 || row + lengths[i] > INT32_MAX / 2)
      return fail(GRPO_ESHAPE, "attention: lengths[%zu] is %d, which is out of range", i,
                  lengths[i]);
    spans[i] = (PackSpan){.row = (int)row, .n = lengths[i], .prefix = -1};
  }
  return GRPO_OK;
}

static Status attention(grpo_tensor *q, grpo_tensor *k, grpo_tensor *v, int32_t heads,
                        int32_t kv_heads, const int32_t *lengths, size_t sequences,
                        grpo_tensor **out) {
  grpo_tensor *const in[] = {q, k, v};
  PackSpan *spans = NULL;
  try(need(k, "k"));
  try(need(v, "v"));
  try(need(lengths, "lengths"));
  try(need(out, "out"));
  const Tensor *t = value_tensor(q->v);
  if (heads < 1 || t->ndim != 2 || t->dim[1] % heads || sequences < 1 || sequences > 1 << 24)
    return fail(
        GRPO_ESHAPE,
        "attention: q must be [rows, channels], whose channels are cut into %d heads, in at "
        "least one sequence",
        heads);
  const Status s = make_spans(lengths, sequences, &spans);
  if (s != GRPO_OK) {
    mem_free(spans);
    return s;
  }
  const int head_dim = t->dim[1] / heads;
  const AttentionAttr a = {.shape = {.heads = heads,
                                     .kv_heads = kv_heads,
                                     .head_dim = head_dim,
                                     .scale = (real)(1 / sqrt((double)head_dim))},
                           .npack = (int)sequences,
                           .pack = spans};
  const Attr attr = {.p = &a};
  return apply(q->c, OP_attention, 3, in, &attr, sizeof a, spans, out);
}

grpo_status grpo_tensor_attention(grpo_tensor *q, grpo_tensor *k, grpo_tensor *v, int32_t heads,
                                  int32_t kv_heads, const int32_t *lengths, size_t sequences,
                                  grpo_tensor **out) {
  in_call(call_begin, q ? q->c : NULL,
          attention(q, k, v, heads, kv_heads, lengths, sequences, out));
}

/* ---- losses ---------------------------------------------------------------------- */

/* One block of memory with copies of the arrays of a loss, which the graph can keep. */
typedef struct Block {
  char *memory, *at;
} Block;

static Status block_new(Block *b, size_t tokens, int sequences) {
  enum { ARRAYS = 6 };
  const size_t bytes = (ARRAYS * tokens + (size_t)sequences) * sizeof(float);
  b->memory = b->at = mem_alloc(bytes);
  return b->memory ? GRPO_OK : fail(GRPO_ENOMEM, "loss of %zu tokens", tokens);
}

static const void *keep_array(Block *b, const void *from, size_t n) {
  void *to = b->at;
  if (!from) return NULL;
  memcpy(to, from, n * sizeof(float)); /* int32_t and float are of one size */
  b->at += n * sizeof(float);
  return to;
}

static void keep_batch(Block *b, size_t n, PolicyLossAttr *a, TokenLogpAttr *target) {
  a->lengths = keep_array(b, a->lengths, (size_t)a->nseq);
  a->mask = keep_array(b, a->mask, n);
  a->advantage = keep_array(b, a->advantage, n);
  a->old_logp = keep_array(b, a->old_logp, n);
  a->ref_logp = keep_array(b, a->ref_logp, n);
  a->sampler_logp = keep_array(b, a->sampler_logp, n);
  target->targets = keep_array(b, target->targets, n);
}

static Status loss_of(grpo_tensor *logits, PolicyLossAttr *a, TokenLogpAttr *target, int tokens,
                      grpo_tensor **out) {
  const Tensor *t = value_tensor(logits->v);
  const Ctx *cx;
  Block b;
  Value *y = NULL;
  if (t->ndim != 2 || t->dim[0] != tokens)
    return fail(GRPO_ESHAPE, "loss: %d targets for logits of %d rows", tokens,
                t->ndim ? t->dim[0] : 0);
  try(targets_check(target->targets, (size_t)tokens, t->dim[1]));
  try(context_ctx(logits->c, &cx));
  try(block_new(&b, (size_t)tokens, a->nseq));
  keep_batch(&b, (size_t)tokens, a, target);
  Status s = policy_loss_from_logits_value(cx, logits->v, target, a, !logits->c->off, &y);
  if (s == GRPO_OK && value_tensor(y)->needs_grad) {
    s = value_keep(y, b.memory);
    if (s == GRPO_OK)
      b.memory = NULL;
    else
      value_release(y);
  }
  mem_free(b.memory);
  return s == GRPO_OK ? wrap(logits->c, y, out) : s;
}

static Status policy_loss(grpo_tensor *logits, const int32_t *targets, const grpo_loss_options *o,
                          const grpo_loss_batch *b, double temperature, grpo_tensor **out) {
  LossOptions options;
  PolicyLossAttr a;
  int one;
  try(need(targets, "targets"));
  try(need(out, "out"));
  try(temperature_check(temperature));
  try(loss_take(o, &options));
  try(batch_take(b, &options, &one, &a));
  TokenLogpAttr target = {.targets = targets, .inv_temp = (real)(1 / temperature)};
  return loss_of(logits, &a, &target, one, out);
}

grpo_status grpo_tensor_policy_loss(grpo_tensor *logits, const int32_t *targets,
                                    const grpo_loss_options *o, const grpo_loss_batch *b,
                                    double temperature, grpo_tensor **out) {
  in_call(call_begin, logits ? logits->c : NULL,
          policy_loss(logits, targets, o, b, temperature, out));
}

/* Cross entropy is the loss nll with mask 0 for the rows that are left out. */
static Status masked_loss(grpo_tensor *logits, const int32_t *targets, int n, double normalizer,
                          int32_t *ids, real *mask, grpo_tensor **out) {
  double count = 0;
  for (int i = 0; i < n; i++) {
    mask[i] = targets[i] >= 0;
    ids[i] = targets[i] >= 0 ? targets[i] : 0;
    count += (double)mask[i];
  }
  PolicyLossAttr a = {.nseq = 1,
                      .lengths = &n,
                      .mask = mask,
                      .num_sequences = 1,
                      .num_tokens = normalizer > 0 ? normalizer
                                    : count > 0    ? count
                                                   : 1,
                      .batch_tokens = count,
                      .batch_share = 1};
  a.num_kept_tokens = a.num_tokens;
  loss_options_init(&a.options, LOSS_nll);
  TokenLogpAttr target = {.targets = ids, .inv_temp = 1};
  return loss_of(logits, &a, &target, n, out);
}

static Status cross_entropy(grpo_tensor *logits, const int32_t *targets, double normalizer,
                            grpo_tensor **out) {
  const Tensor *t = value_tensor(logits->v);
  try(need(targets, "targets"));
  try(need(out, "out"));
  if (t->ndim != 2 || t->dim[0] < 1)
    return fail(GRPO_ESHAPE, "cross_entropy: logits must be [rows, vocab]");
  if (!(normalizer >= 0))
    return fail(GRPO_EARG, "cross_entropy: normalizer is %g, want 0 or more", normalizer);
  const size_t n = (size_t)t->dim[0];
  int32_t *ids = mem_alloc(2 * n * sizeof *ids);
  if (!ids) return fail(GRPO_ENOMEM, "cross_entropy of %zu rows", n);
  const Status s =
      masked_loss(logits, targets, (int)n, normalizer, ids, (real *)(void *)(ids + n), out);
  mem_free(ids);
  return s;
}

grpo_status grpo_tensor_cross_entropy(grpo_tensor *logits, const int32_t *targets,
                                      double normalizer, grpo_tensor **out) {
  in_call(call_begin, logits ? logits->c : NULL, cross_entropy(logits, targets, normalizer, out));
}

static Status backward(grpo_tensor *loss) {
  const Ctx *cx;
  try(context_ctx(loss->c, &cx));
  return value_backward(cx, loss->v);
}

grpo_status grpo_tensor_backward(grpo_tensor *loss) {
  in_call(call_begin, loss ? loss->c : NULL, backward(loss));
}

/* ---- AdamW ----------------------------------------------------------------------- */

struct grpo_adamw {
  HANDLE_FIELDS;
  ValueOptimizer *a;
};

static grpo_adamw_options adamw_defaults(void) {
  AdamWOptions o;
  adamw_options_init(&o);
  return (grpo_adamw_options){sizeof(grpo_adamw_options), o.beta1, o.beta2, o.eps, o.weight_decay};
}

grpo_status grpo_adamw_options_init(grpo_adamw_options *o, size_t size) {
  const grpo_adamw_options d = adamw_defaults();
  return options_init(o, size, &d, sizeof d);
}

static Status take_adamw(const grpo_adamw_options *o, AdamWOptions *out) {
  grpo_adamw_options own = adamw_defaults();
  try(options_take(&own, sizeof own, o, "grpo_adamw_options"));
#define NUMBER(path, field, ...) out->field = own.field;
#include "grad/adamw.def"
  return options_check(&adamw_option_set, out);
}

/* values [n] is scratch memory. */
static Status adamw_over(grpo_context *c, size_t n, grpo_tensor *const *tensors,
                         const AdamWOptions *o, Value **values, grpo_adamw *a) {
  for (size_t i = 0; i < n; i++) {
    try(need(tensors[i], "tensors[]"));
    if (tensors[i]->c != c)
      return fail(GRPO_EARG, "adamw: tensor %zu belongs to another context", i + 1);
    values[i] = tensors[i]->v;
  }
  return value_optimizer_new(&a->a, OPTIMIZER_ADAMW, o, n, values, NULL);
}

static Status new_adamw(grpo_context *c, size_t n, grpo_tensor *const *tensors,
                        const grpo_adamw_options *options, grpo_adamw **out) {
  AdamWOptions o;
  try(need(tensors, "tensors"));
  try(need(out, "out"));
  try(take_adamw(options, &o));
  if (n < 1 || n > 1 << 24)
    return fail(GRPO_EARG, "adamw: got %zu tensors, want 1 to %d", n, 1 << 24);
  Value **values = mem_alloc(n * sizeof(Value *));
  grpo_adamw *a = mem_zalloc(sizeof *a);
  Status s = values && a ? adamw_over(c, n, tensors, &o, values, a) : fail(GRPO_ENOMEM, "adamw");
  mem_free(values);
  if (s != GRPO_OK) {
    mem_free(a);
    return s;
  }
  a->c = context_retain(c);
  *out = a;
  return GRPO_OK;
}

grpo_status grpo_adamw_new(grpo_context *c, size_t count, grpo_tensor *const *tensors,
                           const grpo_adamw_options *o, grpo_adamw **out) {
  in_call(call_begin, c, new_adamw(c, count, tensors, o, out));
}

static Status step(grpo_adamw *a, double lr, double max_grad_norm, double *norm) {
  const Ctx *cx;
  if (!(max_grad_norm >= 0))
    return fail(GRPO_EARG, "adamw: max_grad_norm is %g, want 0 or more", max_grad_norm);
  try(context_ctx(a->c, &cx));
  const double before = value_optimizer_clip(a->a, cx, max_grad_norm);
  if (!isfinite(before))
    return fail(GRPO_EDIVERGED, "adamw: a gradient is not finite; nothing was changed");
  try(value_optimizer_step(a->a, cx, lr));
  value_optimizer_zero_grad(a->a);
  if (norm) *norm = before;
  return GRPO_OK;
}

grpo_status grpo_adamw_step(grpo_adamw *a, double lr, double max_grad_norm, double *norm) {
  in_call(call_begin, a ? a->c : NULL, step(a, lr, max_grad_norm, norm));
}

void grpo_adamw_free(grpo_adamw *a) {
  if (!a || free_refused(a->c, __func__)) return;
  grpo_context *c = a->c;
  value_optimizer_free(a->a);
  mem_free(a);
  context_release(c);
}
