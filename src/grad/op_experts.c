/* op_experts.c - the feed-forward layers of a mixture of experts, each over the tokens that take
 * it.
 *
 *   y[t] = sum over i of w[t, i] e(x[t]),  e = the expert that token t takes as its i-th
 *   e(x) = down(a(gate x, up x)),  a(g, u) = silu(g) u or gelu(g) u, or with `limit` that of
 *   gpt-oss
 *
 * A token and one of its experts are a pair, and pair t top_k + i has a row of `saved`.  For the
 * products pairs are sorted by expert, and by token within one.  Products are row-invariant and the
 * sum is in the order of i, so the bits of a token do not depend on the others.  For backward,
 * gate x and up x of every pair are kept, [tokens, top_k, 2 width]:
 *   dw = da . a,  d(a) = w da,  da = dy W_down
 */
#include <math.h>
#include <string.h>

#include "base/exponential.h"
#include "base/mem.h"
#include "grad/attrs.h"
#include "grad/ops.h"
#include "grad/replay.h"
#include "grad/weight.h"
#include "kern/elementwise.h"
#include "kern/gemm_dw.h"

enum { CHUNK_REALS = 1 << 14 };

static const ExpertsAttr *attr_of(const Node *nd) { return nd->attr.p; }
static int tokens_of(const Node *nd) { return nd->in[0]->dim[0]; }
static int hidden_of(const Node *nd) { return nd->in[0]->dim[1]; }
static const Tensor *weight_of(const ExpertsAttr *a, int expert, ExpertPart part) {
  return a->weight[expert * EXPERT_PARTS + part];
}

/* ---- shapes ------------------------------------------------------------------------------ */

static Status check_weight(const ExpertsAttr *a, int expert, ExpertPart part, int n, int k) {
  const Tensor *w = weight_of(a, expert, part), *b = weight_of(a, expert, (ExpertPart)(part + 1));
  if (!w || w->ndim != 2 || weight_outputs(w, a->in_out) != n || weight_inputs(w, a->in_out) != k)
    return fail(GRPO_ESHAPE, "experts: a weight of expert %d has shape %s, want %d to %d", expert,
                w ? shape_text(w).s : "none", k, n);
  if (b && b->n != (size_t)n)
    return fail(GRPO_ESHAPE, "experts: a bias of expert %d has shape %s, want [%d]", expert,
                shape_text(b).s, n);
  return GRPO_OK;
}

static bool is_common(const ExpertsAttr *a) { return !a->weight[EXPERT_UP]; }

static Status shape(const Node *nd, Tensor *out, size_t *saved) {
  try(need_inputs(nd));
  try(need_attr(nd));
  const ExpertsAttr *a = attr_of(nd);
  const Tensor *x = nd->in[0], *route = nd->in[1];
  if (x->ndim != 2)
    return fail(GRPO_ESHAPE, "experts: x has shape %s, want [tokens, hidden]", shape_text(x).s);
  if (route->ndim != 2 || route->dim[0] != x->dim[0] || route->dim[1] != 2 * a->top_k)
    return fail(GRPO_ESHAPE, "experts: the route has shape %s, want [%d, %d]", shape_text(route).s,
                x->dim[0], 2 * a->top_k);
  for (int e = 0; e < a->experts; e++) {
    try(check_weight(a, e, EXPERT_GATE, is_common(a) ? 2 * a->width : a->width, x->dim[1]));
    if (!is_common(a)) try(check_weight(a, e, EXPERT_UP, a->width, x->dim[1]));
    try(check_weight(a, e, EXPERT_DOWN, x->dim[1], a->width));
  }
  *saved = (size_t)x->dim[0] * (size_t)a->top_k * 2 * (size_t)a->width * sizeof(real);
  return shape_as(x, out);
}

/* ---- pairs, sorted by expert ----------------------------------------------------------------- */

typedef struct Pairs {
  int n, top_k, experts;
  const real *route; /* [tokens, 2 top_k] */
  int *pair;         /* [n] in the order of experts */
  int *place;        /* [n] where a pair is in that order */
  int *first;        /* [experts + 1] the place of an expert's first pair */
} Pairs;

static const real *weight_in_route(const Pairs *p, int pair) {
  return p->route + (size_t)(pair / p->top_k) * 2 * (size_t)p->top_k + pair % p->top_k;
}

static int expert_of(const Pairs *p, int pair) {
  return (int)(weight_in_route(p, pair)[p->top_k] + (real)0.5);
}

static Status sort_pairs(Pairs *p) {
  memset(p->first, 0, (size_t)(p->experts + 1) * sizeof *p->first);
  for (int i = 0; i < p->n; i++) {
    const int e = expert_of(p, i);
    if (e < 0 || e >= p->experts)
      return fail(GRPO_EARG, "experts: token %d takes expert %d of %d", i / p->top_k, e,
                  p->experts);
    p->first[e + 1]++;
  }
  for (int e = 0; e < p->experts; e++) p->first[e + 1] += p->first[e];
  for (int i = 0; i < p->n; i++) {
    const int e = expert_of(p, i);
    p->pair[p->place[i] = p->first[e]++] = i;
  }
  for (int e = p->experts; e > 0; e--) p->first[e] = p->first[e - 1];
  p->first[0] = 0;
  return GRPO_OK;
}

/* While memory is measured there are no routes: every expert has its share. */
static Status pairs_new(const Ctx *cx, const Node *nd, Pairs *p) {
  const ExpertsAttr *a = attr_of(nd);
  *p = (Pairs){tokens_of(nd) * a->top_k, a->top_k, a->experts, nd->in[1]->data, NULL, NULL, NULL};
  p->pair = arena_alloc(cx->arena, ((size_t)p->n + 1) * sizeof *p->pair);
  p->place = arena_alloc(cx->arena, ((size_t)p->n + 1) * sizeof *p->place);
  p->first = arena_alloc(cx->arena, ((size_t)p->experts + 1) * sizeof *p->first);
  if (!p->pair || !p->place || !p->first)
    return fail(GRPO_ENOMEM, "experts: no memory for %d tokens", tokens_of(nd));
  if (!mem_measuring()) return sort_pairs(p);
  for (int e = 0; e <= p->experts; e++) p->first[e] = (int)((int64_t)p->n * e / p->experts);
  return GRPO_OK;
}

/* Copies rows between the order of experts and that of pairs, or of tokens. */
typedef struct Move {
  const Pairs *p;
  int per;   /* pairs that share a row: top_k where rows are those of tokens */
  int width; /* of a row */
  int step;  /* rows of a chunk */
  const real *from;
  real *to;
  size_t ld, at; /* of rows in the order of pairs: their distance, and the first column */
  bool back;     /* from the order of experts */
} Move;

static void move_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Move *m = arg;
  const int begin = chunk * m->step, end = begin + m->step < m->p->n ? begin + m->step : m->p->n;
  const size_t bytes = (size_t)m->width * sizeof(real);
  for (int i = begin; i < end; i++) {
    const size_t row = (size_t)(m->p->pair[i] / m->per) * m->ld + m->at;
    const size_t sorted = (size_t)i * (size_t)m->width;
    if (m->back)
      memcpy(m->to + row, m->from + sorted, bytes);
    else
      memcpy(m->to + sorted, m->from + row, bytes);
  }
}

static void move(const Ctx *cx, Move m) {
  m.step = CHUNK_REALS / m.width + 1;
  pool_run(cx->pool, (m.p->n + m.step - 1) / m.step, move_chunk, &m);
}

/* to [n, width]: the rows of the tokens */
static void gather_tokens(const Ctx *cx, const Pairs *p, int width, const real *from, real *to) {
  move(
      cx,
      (Move){.p = p, .per = p->top_k, .width = width, .from = from, .to = to, .ld = (size_t)width});
}

/* gate x and up x of pairs, [n, width] each, to and from `saved` */
static void move_saved(const Ctx *cx, const Node *nd, const Pairs *p, real *gate_up, bool back) {
  const size_t width = (size_t)attr_of(nd)->width;
  for (size_t half = 0; half < 2; half++) {
    real *sorted = gate_up + half * (size_t)p->n * width;
    move(cx, (Move){.p = p,
                    .per = 1,
                    .width = (int)width,
                    .ld = 2 * width,
                    .at = half * width,
                    .from = back ? sorted : nd->saved,
                    .to = back ? nd->saved : sorted,
                    .back = back});
  }
}

/* ---- products ------------------------------------------------------------------------------ */

typedef struct Work {
  const Ctx *cx;
  const Node *nd;
  const ExpertsAttr *a;
  Pairs p;
  real *x, *y;   /* [n, hidden], of tokens and of what experts make of them; or gradients */
  real *gate_up; /* gate x [n, width], up x [n, width] */
  real *common;  /* [n, 2 width], where one matrix makes both; else NULL */
  real *act;     /* [n, width] */
} Work;

static Status work_new(const Ctx *cx, const Node *nd, Work *w) {
  *w = (Work){.cx = cx, .nd = nd, .a = attr_of(nd)};
  try(pairs_new(cx, nd, &w->p));
  const size_t n = (size_t)w->p.n, hidden = (size_t)hidden_of(nd), width = (size_t)w->a->width;
  w->x = arena_alloc(cx->arena, n * hidden * sizeof(real));
  w->y = arena_alloc(cx->arena, n * hidden * sizeof(real));
  w->gate_up = arena_alloc(cx->arena, 2 * n * width * sizeof(real));
  w->act = arena_alloc(cx->arena, n * width * sizeof(real));
  if (is_common(w->a)) w->common = arena_alloc(cx->arena, 2 * n * width * sizeof(real));
  if (w->x && w->y && w->gate_up && w->act && (w->common || !is_common(w->a))) return GRPO_OK;
  return fail(GRPO_ENOMEM, "experts: no memory for %d tokens", tokens_of(nd));
}

static real *up_of(const Work *w) { return w->gate_up + (size_t)w->p.n * (size_t)w->a->width; }

/* The rows of an expert: their number, and what comes before them. */
static int rows_of(const Work *w, int e) { return w->p.first[e + 1] - w->p.first[e]; }
static size_t before(const Work *w, int e, int width) {
  return (size_t)w->p.first[e] * (size_t)width;
}

/* y [n, outputs] = x [n, inputs] W^T + bias of each expert */
static Status products(const Work *w, ExpertPart part, const real *x, real *y) {
  for (int e = 0; e < w->a->experts; e++) {
    const Tensor *t = weight_of(w->a, e, part), *b = weight_of(w->a, e, (ExpertPart)(part + 1));
    if (!rows_of(w, e)) continue;
    try(weight_forward(w->cx, rows_of(w, e), t, w->a->in_out,
                       x + before(w, e, weight_inputs(t, w->a->in_out)), b ? b->data : NULL, NULL,
                       y + before(w, e, weight_outputs(t, w->a->in_out))));
  }
  return GRPO_OK;
}

/* dx [n, inputs] (+)= dy W of each expert */
static Status products_dx(const Work *w, ExpertPart part, const real *dy, real *dx, bool add) {
  for (int e = 0; e < w->a->experts; e++) {
    const Tensor *t = weight_of(w->a, e, part);
    if (!rows_of(w, e)) continue;
    try(weight_dx(w->cx, rows_of(w, e), t, w->a->in_out,
                  dy + before(w, e, weight_outputs(t, w->a->in_out)), NULL,
                  dx + before(w, e, weight_inputs(t, w->a->in_out)), add));
  }
  return GRPO_OK;
}

/* Adds dy^T x to the gradients of each expert's weight, and the sum of dy to its bias's. */
static Status products_dw(const Work *w, ExpertPart part, const real *dy, const real *x) {
  for (int e = 0; e < w->a->experts; e++) {
    Tensor *t = w->a->weight[e * EXPERT_PARTS + part];
    Tensor *b = w->a->weight[e * EXPERT_PARTS + part + 1];
    const int n = weight_outputs(t, w->a->in_out);
    bool add;
    if (rows_of(w, e) && wants_grad(t)) {
      real *dw = grad_into(t, &add);
      try(weight_dw(w->cx, rows_of(w, e), t, w->a->in_out, dy + before(w, e, n),
                    x + before(w, e, weight_inputs(t, w->a->in_out)), dw, add));
    }
    if (rows_of(w, e) && wants_grad(b)) {
      real *db = grad_into(b, &add);
      try(gemm_db(w->cx, rows_of(w, e), n, dy + before(w, e, n), n, db, add));
    }
  }
  return GRPO_OK;
}

/* ---- the activation -------------------------------------------------------------------------- */

/* A row of gate x beside up x, as one matrix makes them, and the two apart. */
static void apart_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Work *w = arg;
  const int width = w->a->width, far = w->a->alternating ? 1 : width;
  real *both = w->common + (size_t)chunk * 2 * (size_t)width;
  real *gate = w->gate_up + (size_t)chunk * (size_t)width;
  real *up = up_of(w) + (size_t)chunk * (size_t)width;
  for (int i = 0; i < width; i++) {
    const int at = w->a->alternating ? 2 * i : i;
    gate[i] = both[at];
    up[i] = both[at + far];
  }
}

static void together_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Work *w = arg;
  const int width = w->a->width, far = w->a->alternating ? 1 : width;
  real *both = w->common + (size_t)chunk * 2 * (size_t)width;
  const real *gate = w->gate_up + (size_t)chunk * (size_t)width;
  const real *up = up_of(w) + (size_t)chunk * (size_t)width;
  for (int i = 0; i < width; i++) {
    const int at = w->a->alternating ? 2 * i : i;
    both[at] = gate[i];
    both[at + far] = up[i];
  }
}

static void limited_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Work *w = arg;
  const size_t at = (size_t)chunk * (size_t)w->a->width;
  const real *gate = w->gate_up + at, *up = up_of(w) + at, limit = w->a->limit;
  for (int i = 0; i < w->a->width; i++) {
    const real g = gate[i] > limit ? limit : gate[i];
    const real u = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
    w->act[at + (size_t)i] = (u + 1) * g / (1 + (real)math_exp((double)(-w->a->alpha * g)));
  }
}

/* act holds the gradient; gate and up become their gradients. */
static void limited_back_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Work *w = arg;
  const size_t at = (size_t)chunk * (size_t)w->a->width;
  real *gate = w->gate_up + at, *up = up_of(w) + at;
  const real limit = w->a->limit, *da = w->act + at;
  for (int i = 0; i < w->a->width; i++) {
    const bool low = gate[i] <= limit, within = up[i] <= limit && up[i] >= -limit;
    const real g = low ? gate[i] : limit;
    const real u = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
    const real s = 1 / (1 + (real)math_exp((double)(-w->a->alpha * g)));
    gate[i] = low ? da[i] * (u + 1) * s * (1 + w->a->alpha * g * (1 - s)) : 0;
    up[i] = within ? da[i] * g * s : 0;
  }
}

static GateAct gate_of(const Work *w) { return w->a->gelu ? GATE_GELU : GATE_SILU; }

static void activate(Work *w) {
  const size_t n = (size_t)w->p.n * (size_t)w->a->width;
  if (w->a->limit > 0)
    pool_run(w->cx->pool, w->p.n, limited_chunk, w);
  else
    gated_forward(w->cx, gate_of(w), n, w->gate_up, up_of(w), w->act);
}

static void activate_back(Work *w) {
  const size_t n = (size_t)w->p.n * (size_t)w->a->width;
  if (w->a->limit > 0)
    pool_run(w->cx->pool, w->p.n, limited_back_chunk, w);
  else
    gated_backward(w->cx, gate_of(w), n, w->gate_up, up_of(w), w->act, w->gate_up, false, up_of(w),
                   false);
}

/* ---- forward --------------------------------------------------------------------------------- */

static Status gate_and_up(Work *w) {
  if (!w->common) {
    try(products(w, EXPERT_GATE, w->x, w->gate_up));
    return products(w, EXPERT_UP, w->x, up_of(w));
  }
  try(products(w, EXPERT_GATE, w->x, w->common));
  pool_run(w->cx->pool, w->p.n, apart_chunk, w);
  return GRPO_OK;
}

static void sum_token(void *arg, int t, int worker) {
  (void)worker;
  const Work *w = arg;
  const int hidden = hidden_of(w->nd);
  real *y = w->nd->out->data + (size_t)t * (size_t)hidden;
  for (int i = 0; i < w->p.top_k; i++) {
    const int pair = t * w->p.top_k + i;
    const real *from = w->y + (size_t)w->p.place[pair] * (size_t)hidden;
    const real weight = *weight_in_route(&w->p, pair);
    for (int c = 0; c < hidden; c++) y[c] = i ? y[c] + weight * from[c] : weight * from[c];
  }
}

static Status forward(const Ctx *cx, Node *nd) {
  const ArenaMark mark = arena_mark(cx->arena);
  Work w;
  try(work_new(cx, nd, &w));
  gather_tokens(cx, &w.p, hidden_of(nd), nd->in[0]->data, w.x);
  try(gate_and_up(&w));
  move_saved(cx, nd, &w.p, w.gate_up, true);
  activate(&w);
  try(products(&w, EXPERT_DOWN, w.act, w.y));
  pool_run(cx->pool, tokens_of(nd), sum_token, &w);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

/* ---- backward ------------------------------------------------------------------------------- */

typedef struct Back {
  Work w;
  real *da;     /* [n, width] d loss / d act, before its weight */
  real *droute; /* [tokens, 2 top_k], added to; NULL: not wanted */
  real *dx;     /* [tokens, hidden], added to */
} Back;

static double dot(int n, const real *a, const real *b) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
  return sum;
}

/* The gradient of a pair's weight; then its rows of y and da take the weight. */
static void weigh_pair(void *arg, int at, int worker) {
  (void)worker;
  const Back *b = arg;
  const Work *w = &b->w;
  const int pair = w->p.pair[at], width = w->a->width, hidden = hidden_of(w->nd);
  const real *weight = weight_in_route(&w->p, pair);
  const Tensor *bias = weight_of(w->a, expert_of(&w->p, pair), EXPERT_DOWN_B);
  real *da = b->da + (size_t)at * (size_t)width, *dy = w->y + (size_t)at * (size_t)hidden;
  real *act = w->act + (size_t)at * (size_t)width;
  if (b->droute) {
    const double d = dot(width, da, act) + (bias ? dot(hidden, dy, bias->data) : 0);
    b->droute[weight - w->p.route] += (real)d;
  }
  for (int i = 0; i < width; i++) da[i] *= *weight;
  for (int i = 0; i < hidden; i++) dy[i] *= *weight;
}

/* Gradients of pairs' rows of x, in the order of a token's experts. */
static void add_token(void *arg, int t, int worker) {
  (void)worker;
  const Back *b = arg;
  const int hidden = hidden_of(b->w.nd), k = b->w.p.top_k;
  real *dx = b->dx + (size_t)t * (size_t)hidden;
  for (int i = 0; i < k; i++) {
    const real *from = b->w.y + (size_t)b->w.p.place[t * k + i] * (size_t)hidden;
    for (int c = 0; c < hidden; c++) dx[c] += from[c];
  }
}

/* Through gate and up: w.act has the gradient of the activation's result. */
static Status inputs_back(Back *b) {
  Work *w = &b->w;
  Tensor *x = w->nd->in[0];
  activate_back(w);
  if (w->common) pool_run(w->cx->pool, w->p.n, together_chunk, w);
  real *dgate = w->common ? w->common : w->gate_up, *dup = w->common ? NULL : up_of(w);
  gather_tokens(w->cx, &w->p, hidden_of(w->nd), x->data, w->x);
  try(products_dw(w, EXPERT_GATE, dgate, w->x));
  if (dup) try(products_dw(w, EXPERT_UP, dup, w->x));
  if (!wants_grad(x)) return GRPO_OK;
  try(products_dx(w, EXPERT_GATE, dgate, w->y, false));
  if (dup) try(products_dx(w, EXPERT_UP, dup, w->y, true));
  b->dx = grad_added(x);
  pool_run(w->cx->pool, tokens_of(w->nd), add_token, b);
  return GRPO_OK;
}

static Status backward(const Ctx *cx, Node *nd) {
  const ArenaMark mark = arena_mark(cx->arena);
  Back b = {.droute = wants_grad(nd->in[1]) ? grad_added(nd->in[1]) : NULL};
  Work *w = &b.w;
  try(work_new(cx, nd, w));
  b.da = arena_alloc(cx->arena, (size_t)w->p.n * (size_t)w->a->width * sizeof *b.da);
  if (!b.da) return fail(GRPO_ENOMEM, "experts: no memory for %d tokens", tokens_of(nd));
  gather_tokens(cx, &w->p, hidden_of(nd), nd->out->grad, w->y);
  move_saved(cx, nd, &w->p, w->gate_up, false);
  activate(w);
  try(products_dx(w, EXPERT_DOWN, w->y, b.da, false));
  pool_run(cx->pool, w->p.n, weigh_pair, &b);
  try(products_dw(w, EXPERT_DOWN, w->y, w->act));
  w->act = b.da;
  try(inputs_back(&b));
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

static int saved_width(const Node *nd) { return 2 * attr_of(nd)->top_k * attr_of(nd)->width; }
static const OpReplay replay = {saved_width, NULL};
DEFINE_REPLAYED_OP(experts, shape, forward, backward, &replay);
