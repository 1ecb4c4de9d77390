/* op_attention.c - attention with grouped queries and shared prompts, causal or both ways.
 *
 * Queries, keys and values are three tensors, or side by side in the rows of one
 * (attention_packed), or queries and keys alone, whose first channels are the values
 * (attention_latent).  With sinks (attention_sinks; gpt-oss) each head has one more score s, which
 * is neither scaled nor masked and has no value: the result is that of attention times
 * exp(lse - lse'), lse' = log(exp(lse) + exp(s)), and backward is the same with lse' for lse.
 * In training (AttentionAttr.pack) keys and values are rows of the same
 * batch: each PackSpan's are copied into a segment of its own, in the layout the kernels read,
 * and kept for backward together with the log-sum-exp of every row and head.  In decoding
 * (AttentionAttr.spans) the segments are the cache's and hold the new keys already.
 */
#include <math.h>
#include <string.h>

#include "base/exponential.h"
#include "grad/attrs.h"
#include "grad/ops.h"
#include "grad/pack_check.h"
#include "grad/replay.h"
#include "kern/attention.h"
#include "kern/attention_grad.h"

static const AttentionAttr *attr_of(const Node *nd) { return nd->attr.p; }
static int width(const AttnShape *s) { return s->heads * s->head_dim; }
static int out_width(const AttnShape *s) { return s->heads * attn_value_dim(s); }
static int kv_width(const AttnShape *s) { return s->kv_heads * s->head_dim; }
static int cap_of(int n) { return (n + KV_BLOCK - 1) / KV_BLOCK * KV_BLOCK; }
static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* Where a row's queries, keys and values stand; grad: their gradients, NULL where none is
 * wanted. */
typedef struct Qkv {
  real *x[3];
  int ld[3];
} Qkv;

static Qkv qkv_of(const Node *nd) {
  const AttnShape *s = &attr_of(nd)->shape;
  const int q = width(s), kv = kv_width(s), all = q + 2 * kv;
  real *x = nd->in[0]->data;
  if (nd->op->nin == 1) return (Qkv){{x, x + q, x + q + kv}, {all, all, all}};
  return (Qkv){{x, nd->in[1]->data, nd->in[nd->op->nin > 2 ? 2 : 1]->data}, {q, kv, kv}};
}

static Qkv grads_of(const Node *nd) {
  const AttnShape *s = &attr_of(nd)->shape;
  const int q = width(s), kv = kv_width(s), all = q + 2 * kv;
  Qkv g = {{NULL, NULL, NULL}, {q, kv, kv}};
  if (nd->op->nin == 1) {
    real *d = grad_added(nd->in[0]);
    return (Qkv){{d, d + q, d + q + kv}, {all, all, all}};
  }
  for (int i = 0; i < nd->op->nin && i < 3; i++)
    if (wants_grad(nd->in[i])) g.x[i] = grad_added(nd->in[i]);
  if (nd->op->nin == 2) g.x[2] = g.x[1];
  return g;
}

static Tensor *sinks_of(const Node *nd) { return nd->op->nin > 3 ? nd->in[3] : NULL; }

/* ---- shape ------------------------------------------------------------------- */

static Status check_widths(const Node *nd) {
  const AttnShape *s = &attr_of(nd)->shape;
  const Tensor *q = nd->in[0];
  if (s->heads < 1 || s->kv_heads < 1 || s->head_dim < 1 || s->heads % s->kv_heads)
    return fail(GRPO_ESHAPE, "attention: %d heads cannot share %d key-value heads", s->heads,
                s->kv_heads);
  if (nd->op->nin == 2 ? s->v_dim < 1 || s->v_dim > s->head_dim || s->kv_heads > 1 : s->v_dim)
    return fail(GRPO_ESHAPE, "attention: values %d wide cannot be channels of keys %d wide",
                s->v_dim, s->head_dim);
  if (nd->op->nin == 1) {
    if (q->ndim != 2 || q->dim[1] != width(s) + 2 * kv_width(s))
      return fail(GRPO_ESHAPE, "attention: q, k and v have shape %s, want [tokens, %d]",
                  shape_text(q).s, width(s) + 2 * kv_width(s));
    return GRPO_OK;
  }
  const Tensor *k = nd->in[1], *v = nd->op->nin > 2 ? nd->in[2] : NULL;
  if (q->ndim != 2 || q->dim[1] != width(s))
    return fail(GRPO_ESHAPE, "attention: q has shape %s, want [tokens, %d]", shape_text(q).s,
                width(s));
  if (k->ndim != 2 || k->dim[1] != kv_width(s) || k->dim[0] != q->dim[0])
    return fail(GRPO_ESHAPE, "attention: k has shape %s, want [%d, %d]", shape_text(k).s, q->dim[0],
                kv_width(s));
  if (v && (v->ndim != 2 || v->dim[1] != kv_width(s) || v->dim[0] != q->dim[0]))
    return fail(GRPO_ESHAPE, "attention: v has shape %s, want [%d, %d]", shape_text(v).s, q->dim[0],
                kv_width(s));
  if (q == k || q == v || k == v)
    return fail(GRPO_EARG, "attention: q, k and v must be three different tensors");
  if (sinks_of(nd) && sinks_of(nd)->n != (size_t)s->heads)
    return fail(GRPO_ESHAPE, "attention: the sinks have shape %s, want [%d]",
                shape_text(sinks_of(nd)).s, s->heads);
  return GRPO_OK;
}

static Status check_spans(const AttentionAttr *a, int rows) {
  int covered = 0;
  for (int i = 0; i < a->nspans; i++) {
    const AttnSpan *s = &a->spans[i];
    if (s->row < 0 || s->n < 0 || s->row + s->n > rows || s->own_at + s->n > s->own->len)
      return fail(GRPO_ESHAPE, "attention: span %d has rows %d .. %d of %d and %d keys", i, s->row,
                  s->row + s->n - 1, rows, s->own->len);
    covered += s->n;
  }
  if (covered != rows)
    return fail(GRPO_ESHAPE, "attention: the spans cover %d rows of %d", covered, rows);
  return GRPO_OK;
}

/* Forward saves the log-sum-exps, then the spans, their segments, and the segments' memory. */
typedef struct Saved {
  real *lse;      /* [rows, heads] */
  AttnSpan *span; /* [npack] */
  KvSeg *seg;     /* [npack] */
  char *kv;
} Saved;

static int keys_before(const AttentionAttr *a, int span) {
  const int prefix = a->pack[span].prefix;
  return prefix < 0 ? 0 : a->pack[prefix].n;
}

/* reals of one of its blocks */
static size_t segment_size(const AttentionAttr *a, int span) {
  return kv_size(&a->shape, kv_places(&a->shape, cap_of(a->pack[span].n), keys_before(a, span)));
}

static size_t layout(const Node *nd, Saved *s) {
  const AttentionAttr *a = attr_of(nd);
  char *p = nd->saved;
  size_t at = 0;
  if (s) s->lse = (real *)(void *)(p + at);
  at += aligned((size_t)nd->in[0]->dim[0] * (size_t)a->shape.heads * sizeof(real));
  if (s) s->span = (AttnSpan *)(void *)(p + at);
  at += aligned((size_t)a->npack * sizeof(AttnSpan));
  if (s) s->seg = (KvSeg *)(void *)(p + at);
  at += aligned((size_t)a->npack * sizeof(KvSeg));
  if (s) s->kv = p + at;
  for (int i = 0; i < a->npack; i++)
    at += (size_t)kv_blocks(&a->shape) * aligned(segment_size(a, i) * sizeof(real));
  return at;
}

static Status shape(const Node *nd, Tensor *out, size_t *saved) {
  try(need_inputs(nd));
  try(need_attr(nd));
  const AttentionAttr *a = attr_of(nd);
  const int rows = nd->in[0]->ndim ? nd->in[0]->dim[0] : 0;
  try(check_widths(nd));
  if (!a->pack) {
    if (a->shape.bidirectional)
      return fail(
          GRPO_EARG,
          "attention: a cache holds no later tokens, so bidirectional attention needs pack");
    try(check_spans(a, rows));
    for (int i = 0; i < nd->op->nin && i < 3; i++)
      if (nd->in[i]->needs_grad)
        return fail(GRPO_EARG, "attention: no gradient passes through a cache; give pack");
    if (a->keep_lse || sinks_of(nd)) *saved = (size_t)rows * (size_t)a->shape.heads * sizeof(real);
  } else {
    try(pack_check(nd->op->name, a->npack, a->pack, rows));
    *saved = layout(nd, NULL);
  }
  try(shape_as(nd->in[0], out));
  out->dim[1] = out_width(&a->shape);
  return GRPO_OK;
}

/* ---- forward ----------------------------------------------------------------- */

typedef struct Fill {
  const AttnShape *shape;
  const KvSeg *seg;
  Qkv in;
} Fill;

static void fill_segment(void *arg, int chunk, int worker) {
  (void)worker;
  const Fill *f = arg;
  const KvSeg *seg = &f->seg[chunk];
  kv_clear_tail(f->shape, seg);
  const Qkv *in = &f->in;
  kv_store(f->shape, seg, 0, seg->len, in->x[1] + (ptrdiff_t)seg->row0 * in->ld[1], in->ld[1],
           in->x[2] + (ptrdiff_t)seg->row0 * in->ld[2], in->ld[2]);
}

static void fill_segments(const Ctx *cx, Node *nd, Saved *s) {
  const AttentionAttr *a = attr_of(nd);
  char *p = s->kv;
  for (int i = 0; i < a->npack; i++) {
    const PackSpan *pack = &a->pack[i];
    s->seg[i] = kv_segment(&a->shape, (real *)(void *)p, cap_of(pack->n), keys_before(a, i));
    s->seg[i].len = pack->n;
    s->seg[i].row0 = pack->row;
    s->span[i] = (AttnSpan){pack->prefix < 0 ? NULL : &s->seg[pack->prefix], &s->seg[i], pack->row,
                            pack->n, 0};
    p += (size_t)kv_blocks(&a->shape) * aligned(segment_size(a, i) * sizeof(real));
  }
  Fill f = {&a->shape, s->seg, qkv_of(nd)};
  pool_run(cx->pool, a->npack, fill_segment, &f);
}

/* ---- sinks: saved begins with the log-sum-exps, in training and in decoding ---- */

static void sink_row(void *arg, int row, int worker) {
  (void)worker;
  const Node *nd = arg;
  const AttnShape *s = &attr_of(nd)->shape;
  const int width = attn_value_dim(s);
  real *lse = (real *)nd->saved + (ptrdiff_t)row * s->heads;
  real *o = nd->out->data + (ptrdiff_t)row * out_width(s);
  for (int h = 0; h < s->heads; h++, o += width) {
    const double sink = (double)sinks_of(nd)->data[h], was = (double)lse[h], top = fmax(was, sink);
    const double all = top + math_log(math_exp(was - top) + math_exp(sink - top));
    const real share = (real)math_exp(was - all);
    for (int i = 0; i < width; i++) o[i] *= share;
    lse[h] = (real)all;
  }
}

/* d sink = -(sum over rows of exp(sink - lse) dO . O) */
static void sink_back(void *arg, int head, int worker) {
  (void)worker;
  const Node *nd = arg;
  const AttnShape *s = &attr_of(nd)->shape;
  const int width = attn_value_dim(s), rows = nd->out->dim[0];
  const double sink = (double)sinks_of(nd)->data[head];
  const real *lse = (const real *)nd->saved + head;
  double sum = 0;
  for (int row = 0; row < rows; row++) {
    const ptrdiff_t at = (ptrdiff_t)row * out_width(s) + head * width;
    double dot = 0;
    for (int i = 0; i < width; i++)
      dot += (double)nd->out->grad[at + i] * (double)nd->out->data[at + i];
    sum += math_exp(sink - (double)lse[(ptrdiff_t)row * s->heads]) * dot;
  }
  sinks_of(nd)->grad[head] -= (real)sum;
}

static Status forward(const Ctx *cx, Node *nd) {
  const AttentionAttr *a = attr_of(nd);
  const int ld = out_width(&a->shape), n = a->pack ? a->npack : a->nspans;
  const Qkv in = qkv_of(nd);
  Saved s = {.lse = nd->saved};
  if (a->pack) {
    layout(nd, &s);
    fill_segments(cx, nd, &s);
  }
  try(attn_forward(cx, &a->shape, n, a->pack ? s.span : a->spans, in.x[0], in.ld[0], nd->out->data,
                   ld, s.lse));
  if (sinks_of(nd)) pool_run(cx->pool, nd->out->dim[0], sink_row, nd);
  return GRPO_OK;
}

/* ---- backward ---------------------------------------------------------------- */

static Status backward(const Ctx *cx, Node *nd) {
  const AttentionAttr *a = attr_of(nd);
  const int ld = out_width(&a->shape);
  const Qkv in = qkv_of(nd), d = grads_of(nd);
  Saved s;
  layout(nd, &s);
  if (wants_grad(sinks_of(nd))) {
    grad_added(sinks_of(nd));
    pool_run(cx->pool, a->shape.heads, sink_back, nd);
  }
  return attn_backward(cx, &a->shape, a->npack, s.span, in.x[0], in.ld[0], nd->out->data, ld, s.lse,
                       nd->out->grad, ld, d.x[0], d.ld[0], d.x[1], d.x[2], d.ld[1]);
}

/* ---- replay ------------------------------------------------------------------ */

static int lse_width(const Node *nd) { return attr_of(nd)->shape.heads; }

static Status rebuild(const Ctx *cx, Node *nd) {
  Saved s;
  layout(nd, &s);
  fill_segments(cx, nd, &s);
  return GRPO_OK;
}

static const OpReplay replay = {lse_width, rebuild};
DEFINE_REPLAYED_OP(attention, shape, forward, backward, &replay);
DEFINE_REPLAYED_OP(attention_sinks, shape, forward, backward, &replay);
DEFINE_REPLAYED_OP(attention_packed, shape, forward, backward, &replay);
DEFINE_REPLAYED_OP(attention_latent, shape, forward, backward, &replay);
