#include "model/forward_state.h"

#include "model/layer_kind.h"

/* Attributes of a layer with a state, in the tape's arena. */
typedef struct Recurrence {
  ConvAttr conv;
  DeltaAttr delta;
} Recurrence;

static Status new_recurrence(Pass *p, LayerKind kind, const Recurrence **out) {
  const Config *c = &p->m->config;
  const Rows *r = p->rows;
  const SequenceRows rows = {r->npack, r->pack, r->nspans, r->spans};
  Recurrence *n = arena_alloc(&p->t->arena, sizeof *n);
  if (!n) return fail(GRPO_ENOMEM, "model: no memory for a forward pass");
  if (r->bidirectional)
    return fail(GRPO_EARG,
                "model: layers with a state see no later tokens, so %s models cannot "
                "fill in masks",
                config_model_type(c));
  n->delta = (DeltaAttr){.shape = layer_delta_shape(c), .rows = rows};
  n->conv = (ConvAttr){.shape = layer_conv_shape(c, kind), .rows = rows};
  if (kind == LAYER_DELTA) n->conv.state_at = delta_state(&n->delta.shape);
  *out = n;
  return GRPO_OK;
}

/* LFM2's gated convolution: c conv(b u). */
Status pass_short_conv(Pass *p, int layer, Tensor *h, Tensor **o) {
  const Layer *l = &p->m->layer[layer];
  const int width = p->m->config.hidden_size;
  const Recurrence *n;
  Tensor *all, *x[3];
  try(new_recurrence(p, LAYER_CONV, &n));
  const Attr conv = {.p = &n->conv};
  try(pass_linear(p, l, L_QKV_W, h, &all));
  try(pass_split(p, all, 3, (const int[]){width, width, width}, x));
  try(tape_apply(p->t, OP_mul, (Tensor *[]){x[0], x[2]}, NULL, o));
  try(tape_apply(p->t, OP_causal_conv, (Tensor *[]){*o, l->t[L_CONV_W]}, &conv, o));
  return tape_apply(p->t, OP_mul, (Tensor *[]){x[1], *o}, NULL, o);
}

/* Cuts x [tokens, n (sum of widths)], whose parts stand head by head, into parts [tokens, n
 * width]. */
static Status split_heads(Pass *p, int n, Tensor *x, int parts, const int *width, Tensor **y) {
  const int rows = x->dim[0];
  const Attr apart = {.i = {3, rows, n, x->dim[1] / n}};
  try(tape_apply(p->t, OP_reshape, (Tensor *[]){x}, &apart, &x));
  for (int i = 0, at = 0; i < parts; at += width[i++]) {
    const Attr cut = {.i = {2, at, width[i]}}, flat = {.i = {2, rows, n * width[i]}};
    try(tape_apply(p->t, OP_narrow, (Tensor *[]){x}, &cut, &y[i]));
    try(tape_apply(p->t, OP_reshape, (Tensor *[]){y[i]}, &flat, &y[i]));
  }
  return GRPO_OK;
}

/* x: q, k, v; b and a: what makes beta and the decay. */
typedef struct DeltaParts {
  Tensor *x, *z, *b, *a;
} DeltaParts;

/* For layers in which one weight makes q, k, v and z, and another one b and a, both by key head. */
static Status packed_delta_parts(Pass *p, const Layer *l, const DeltaShape *s, Tensor *h,
                                 DeltaParts *d) {
  const int n = s->key_heads, share = s->value_heads / n, v = share * s->value_dim;
  const Attr side_by_side = {.i = {1}};
  Tensor *part[4], *ba[2];
  try(pass_linear(p, l, L_QKV_W, h, &d->x));
  try(split_heads(p, n, d->x, 4, (const int[]){s->key_dim, s->key_dim, v, v}, part));
  try(tape_apply(p->t, OP_concat, part, &side_by_side, &d->x));
  try(tape_apply(p->t, OP_concat, (Tensor *[]){d->x, part[2]}, &side_by_side, &d->x));
  d->z = part[3];
  try(pass_linear(p, l, L_BETA_W, h, &d->b));
  try(split_heads(p, n, d->b, 2, (const int[]){share, share}, ba));
  d->b = ba[0], d->a = ba[1];
  return GRPO_OK;
}

static Status delta_parts(Pass *p, const Layer *l, const DeltaShape *s, Tensor *h, DeltaParts *d) {
  if (!l->t[L_Z_W]) return packed_delta_parts(p, l, s, h, d);
  try(pass_linear(p, l, L_QKV_W, h, &d->x));
  try(pass_linear(p, l, L_Z_W, h, &d->z));
  try(pass_linear(p, l, L_BETA_W, h, &d->b));
  return pass_linear(p, l, L_DECAY_W, h, &d->a);
}

Status pass_delta_net(Pass *p, int layer, Tensor *h, Tensor **o) {
  const Layer *l = &p->m->layer[layer];
  const Attr norm_attr = {.f = {p->m->config.norm_eps}};
  const Recurrence *n;
  DeltaParts d;
  try(new_recurrence(p, LAYER_DELTA, &n));
  const Attr conv = {.p = &n->conv}, delta = {.p = &n->delta};
  try(delta_parts(p, l, &n->delta.shape, h, &d));
  try(tape_apply(p->t, OP_causal_conv, (Tensor *[]){d.x, l->t[L_CONV_W]}, &conv, &d.x));
  try(tape_apply(p->t, OP_delta_rule, (Tensor *[]){d.x, d.a, d.b, l->t[L_A_LOG], l->t[L_DT_BIAS]},
                 &delta, o));
  try(tape_apply(p->t, OP_rmsnorm, (Tensor *[]){*o, l->t[L_DELTA_NORM_W]}, &norm_attr, o));
  return (p->in_place ? tape_apply : tape_apply_transient)(p->t, OP_swiglu, (Tensor *[]){d.z, *o},
                                                           NULL, o);
}
