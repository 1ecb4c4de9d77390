/* op_loghead.c - log-probabilities, entropies and divergences directly from hidden states.
 *
 * A [tokens, vocab] matrix never exists: forward computes the logits of a chunk of outputs, reduces
 * them and drops them; backward computes the same chunk again, replaces it by d loss / d logits and
 * multiplies that back (with a softcap, logits are first bounded by cap tanh(x / cap)):
 *   d hidden[row] += dlogits w (outputs in order: rows may repeat)      dw += dlogits^T hidden
 *   dbias += sum over outputs of dlogits
 * Forward saves the log-sum-exp of every output (the policy's, then the reference's), and the mean
 * slope of a divergence (logits.h).  In one pass
 * (LogheadAttr.one_pass) it does nothing, and backward also reduces each chunk.
 *
 * Where a target was sampled from a set of tokens, its row of logits is compacted to the set's, and
 * all that follows is computed from these; d loss / d logits is expanded again, with 0 elsewhere.
 *
 * token_logp computes the same from logits that exist.
 */
#include <math.h>
#include <string.h>

#include "grad/op_loghead.h"

#include "grad/attrs.h"
#include "grad/op_lora.h"
#include "grad/ops.h"
#include "grad/weight.h"
#include "kern/elementwise.h"
#include "kern/gemm.h"
#include "kern/gemm_dw.h"
#include "kern/logits.h"
#include "kern/token_set.h"

/* MIN_ROWS: the fewest rows of a chunk, because each chunk reads the whole output
 * projection, packs it for dX and adds to all of dW. */
enum { CHUNK_BYTES = 16 << 20, MIN_ROWS = 128, MAX_ROWS = 256 };

int loghead_rows(int vocab) {
  const size_t rows = CHUNK_BYTES / ((size_t)vocab * sizeof(real));
  return rows < MIN_ROWS ? MIN_ROWS : rows > MAX_ROWS ? MAX_ROWS : (int)rows;
}

/* ---- loghead: shape ------------------------------------------------------------ */

static const LogheadAttr *attr_of(const Node *nd) { return nd->attr.p; }
static bool has_ref(const LogheadAttr *a) { return a->ref_hidden || a->ref_rows.fill; }
static int vocab(const Node *nd) { return nd->in[1]->dim[0]; }
static int channels(const Node *nd) { return nd->in[1]->dim[1]; }

static Status check_targets(const char *op, int n, int v, const int32_t *targets) {
  if (n && !targets) return fail(GRPO_EARG, "%s: no target tokens", op);
  for (int i = 0; i < n; i++)
    if (targets[i] < 0 || targets[i] >= v)
      return fail(GRPO_EARG, "%s: target %d is token %d, outside the vocabulary of %d", op, i,
                  (int)targets[i], v);
  return GRPO_OK;
}

enum { BIAS = 2, LOW, LORA_B }; /* the last two are lora_loghead's; NULL for loghead */

static const real *bias_of(const Tensor *b) { return b ? b->data : NULL; }

static Status check_bias(const Tensor *b, int v) {
  if (!b || (b->ndim == 1 && b->dim[0] == v)) return GRPO_OK;
  return fail(GRPO_ESHAPE, "loghead: the bias has shape %s, want [%d]", shape_text(b).s, v);
}

static Status check_low(const Node *nd) {
  const Tensor *h = nd->in[0], *low = nd->in[LOW], *b = nd->in[LORA_B];
  if (nd->op->nin <= LOW) return GRPO_OK;
  if (!low || !b) return fail(GRPO_EARG, "lora_loghead: the adapter is missing");
  if (low->ndim != 2 || low->dim[0] != h->dim[0])
    return fail(GRPO_ESHAPE, "lora_loghead: low has shape %s, want [%d, rank]", shape_text(low).s,
                h->dim[0]);
  if (b->ndim != 2 || b->dim[0] != vocab(nd) || b->dim[1] != low->dim[1])
    return fail(GRPO_ESHAPE, "lora_loghead: B has shape %s, want [%d, %d]", shape_text(b).s,
                vocab(nd), low->dim[1]);
  return GRPO_OK;
}

static Status check_sets(const LogheadAttr *a, int v) {
  for (int i = 0; a->token_sets && i < a->n; i++)
    if (a->token_sets[i] && token_set_place(a->token_sets[i], v, a->targets[i]) < 0)
      return fail(GRPO_EARG, "loghead: target %d is not among the tokens that it was sampled from",
                  i);
  return GRPO_OK;
}

static Status check_reference(const LogheadAttr *a, int v) {
  if (a->ref_hidden && !a->ref_head)
    return fail(GRPO_EARG, "loghead: reference states without the reference's head");
  if (a->ref_hidden && (a->ref_head->ndim != 2 || a->ref_head->dim[0] != v))
    return fail(GRPO_ESHAPE, "loghead: the reference's head has shape %s, want [%d, channels]",
                shape_text(a->ref_head).s, v);
  if (a->divergence && a->token_sets)
    return fail(GRPO_EARG, "loghead: only the reverse KL is defined over some of the tokens");
  if (!a->ref_rows.fill) return GRPO_OK;
  if (a->ref_hidden) return fail(GRPO_EARG, "loghead: two references");
  return check_targets("loghead: reference", a->n, v, a->ref_prev);
}

static Status loghead_shape(const Node *nd, Tensor *out, size_t *saved) {
  try(need_attr(nd));
  const LogheadAttr *a = attr_of(nd);
  const Tensor *h = nd->in[0], *w = nd->in[1];
  if (!w) return fail(GRPO_EARG, "loghead: the head is missing");
  if (w->ndim != 2 || w->dim[0] < 1)
    return fail(GRPO_ESHAPE, "loghead: the head has shape %s, want [vocab, channels]",
                shape_text(w).s);
  if (h->ndim != 2 || h->dim[1] != w->dim[1])
    return fail(GRPO_ESHAPE, "loghead: hidden has shape %s, want [tokens, %d]", shape_text(h).s,
                w->dim[1]);
  try(check_bias(nd->in[BIAS], w->dim[0]));
  try(check_low(nd));
  try(check_targets("loghead", a->n, w->dim[0], a->targets));
  try(check_sets(a, w->dim[0]));
  for (int i = 0; i < a->n; i++)
    if (a->rows[i] < 0 || a->rows[i] >= h->dim[0])
      return fail(GRPO_EARG, "loghead: output %d asks for row %d of %d", i, (int)a->rows[i],
                  h->dim[0]);
  try(check_reference(a, w->dim[0]));
  out->ndim = 2;
  out->dim[0] = has_ref(a) ? 3 : 2;
  out->dim[1] = a->n;
  *saved = (a->divergence ? 3 : 2) * (size_t)a->n * sizeof(real);
  return GRPO_OK;
}

/* ---- loghead: a chunk of outputs ------------------------------------------------ */

typedef struct Chunk {
  int at, n;        /* outputs at .. at + n - 1 */
  real *x;          /* [n, c] their hidden rows */
  real *logits;     /* [n, v] */
  real *ref_logits; /* [n, v] or NULL */
  real *capped;     /* backward with a softcap: the logits once more, [n, v], else NULL */
  Tensor head, ref; /* with panels, or quantised */
  Tensor lora_b;    /* with panels */
  real *low;        /* [n, r] rows of low */
  int *width;       /* [n] logits of a compacted row; NULL: no row is compacted */
  int32_t *place;   /* [n] of each target in its row; NULL: the targets' ids */
  int32_t *top;     /* [n, top_k] scratch of a divergence over the best tokens, or NULL */
} Chunk;

static Status chunk_init(const Ctx *cx, Node *nd, Chunk *ch) {
  const int v = vocab(nd), c = channels(nd), rows = loghead_rows(v);
  *ch = (Chunk){0};
  try(weight_ready(cx, nd->in[1], false, &ch->head));
  const size_t bytes = (size_t)rows * (size_t)v * sizeof(real);
  const bool ref = has_ref(attr_of(nd));
  if (attr_of(nd)->ref_hidden) try(weight_ready(cx, attr_of(nd)->ref_head, false, &ch->ref));
  ch->x = arena_alloc(cx->arena, (size_t)rows * (size_t)c * sizeof(real));
  ch->logits = arena_alloc(cx->arena, bytes);
  if (ref) ch->ref_logits = arena_alloc(cx->arena, bytes);
  const bool sets = attr_of(nd)->token_sets;
  if (sets) ch->width = arena_alloc(cx->arena, (size_t)rows * sizeof *ch->width);
  if (sets) ch->place = arena_alloc(cx->arena, (size_t)rows * sizeof *ch->place);
  if (!ch->x || !ch->logits || (ref && !ch->ref_logits) || (sets && !(ch->width && ch->place)))
    return fail(GRPO_ENOMEM, "loghead: no memory for the logits of %d rows", rows);
  const Divergence *d = attr_of(nd)->divergence;
  if (d && d->top_k) {
    ch->top = arena_alloc(cx->arena, (size_t)rows * (size_t)d->top_k * sizeof *ch->top);
    if (!ch->top)
      return fail(GRPO_ENOMEM, "loghead: no memory for the best tokens of %d rows", rows);
  }
  if (!nd->in[LOW]) return GRPO_OK;
  ch->low = arena_alloc(cx->arena, (size_t)rows * (size_t)last_dim(nd->in[LOW]) * sizeof(real));
  if (!ch->low) return fail(GRPO_ENOMEM, "loghead: no memory for an adapter's %d rows", rows);
  return weight_ready(cx, nd->in[LORA_B], false, &ch->lora_b);
}

/* Gathers the rows of x that the chunk's outputs read. */
static void gather_rows(const Node *nd, const Chunk *ch, const Tensor *x, real *y) {
  const size_t c = (size_t)last_dim(x);
  for (int i = 0; i < ch->n; i++)
    memcpy(y + (size_t)i * c, x->data + (size_t)attr_of(nd)->rows[ch->at + i] * c, c * sizeof *y);
}

static void cap(const Ctx *cx, real softcap, int n, int v, real *logits) {
  if (softcap > 0) softcap_forward(cx, (size_t)n * (size_t)v, softcap, logits, logits);
}

/* Computes the reference's logits of the chunk's outputs. */
static Status fill_reference(const Ctx *cx, const LogheadAttr *a, Chunk *ch, int v) {
  if (a->ref_rows.fill) {
    for (int i = 0; i < ch->n; i++)
      a->ref_rows.fill(a->ref_rows.of, a->ref_prev[ch->at + i],
                       ch->ref_logits + (size_t)i * (size_t)v);
    return GRPO_OK;
  }
  const real *ref = a->ref_hidden + (size_t)ch->at * (size_t)last_dim(&ch->ref);
  const ArenaMark mark = arena_mark(cx->arena);
  LowRank up;
  if (a->ref_low)
    try(lora_up(cx, a->ref_lora_b, a->ref_low + (size_t)ch->at * (size_t)a->ref_lora_b->dim[1],
                &up));
  try(weight_forward(cx, ch->n, &ch->ref, false, ref, bias_of(a->ref_bias), a->ref_low ? &up : NULL,
                     ch->ref_logits));
  arena_release(cx->arena, mark);
  cap(cx, a->ref_softcap, ch->n, v, ch->ref_logits);
  return GRPO_OK;
}

/* Gathers the rows of the outputs from `at` on, and computes their logits. */
static Status chunk_fill(const Ctx *cx, Node *nd, Chunk *ch, int at) {
  const LogheadAttr *a = attr_of(nd);
  const int v = vocab(nd), rows = loghead_rows(v);
  ch->at = at;
  ch->n = a->n - at < rows ? a->n - at : rows;
  gather_rows(nd, ch, nd->in[0], ch->x);
  LowRank up;
  if (ch->low) {
    gather_rows(nd, ch, nd->in[LOW], ch->low);
    try(lora_up(cx, &ch->lora_b, ch->low, &up));
  }
  try(weight_forward(cx, ch->n, &ch->head, false, ch->x, bias_of(nd->in[BIAS]),
                     ch->low ? &up : NULL, ch->logits));
  cap(cx, a->softcap, ch->n, v, ch->logits);
  return has_ref(a) ? fill_reference(cx, a, ch, v) : GRPO_OK;
}

typedef struct CompactJob {
  const LogheadAttr *a;
  Chunk *ch;
  int v;
} CompactJob;

static void compact_row(void *arg, int i, int worker) {
  (void)worker;
  const CompactJob *j = arg;
  const uint32_t *set = j->a->token_sets[j->ch->at + i];
  const int32_t target = j->a->targets[j->ch->at + i];
  real *row = j->ch->logits + (size_t)i * (size_t)j->v;
  real *ref = j->ch->ref_logits ? j->ch->ref_logits + (size_t)i * (size_t)j->v : NULL;
  j->ch->width[i] = set ? token_set_compact(set, j->v, row, row) : j->v;
  j->ch->place[i] = set ? token_set_place(set, j->v, target) : target;
  if (ref && set) token_set_compact(set, j->v, ref, ref);
}

/* Compacts the rows whose targets were sampled from sets of tokens. */
static void chunk_compact(const Ctx *cx, const Node *nd, Chunk *ch) {
  CompactJob j = {attr_of(nd), ch, vocab(nd)};
  if (ch->width) pool_run(cx->pool, ch->n, compact_row, &j);
}

static void expand_row(void *arg, int i, int worker) {
  (void)worker;
  const CompactJob *j = arg;
  const uint32_t *set = j->a->token_sets[j->ch->at + i];
  if (set) token_set_expand(set, j->v, j->ch->logits + (size_t)i * (size_t)j->v);
}

/* Makes whole rows of the gradients by compacted logits. */
static void chunk_expand(const Ctx *cx, const Node *nd, Chunk *ch) {
  CompactJob j = {attr_of(nd), ch, vocab(nd)};
  if (ch->width) pool_run(cx->pool, ch->n, expand_row, &j);
}

static const int32_t *targets_of(const Node *nd, const Chunk *ch) {
  return ch->place ? ch->place : attr_of(nd)->targets + ch->at;
}

/* Compacts the chunk and writes its results to out, its log-sum-exps to what forward saves. */
static void chunk_reduce(const Ctx *cx, Node *nd, Chunk *ch) {
  const LogheadAttr *a = attr_of(nd);
  const int v = vocab(nd), at = ch->at;
  real *logp = nd->out->data + at, *entropy = logp + a->n, *kl = entropy + a->n;
  real *lse = (real *)nd->saved + at, *ref_lse = lse + a->n, *mean = ref_lse + a->n;
  if (has_ref(a))
    logits_logp(cx, ch->n, v, NULL, ch->ref_logits, a->inv_temp, NULL, NULL, NULL, ref_lse);
  chunk_compact(cx, nd, ch);
  logits_logp(cx, ch->n, v, ch->width, ch->logits, a->inv_temp, targets_of(nd, ch), logp, entropy,
              lse);
  if (has_ref(a))
    logits_kl(cx, ch->n, v, ch->width, a->divergence, ch->logits, ch->ref_logits, a->inv_temp, lse,
              ref_lse, ch->top, kl, mean);
}

static Status loghead_forward(const Ctx *cx, Node *nd) {
  const LogheadAttr *a = attr_of(nd);
  const ArenaMark mark = arena_mark(cx->arena);
  Chunk ch;
  if (a->one_pass && nd->out->needs_grad) {
    for (size_t i = 0; i < nd->out->n; i++) nd->out->data[i] = (real)NAN;
    return GRPO_OK;
  }
  try(chunk_init(cx, nd, &ch));
  for (int at = 0; at < a->n; at += ch.n) {
    try(chunk_fill(cx, nd, &ch, at));
    chunk_reduce(cx, nd, &ch);
  }
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

/* ---- loghead: backward ---------------------------------------------------------- */

/* Returns NULL when all are zero, so that the kernel does less. */
static const real *unless_zero(const real *x, int n) {
  for (int i = 0; i < n; i++)
    if (x[i] != 0) return x;
  return NULL;
}

/* Replaces ch->logits, compacted, by d loss / d logits; part: [n, v] scratch for the KL. */
static void chunk_grad(const Ctx *cx, Node *nd, Chunk *ch, real *part) {
  const LogheadAttr *a = attr_of(nd);
  const int v = vocab(nd), at = ch->at, n = ch->n;
  const real *dlogp = nd->out->grad + at, *dentropy = dlogp + a->n, *dkl = dentropy + a->n;
  const real *entropy = nd->out->data + a->n + at, *kl = entropy + a->n;
  const real *lse = (const real *)nd->saved + at, *ref_lse = lse + a->n;
  const size_t elements = (size_t)n * (size_t)v;
  if (has_ref(a)) {
    memset(part, 0, elements * sizeof *part);
    const real *mean = a->divergence ? ref_lse + a->n : kl;
    logits_kl_grad(cx, n, v, ch->width, a->divergence, ch->logits, ch->ref_logits, a->inv_temp, lse,
                   ref_lse, mean, dkl, ch->top, part);
  }
  logits_logp_grad(cx, n, v, ch->width, ch->logits, a->inv_temp, targets_of(nd, ch), lse, entropy,
                   dlogp, unless_zero(dentropy, n));
  if (has_ref(a)) vec_acc(cx, elements, part, ch->logits);
  chunk_expand(cx, nd, ch);
  if (ch->capped)
    softcap_backward(cx, elements, a->softcap, ch->capped, ch->logits, ch->logits, false);
}

static void scatter_rows(const Node *nd, const Chunk *ch, const real *dx, Tensor *x) {
  const size_t c = (size_t)last_dim(x);
  real *grad = grad_added(x);
  for (int i = 0; i < ch->n; i++) {
    real *to = grad + (size_t)attr_of(nd)->rows[ch->at + i] * c;
    const real *from = dx + (size_t)i * c;
    for (size_t j = 0; j < c; j++) to[j] += from[j];
  }
}

/* Adds the adapter's part; overwrites ch->low. */
static Status low_backward(const Ctx *cx, Node *nd, Chunk *ch) {
  Tensor *low = nd->in[LOW], *b = nd->in[LORA_B];
  const int v = vocab(nd), r = last_dim(low);
  if (wants_grad(b)) {
    bool add;
    real *db = grad_into(b, &add);
    try(gemm_dw(cx, ch->n, v, r, ch->logits, v, ch->low, r, false, db, add));
  }
  if (!wants_grad(low)) return GRPO_OK;
  try(gemm_dx(cx, ch->n, v, r, ch->logits, v, b->data, false, ch->low, r, false));
  scatter_rows(nd, ch, ch->low, low);
  return GRPO_OK;
}

static Status chunk_backward(const Ctx *cx, Node *nd, Chunk *ch, real *dx) {
  Tensor *h = nd->in[0], *w = nd->in[1];
  if (wants_grad(h)) {
    try(weight_dx(cx, ch->n, w, false, ch->logits, NULL, dx, false));
    scatter_rows(nd, ch, dx, h);
  }
  if (wants_grad(w)) {
    bool add;
    real *dw = grad_into(w, &add);
    try(weight_dw(cx, ch->n, w, false, ch->logits, ch->x, dw, add));
  }
  if (wants_grad(nd->in[BIAS])) {
    bool add;
    real *db = grad_into(nd->in[BIAS], &add);
    try(gemm_db(cx, ch->n, vocab(nd), ch->logits, vocab(nd), db, add));
  }
  return ch->low ? low_backward(cx, nd, ch) : GRPO_OK;
}

static Status loghead_backward(const Ctx *cx, Node *nd) {
  const LogheadAttr *a = attr_of(nd);
  const ArenaMark mark = arena_mark(cx->arena);
  const size_t rows = (size_t)loghead_rows(vocab(nd));
  Chunk ch;
  try(chunk_init(cx, nd, &ch));
  real *dx = arena_alloc(cx->arena, rows * (size_t)channels(nd) * sizeof *dx), *part = NULL;
  if (has_ref(a)) part = arena_alloc(cx->arena, rows * (size_t)vocab(nd) * sizeof *part);
  if (a->softcap > 0) ch.capped = arena_alloc(cx->arena, rows * (size_t)vocab(nd) * sizeof *part);
  if (!dx || (has_ref(a) && !part) || (a->softcap > 0 && !ch.capped))
    return fail(GRPO_ENOMEM, "loghead: no memory in backward");
  for (int at = 0; at < a->n; at += ch.n) {
    try(chunk_fill(cx, nd, &ch, at));
    if (ch.capped)
      memcpy(ch.capped, ch.logits, (size_t)ch.n * (size_t)vocab(nd) * sizeof *ch.capped);
    if (a->one_pass)
      chunk_reduce(cx, nd, &ch);
    else
      chunk_compact(cx, nd, &ch);
    chunk_grad(cx, nd, &ch, part);
    try(chunk_backward(cx, nd, &ch, dx));
  }
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

DEFINE_OP(loghead, loghead_shape, loghead_forward, loghead_backward);
DEFINE_OP(lora_loghead, loghead_shape, loghead_forward, loghead_backward);

/* ---- token_logp ------------------------------------------------------------------ */

static Status token_shape(const Node *nd, Tensor *out, size_t *saved) {
  try(need_attr(nd));
  const TokenLogpAttr *a = nd->attr.p;
  const Tensor *x = nd->in[0];
  if (x->ndim != 2 || x->dim[1] < 1)
    return fail(GRPO_ESHAPE, "token_logp: logits have shape %s, want [tokens, vocab]",
                shape_text(x).s);
  try(check_targets("token_logp", x->dim[0], x->dim[1], a->targets));
  out->ndim = 2;
  out->dim[0] = 2;
  out->dim[1] = x->dim[0];
  *saved = (size_t)x->dim[0] * sizeof(real);
  return GRPO_OK;
}

static Status token_forward(const Ctx *cx, Node *nd) {
  const TokenLogpAttr *a = nd->attr.p;
  const int n = nd->in[0]->dim[0], v = nd->in[0]->dim[1];
  logits_logp(cx, n, v, NULL, nd->in[0]->data, a->inv_temp, a->targets, nd->out->data,
              nd->out->data + n, nd->saved);
  return GRPO_OK;
}

static Status token_backward(const Ctx *cx, Node *nd) {
  const TokenLogpAttr *a = nd->attr.p;
  const int n = nd->in[0]->dim[0], v = nd->in[0]->dim[1];
  const size_t all = (size_t)n * (size_t)v;
  const real *dlogp = nd->out->grad, *entropy = nd->out->data + n;
  const ArenaMark mark = arena_mark(cx->arena);
  bool add;
  real *dx = grad_into(nd->in[0], &add), *d = dx;
  if (add && !(d = arena_alloc(cx->arena, all * sizeof *d)))
    return fail(GRPO_ENOMEM, "token_logp: no memory in backward");
  memcpy(d, nd->in[0]->data, all * sizeof *d);
  logits_logp_grad(cx, n, v, NULL, d, a->inv_temp, a->targets, nd->saved, entropy, dlogp,
                   unless_zero(dlogp + n, n));
  if (add) vec_acc(cx, all, d, dx);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

DEFINE_OP(token_logp, token_shape, token_forward, token_backward);
