/* op_recurrent.c - operations whose rows follow one another within a sequence.
 *
 *   causal_conv  u [tokens, channels], w [channels, 1, taps] -> [tokens, channels]
 *   delta_rule   x [tokens, delta_width], a and b [tokens, value_heads], a_log and dt_bias
 *                [value_heads] -> [tokens, value_heads value_dim]
 *
 * In training (SequenceRows.pack) a sequence is a span of the batch, which begins where its prefix
 * ends.  In decoding (spans) it begins with the layer's state in the cache (KvSeg.k), or where it
 * has none yet with that of its prefix, and leaves its last state in KvSeg.v, mostly the same.
 */
#include "grad/attrs.h"
#include "grad/ops.h"
#include "grad/pack_check.h"
#include "grad/replay.h"

static int rows_of(const Node *nd) { return nd->in[0]->dim[0]; }

static int sequences(const SequenceRows *r) { return r->pack ? r->npack : r->nspans; }

/* The state that a span of decoding begins with, `at` reals behind the layer's. */
static const real *state_before(const AttnSpan *s, size_t at) {
  if (s->own_at > 0) return s->own->k + at;
  return s->prefix ? s->prefix->k + at : NULL;
}

static void *new_runs(const Ctx *cx, const SequenceRows *r, size_t size) {
  return arena_alloc(cx->arena, (size_t)(sequences(r) + 1) * size);
}

static Status no_runs(const Node *nd) {
  return fail(GRPO_ENOMEM, "%s: no memory for its sequences", nd->op->name);
}

static Status check_rows(const Node *nd, const SequenceRows *r) {
  int covered = 0;
  if (nd->in[0]->ndim != 2)
    return fail(GRPO_ESHAPE, "%s: the input has shape %s, want [tokens, channels]", nd->op->name,
                shape_text(nd->in[0]).s);
  if (r->pack) return pack_check(nd->op->name, r->npack, r->pack, rows_of(nd));
  for (int i = 0; i < r->nspans; i++) covered += r->spans[i].n;
  if (covered != rows_of(nd))
    return fail(GRPO_ESHAPE, "%s: the spans cover %d rows of %d", nd->op->name, covered,
                rows_of(nd));
  if (nd->in[0]->needs_grad)
    return fail(GRPO_EARG, "%s: no gradient passes through a cache; give pack", nd->op->name);
  return GRPO_OK;
}

static Status begin(const Node *nd) {
  try(need_inputs(nd));
  return need_attr(nd);
}

static real *grad_or_null(Tensor *t) { return wants_grad(t) ? grad_added(t) : NULL; }

/* ---- causal_conv ----------------------------------------------------------------------- */

static const ConvAttr *conv_attr(const Node *nd) { return nd->attr.p; }

static Status conv_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(begin(nd));
  const ConvShape *s = &conv_attr(nd)->shape;
  const Tensor *w = nd->in[1];
  try(check_rows(nd, &conv_attr(nd)->rows));
  if (s->taps < 1 || s->taps > CONV_MAX_TAPS || nd->in[0]->dim[1] != s->channels || w->ndim != 3 ||
      w->dim[0] != s->channels || w->dim[1] != 1 || w->dim[2] != s->taps)
    return fail(GRPO_ESHAPE,
                "causal_conv: u has shape %s and w %s, want %d channels and 1 to %d taps",
                shape_text(nd->in[0]).s, shape_text(w).s, s->channels, CONV_MAX_TAPS);
  return shape_as(nd->in[0], out);
}

static ConvRun *conv_runs(const Ctx *cx, const ConvAttr *a) {
  const SequenceRows *r = &a->rows;
  ConvRun *run = new_runs(cx, r, sizeof *run);
  for (int i = 0; run && i < sequences(r); i++) {
    if (r->pack) {
      const PackSpan *p = &r->pack[i], *prefix = p->prefix < 0 ? NULL : &r->pack[p->prefix];
      run[i] = (ConvRun){.row = p->row, .n = p->n};
      if (prefix) run[i].before = prefix->row, run[i].nbefore = prefix->n;
    } else {
      const AttnSpan *s = &r->spans[i];
      run[i] = (ConvRun){.row = s->row, .n = s->n};
      run[i].tail = state_before(s, a->state_at);
      run[i].end = s->own->v + a->state_at;
    }
  }
  return run;
}

static Status conv_run(const Ctx *cx, Node *nd) {
  const ConvAttr *a = conv_attr(nd);
  const ArenaMark mark = arena_mark(cx->arena);
  const ConvRun *runs = conv_runs(cx, a);
  if (!runs) return no_runs(nd);
  conv_forward(cx, &a->shape, sequences(&a->rows), runs, nd->in[0]->data, nd->in[1]->data,
               nd->out->data);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

static Status conv_back(const Ctx *cx, Node *nd) {
  const ConvAttr *a = conv_attr(nd);
  const ArenaMark mark = arena_mark(cx->arena);
  const ConvRun *runs = conv_runs(cx, a);
  if (!runs) return no_runs(nd);
  conv_backward(cx, &a->shape, sequences(&a->rows), runs, nd->in[0]->data, nd->in[1]->data,
                nd->out->grad, grad_or_null(nd->in[0]), grad_or_null(nd->in[1]));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

DEFINE_OP(causal_conv, conv_shape, conv_run, conv_back);

/* ---- delta_rule ------------------------------------------------------------------------- */

static const DeltaAttr *delta_attr(const Node *nd) { return nd->attr.p; }

static Status delta_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(begin(nd));
  const DeltaShape *s = &delta_attr(nd)->shape;
  const int heads = s->value_heads;
  if (s->key_heads < 1 || s->key_dim < 1 || s->value_dim < 1 || heads < 1 || heads % s->key_heads)
    return fail(GRPO_ESHAPE, "delta_rule: %d value heads cannot share %d key heads", heads,
                s->key_heads);
  try(check_rows(nd, &delta_attr(nd)->rows));
  const int width[] = {delta_width(s), heads, heads};
  for (int i = 0; i < 3; i++)
    if (nd->in[i]->ndim != 2 || nd->in[i]->dim[0] != rows_of(nd) || nd->in[i]->dim[1] != width[i])
      return fail(GRPO_ESHAPE, "delta_rule: input %d has shape %s, want [%d, %d]", i + 1,
                  shape_text(nd->in[i]).s, rows_of(nd), width[i]);
  for (int i = 3; i < 5; i++)
    if (nd->in[i]->n != (size_t)heads)
      return fail(GRPO_ESHAPE, "delta_rule: input %d has shape %s, want [%d]", i + 1,
                  shape_text(nd->in[i]).s, heads);
  out->ndim = 2;
  out->dim[0] = rows_of(nd);
  out->dim[1] = heads * s->value_dim;
  return GRPO_OK;
}

static DeltaRun *delta_runs(const Ctx *cx, const DeltaAttr *a) {
  const SequenceRows *r = &a->rows;
  DeltaRun *run = new_runs(cx, r, sizeof *run);
  for (int i = 0; run && i < sequences(r); i++) {
    if (r->pack) {
      run[i] = (DeltaRun){.row = r->pack[i].row, .n = r->pack[i].n, .from = r->pack[i].prefix};
    } else {
      const AttnSpan *s = &r->spans[i];
      run[i] = (DeltaRun){.row = s->row, .n = s->n, .from = -1};
      run[i].begin = state_before(s, a->state_at);
      run[i].end = s->own->v + a->state_at;
    }
  }
  return run;
}

static DeltaInputs delta_inputs(const Node *nd) {
  return (DeltaInputs){nd->in[0]->data, nd->in[1]->data, nd->in[2]->data, nd->in[3]->data,
                       nd->in[4]->data};
}

static Status delta_run(const Ctx *cx, Node *nd) {
  const DeltaAttr *a = delta_attr(nd);
  const ArenaMark mark = arena_mark(cx->arena);
  const DeltaInputs in = delta_inputs(nd);
  const DeltaRun *runs = delta_runs(cx, a);
  if (!runs) return no_runs(nd);
  try(delta_forward(cx, &a->shape, rows_of(nd), sequences(&a->rows), runs, &in, nd->out->data));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

static Status delta_back(const Ctx *cx, Node *nd) {
  const DeltaAttr *a = delta_attr(nd);
  const ArenaMark mark = arena_mark(cx->arena);
  const DeltaInputs in = delta_inputs(nd);
  const DeltaRun *runs = delta_runs(cx, a);
  const DeltaGrads out = {grad_or_null(nd->in[0]), grad_or_null(nd->in[1]), grad_or_null(nd->in[2]),
                          grad_or_null(nd->in[3]), grad_or_null(nd->in[4])};
  if (!runs) return no_runs(nd);
  try(delta_backward(cx, &a->shape, rows_of(nd), sequences(&a->rows), runs, &in, nd->out->grad,
                     &out));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

static const OpReplay replay = {NULL, NULL};
DEFINE_REPLAYED_OP(delta_rule, delta_shape, delta_run, delta_back, &replay);
