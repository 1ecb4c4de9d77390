/* op_embedding.c - out[t] = scale wte[ids[t]] (+ wpe[pos[t]]). */
#include <string.h>

#include "grad/attrs.h"
#include "grad/ops.h"
#include "kern/quant.h"

enum { COLUMNS = 64 }; /* of a chunk of work in backward */

static const EmbeddingAttr *attr_of(const Node *nd) { return nd->attr.p; }

static Status check_table(const char *what, const Tensor *w, int first, int tokens,
                          const int32_t *index) {
  if (w->ndim != 2)
    return fail(GRPO_ESHAPE, "embedding: the %s table has shape %s, want two dimensions", what,
                shape_text(w).s);
  if (!index) return fail(GRPO_EARG, "embedding: no %s indices", what);
  for (int t = 0; t < tokens; t++)
    if (index[t] < 0 || index[t] >= w->dim[0] - first)
      return fail(GRPO_EARG, "embedding: %s %d at token %d is outside the table's 0 .. %d", what,
                  (int)index[t], t, w->dim[0] - first - 1);
  return GRPO_OK;
}

static Status shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(need_attr(nd));
  const EmbeddingAttr *a = attr_of(nd);
  const Tensor *wte = nd->in[0], *wpe = nd->in[1];
  try(check_table("token", wte, 0, a->tokens, a->ids));
  if (wpe) {
    try(check_table("position", wpe, a->first_position, a->tokens, a->pos));
    if (wpe->dim[1] != wte->dim[1])
      return fail(GRPO_ESHAPE, "embedding: tokens have %d channels but positions %d", wte->dim[1],
                  wpe->dim[1]);
  }
  out->ndim = 2;
  out->dim[0] = a->tokens;
  out->dim[1] = wte->dim[1];
  return GRPO_OK;
}

static Status forward(const Ctx *cx, Node *nd) {
  const EmbeddingAttr *a = attr_of(nd);
  const Tensor *wte = nd->in[0];
  const size_t c = (size_t)nd->out->dim[1];
  if (wte->quant) quant_gather(cx, wte->quant, a->tokens, a->ids, nd->out->data);
  for (int t = 0; t < a->tokens; t++) {
    real *y = nd->out->data + (size_t)t * c;
    if (!wte->quant) memcpy(y, wte->data + (size_t)a->ids[t] * c, c * sizeof *y);
    for (size_t i = 0; a->scale != 0 && i < c; i++) y[i] *= a->scale;
    if (!nd->in[1]) continue;
    const real *p = nd->in[1]->data + (size_t)(a->first_position + a->pos[t]) * c;
    for (size_t i = 0; i < c; i++) y[i] += p[i];
  }
  return GRPO_OK;
}

typedef struct Scatter {
  const int32_t *index;
  int tokens;
  size_t c;
  const real *dy;
  real *dw, scale;
} Scatter;

/* Rows may repeat, so a chunk owns some columns and visits all tokens in order. */
static void scatter_columns(void *arg, int chunk, int worker) {
  (void)worker;
  const Scatter *s = arg;
  const size_t from = (size_t)chunk * COLUMNS, end = from + COLUMNS, to = end < s->c ? end : s->c;
  for (int t = 0; t < s->tokens; t++) {
    const real *dy = s->dy + (size_t)t * s->c;
    real *dw = s->dw + (size_t)s->index[t] * s->c;
    for (size_t i = from; i < to; i++) dw[i] += s->scale * dy[i];
  }
}

static void scatter(const Ctx *cx, Node *nd, Tensor *w, int first, const int32_t *index,
                    real scale) {
  if (!wants_grad(w)) return;
  Scatter s = {.index = index,
               .tokens = attr_of(nd)->tokens,
               .c = (size_t)nd->out->dim[1],
               .dy = nd->out->grad,
               .dw = grad_added(w) + (size_t)first * (size_t)nd->out->dim[1],
               .scale = scale};
  pool_run(cx->pool, (int)((s.c + COLUMNS - 1) / COLUMNS), scatter_columns, &s);
}

static Status backward(const Ctx *cx, Node *nd) {
  const EmbeddingAttr *a = attr_of(nd);
  scatter(cx, nd, nd->in[0], 0, a->ids, a->scale != 0 ? a->scale : 1);
  scatter(cx, nd, nd->in[1], a->first_position, a->pos, 1);
  return GRPO_OK;
}

DEFINE_OP(embedding, shape, forward, backward);
