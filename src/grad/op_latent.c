/* op_latent.c - multi-head latent attention (DeepSeek-V2), beside attention itself.
 *
 *   latent_query  q [tokens, heads (nope + rope)], w -> [tokens, heads (rank + rope)]: each head's
 *                 first part goes to the latent space, its last part is rotated by its position
 *   latent_key    c [tokens, rank], the normed latent, and a [tokens, rank + rope], whose last part
 *                 is the heads' common rotary key -> [tokens, rank + rope]: c, and that key rotated
 *   latent_value  o [tokens, heads rank], w -> [tokens, heads v_dim]
 *
 * Neighbouring channels rotate together, as in transformers' DeepseekV2.
 */
#include "grad/attrs.h"
#include "grad/latent.h"
#include "grad/ops.h"
#include "grad/weight.h"
#include "kern/gemm.h"
#include "kern/gemm_bf16.h"
#include "kern/gemm_dw.h"
#include "kern/norm_rope.h"

#include <string.h>

static const LatentAttr *attr_of(const Node *nd) { return nd->attr.p; }
static const LatentShape *shape_of(const Node *nd) { return &attr_of(nd)->shape; }
static int rows_of(const Node *nd) { return nd->out->dim[0]; }
static int query_width(const LatentShape *s) { return s->heads * (s->nope + s->rope); }

/* ---- a head's two products ----------------------------------------------------- */

/* Rows of heads side by side: head h's part begins at + h head. */
typedef struct Side {
  real *at;
  int ld, head;
} Side;

static Status heads_forward(const Ctx *cx, const LatentShape *s, bool value, int m,
                            const Tensor *weight, Side x, Side y) {
  const Compute compute = weight_compute(weight);
  const ArenaMark mark = arena_mark(cx->arena);
  char *packed;
  try(latent_ready(cx, s, weight, &packed));
  for (int h = 0; h < s->heads; h++) {
    const LatentProduct p = latent_product(s, compute, h, value);
    const void *w = packed + p.panel_at;
    const real *xh = x.at + h * x.head;
    real *yh = y.at + h * y.head;
    if (compute == COMPUTE_BF16)
      try(gemm_bf16_forward(cx, m, p.n, p.k, xh, x.ld, w, NULL, yh, y.ld));
    else
      gemm_forward(cx, m, p.n, p.k, xh, x.ld, w, NULL, yh, y.ld);
  }
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

static Status heads_dx(const Ctx *cx, const LatentShape *s, bool value, int m, const Tensor *w,
                       Side dy, Side dx, bool add) {
  const Compute compute = weight_compute(w);
  const ArenaMark mark = arena_mark(cx->arena);
  char *packed = NULL;
  if (compute == COMPUTE_BF16) try(latent_ready(cx, s, w, &packed));
  for (int h = 0; h < s->heads; h++) {
    const LatentProduct p = latent_product(s, compute, h, value);
    const real *dyh = dy.at + h * dy.head;
    real *dxh = dx.at + h * dx.head;
    if (packed)
      try(gemm_bf16_dx(cx, m, p.n, p.k, dyh, dy.ld, (const void *)(packed + p.panel_at), dxh, dx.ld,
                       add));
    else
      try(gemm_dx(cx, m, p.n, p.k, dyh, dy.ld, w->data + p.at, p.in_out, dxh, dx.ld, add));
  }
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

static Status heads_dw(const Ctx *cx, const LatentShape *s, bool value, int m, Tensor *w, Side dy,
                       Side x) {
  real *dw = grad_added(w);
  for (int h = 0; h < s->heads; h++) {
    const LatentProduct p = latent_product(s, COMPUTE_F32, h, value);
    const real *dyh = dy.at + h * dy.head, *xh = x.at + h * x.head;
    if (weight_compute(w) == COMPUTE_BF16)
      try(gemm_bf16_dw(cx, m, p.n, p.k, dyh, dy.ld, xh, x.ld, p.in_out, dw + p.at, true));
    else
      try(gemm_dw(cx, m, p.n, p.k, dyh, dy.ld, xh, x.ld, p.in_out, dw + p.at, true));
  }
  return GRPO_OK;
}

/* ---- shapes ------------------------------------------------------------------------ */

static Status check_tensor(const Node *nd, int i, const char *what, int rows, int width) {
  const Tensor *x = nd->in[i];
  if (x->ndim == 2 && x->dim[1] == width && (rows < 0 || x->dim[0] == rows)) return GRPO_OK;
  return fail(GRPO_ESHAPE, "%s: %s has shape %s, want %d columns%s", nd->op->name, what,
              shape_text(x).s, width, rows < 0 ? "" : " and as many rows as are needed");
}

static Status check_weight(const Node *nd) {
  const LatentShape *s = shape_of(nd);
  return check_tensor(nd, 1, "the weight", s->heads * (s->nope + s->v_dim), s->rank);
}

static Status check_positions(const Node *nd) {
  const LatentAttr *a = attr_of(nd);
  if (a->shape.rope % 2)
    return fail(GRPO_ESHAPE, "%s: %d channels cannot be rotated in pairs", nd->op->name,
                a->shape.rope);
  for (int t = 0; t < nd->in[0]->dim[0]; t++)
    if (a->pos[t] < 0 || a->pos[t] >= a->positions)
      return fail(GRPO_EARG, "%s: position %d is past the %d the model was prepared for",
                  nd->op->name, (int)a->pos[t], a->positions);
  return GRPO_OK;
}

static Status set_shape(const Node *nd, Tensor *out, int width) {
  out->ndim = 2;
  out->dim[0] = nd->in[0]->dim[0];
  out->dim[1] = width;
  return GRPO_OK;
}

static Status begin(const Node *nd) {
  try(need_inputs(nd));
  return need_attr(nd);
}

/* ---- latent_query -------------------------------------------------------------------- */

static Status query_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(begin(nd));
  const LatentShape *s = shape_of(nd);
  try(check_tensor(nd, 0, "q", -1, query_width(s)));
  try(check_weight(nd));
  try(check_positions(nd));
  return set_shape(nd, out, s->heads * latent_key_width(s));
}

static Side query_side(const LatentShape *s, real *q) {
  return (Side){q, query_width(s), s->nope + s->rope};
}

static Side latent_side(const LatentShape *s, real *y) {
  return (Side){y, s->heads * latent_key_width(s), latent_key_width(s)};
}

static RopePairs turning(const Node *nd, int heads) {
  const LatentAttr *a = attr_of(nd);
  return (RopePairs){
      .rows = rows_of(nd), .heads = heads, .r = a->shape.rope, .pos = a->pos, .cs = a->cs};
}

static Status query_forward(const Ctx *cx, Node *nd) {
  const LatentShape *s = shape_of(nd);
  const Side q = query_side(s, nd->in[0]->data), y = latent_side(s, nd->out->data);
  RopePairs p = turning(nd, s->heads);
  p.x = q.at + s->nope, p.ldx = q.ld, p.x_head = q.head;
  p.y = y.at + s->rank, p.ldy = y.ld, p.y_head = y.head;
  rope_pairs(cx, &p);
  return heads_forward(cx, s, false, rows_of(nd), nd->in[1], q, y);
}

static Status query_backward(const Ctx *cx, Node *nd) {
  const LatentShape *s = shape_of(nd);
  const Side dy = latent_side(s, nd->out->grad);
  if (wants_grad(nd->in[0])) {
    RopePairs p = turning(nd, s->heads);
    const Side dq = query_side(s, grad_into(nd->in[0], &p.add));
    p.x = dy.at + s->rank, p.ldx = dy.ld, p.x_head = dy.head;
    p.y = dq.at + s->nope, p.ldy = dq.ld, p.y_head = dq.head;
    p.inverse = true;
    rope_pairs(cx, &p);
    try(heads_dx(cx, s, false, rows_of(nd), nd->in[1], dy, dq, p.add));
  }
  if (wants_grad(nd->in[1]))
    try(heads_dw(cx, s, false, rows_of(nd), nd->in[1], dy, query_side(s, nd->in[0]->data)));
  return GRPO_OK;
}

DEFINE_OP(latent_query, query_shape, query_forward, query_backward);

/* ---- latent_key ---------------------------------------------------------------------- */

static Status key_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(begin(nd));
  const LatentShape *s = shape_of(nd);
  try(check_tensor(nd, 0, "the latent", -1, s->rank));
  try(check_tensor(nd, 1, "the key", nd->in[0]->dim[0], latent_key_width(s)));
  if (nd->in[0] == nd->in[1]) return fail(GRPO_EARG, "latent_key: want two different tensors");
  try(check_positions(nd));
  return set_shape(nd, out, latent_key_width(s));
}

static Status key_forward(const Ctx *cx, Node *nd) {
  const LatentShape *s = shape_of(nd);
  const size_t rank = (size_t)s->rank, width = (size_t)latent_key_width(s);
  RopePairs p = turning(nd, 1);
  p.x = nd->in[1]->data + rank, p.y = nd->out->data + rank;
  p.ldx = p.ldy = (ptrdiff_t)width;
  rope_pairs(cx, &p);
  for (size_t t = 0; t < (size_t)rows_of(nd); t++)
    memcpy(nd->out->data + t * width, nd->in[0]->data + t * rank, rank * sizeof(real));
  return GRPO_OK;
}

static Status key_backward(const Ctx *cx, Node *nd) {
  const LatentShape *s = shape_of(nd);
  const size_t rank = (size_t)s->rank, width = (size_t)latent_key_width(s);
  if (wants_grad(nd->in[1])) {
    RopePairs p = turning(nd, 1);
    p.x = nd->out->grad + rank, p.y = grad_added(nd->in[1]) + rank;
    p.ldx = p.ldy = (ptrdiff_t)width;
    p.inverse = p.add = true;
    rope_pairs(cx, &p);
  }
  if (!wants_grad(nd->in[0])) return GRPO_OK;
  real *dc = grad_added(nd->in[0]);
  for (size_t t = 0; t < (size_t)rows_of(nd); t++)
    for (size_t i = 0; i < rank; i++) dc[t * rank + i] += nd->out->grad[t * width + i];
  return GRPO_OK;
}

DEFINE_OP(latent_key, key_shape, key_forward, key_backward);

/* ---- latent_value -------------------------------------------------------------------- */

static Status value_shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(begin(nd));
  const LatentShape *s = shape_of(nd);
  try(check_tensor(nd, 0, "o", -1, s->heads * s->rank));
  try(check_weight(nd));
  return set_shape(nd, out, s->heads * s->v_dim);
}

static Side read_side(const LatentShape *s, real *o) {
  return (Side){o, s->heads * s->rank, s->rank};
}

static Side value_side(const LatentShape *s, real *y) {
  return (Side){y, s->heads * s->v_dim, s->v_dim};
}

static Status value_forward(const Ctx *cx, Node *nd) {
  const LatentShape *s = shape_of(nd);
  return heads_forward(cx, s, true, rows_of(nd), nd->in[1], read_side(s, nd->in[0]->data),
                       value_side(s, nd->out->data));
}

static Status value_backward(const Ctx *cx, Node *nd) {
  const LatentShape *s = shape_of(nd);
  const Side dy = value_side(s, nd->out->grad);
  if (wants_grad(nd->in[0])) {
    bool add;
    const Side dx = read_side(s, grad_into(nd->in[0], &add));
    try(heads_dx(cx, s, true, rows_of(nd), nd->in[1], dy, dx, add));
  }
  if (wants_grad(nd->in[1]))
    try(heads_dw(cx, s, true, rows_of(nd), nd->in[1], dy, read_side(s, nd->in[0]->data)));
  return GRPO_OK;
}

DEFINE_OP(latent_value, value_shape, value_forward, value_backward);
