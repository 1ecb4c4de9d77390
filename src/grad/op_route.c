/* op_route.c - which experts a token takes, and with which weights (RouteAttr).
 *
 *   softmax  p = softmax(logits); weight = scale p, with `normed` scale p / (sum of those taken)
 *   sigmoid  s = sigmoid(logits); weight = scale s, with `normed` scale s / (sum + eps)
 *
 * Experts are chosen by logits, or by s + bias; a group's score is the sum of its two best.  An
 * expert's factor multiplies its weight at the end.
 */
#include <math.h>
#include <string.h>

#include "base/exponential.h"
#include "base/mem.h"
#include "grad/attrs.h"
#include "grad/balance.h"
#include "grad/ops.h"

enum { TOKENS = 64 }; /* of a chunk */

static const RouteAttr *attr_of(const Node *nd) { return nd->attr.p; }
static int tokens_of(const Node *nd) { return nd->in[0]->dim[0]; }
static int experts_of(const Node *nd) { return nd->in[0]->dim[1]; }

static Status check_choice(const RouteAttr *a, int experts) {
  const int groups = a->groups ? a->groups : 1, top = a->groups ? a->top_groups : 1;
  if (experts < 1 || experts > ROUTE_MAX_EXPERTS || groups < 1 || experts % groups || top < 1 ||
      top > groups || (groups > 1 && experts < 2 * groups))
    return fail(GRPO_ESHAPE, "route: %d experts in %d groups, of which %d count", experts, groups,
                top);
  if (a->top_k < 1 || a->top_k > experts / groups * top)
    return fail(GRPO_ESHAPE, "route: a token cannot take %d of %d experts", a->top_k,
                experts / groups * top);
  return GRPO_OK;
}

static Status shape(const Node *nd, Tensor *out, size_t *saved) {
  (void)saved;
  try(need_attr(nd));
  const Tensor *x = nd->in[0], *bias = nd->in[1], *factor = nd->in[2];
  if (x->ndim != 2)
    return fail(GRPO_ESHAPE, "route: the logits have shape %s, want [tokens, experts]",
                shape_text(x).s);
  try(check_choice(attr_of(nd), x->dim[1]));
  if (attr_of(nd)->balance && attr_of(nd)->sigmoid)
    return fail(GRPO_EARG, "route: scores that are sigmoids have no auxiliary loss");
  if (bias && bias->n != (size_t)x->dim[1])
    return fail(GRPO_ESHAPE, "route: the bias has shape %s, want [%d]", shape_text(bias).s,
                x->dim[1]);
  if (factor && factor->n != (size_t)x->dim[1])
    return fail(GRPO_ESHAPE, "route: the factors have shape %s, want [%d]", shape_text(factor).s,
                x->dim[1]);
  out->ndim = 2;
  out->dim[0] = x->dim[0];
  out->dim[1] = 2 * attr_of(nd)->top_k;
  return GRPO_OK;
}

static double sigmoid(double x) { return 1 / (1 + math_exp(-x)); }

/* ---- the choice ------------------------------------------------------------------------- */

/* The largest of n scores that is not taken, the first of equal ones; it is taken now. */
static int take_best(int n, const double *score, bool *taken) {
  int best = -1;
  for (int i = 0; i < n; i++)
    if (!taken[i] && (best < 0 || score[i] > score[best])) best = i;
  taken[best] = true;
  return best;
}

static double two_best(int n, const double *score) {
  double first = -INFINITY, second = -INFINITY;
  for (int i = 0; i < n; i++) {
    const double low = fmin(score[i], first);
    first = fmax(score[i], first);
    if (low > second) second = low;
  }
  return first + second;
}

/* Experts outside of the best groups count as taken. */
static void leave_groups(const RouteAttr *a, int experts, const double *score, bool *taken) {
  double group[ROUTE_MAX_EXPERTS];
  bool kept[ROUTE_MAX_EXPERTS] = {false};
  const int n = experts / a->groups;
  for (int i = 0; i < a->groups; i++) group[i] = two_best(n, score + i * n);
  for (int i = 0; i < a->top_groups; i++) take_best(a->groups, group, kept);
  for (int i = 0; i < experts; i++) taken[i] = !kept[i / n];
}

static void choose(const RouteAttr *a, int experts, const real *x, const real *bias, int *chosen) {
  double score[ROUTE_MAX_EXPERTS];
  bool taken[ROUTE_MAX_EXPERTS] = {false};
  for (int i = 0; i < experts; i++) {
    score[i] = a->sigmoid ? sigmoid((double)x[i]) : (double)x[i];
    if (bias) score[i] += (double)bias[i];
  }
  if (a->groups > 1) leave_groups(a, experts, score, taken);
  for (int i = 0; i < a->top_k; i++) chosen[i] = take_best(experts, score, taken);
}

/* ---- the weights ------------------------------------------------------------------------ */

typedef struct Scores {
  double largest, sum; /* softmax: of the logits, and over all experts of exp(logit - largest) */
  double taken;        /* the sum over the experts that are taken */
} Scores;

static double score_of(const RouteAttr *a, const Scores *s, real logit) {
  return a->sigmoid ? sigmoid((double)logit) : math_exp((double)logit - s->largest) / s->sum;
}

static Scores scores_of(const RouteAttr *a, int experts, const real *x, const int *chosen) {
  Scores s = {.largest = (double)x[0]};
  for (int i = 1; i < experts; i++) s.largest = fmax(s.largest, (double)x[i]);
  for (int i = 0; i < experts; i++) s.sum += math_exp((double)x[i] - s.largest);
  for (int i = 0; i < a->top_k; i++) s.taken += score_of(a, &s, x[chosen[i]]);
  if (a->sigmoid) s.taken += a->eps;
  return s;
}

/* The weight of an expert that a token takes, before its factor. */
static double weight_of(const RouteAttr *a, const Scores *s, real logit) {
  const double score = score_of(a, s, logit);
  return (double)a->scale * (a->normed ? score / s->taken : score);
}

static double factor_of(const Node *nd, int expert) {
  return nd->in[2] ? (double)nd->in[2]->data[expert] : 1;
}

/* ---- the operation ---------------------------------------------------------------------- */

typedef struct Job {
  const Node *nd;
  real *dx; /* NULL: not wanted */
  bool add;
  /* Sums over a chunk's tokens; NULL: not wanted.  Forward: what balance_add() takes, [chunks, 2
   * experts].  Backward: d loss / d factor, [chunks, experts]. */
  double *part;
  real *dfactor;
  bool add_factor;
} Job;

/* part: [2 experts] of the token's chunk */
static void count_token(const RouteAttr *a, const Scores *s, int t, int experts, const real *x,
                        const int *chosen, double *part) {
  const double n = balance_sequences(a->balance, t);
  for (int i = 0; i < a->top_k; i++) part[chosen[i]] += n;
  for (int i = 0; i < experts; i++) part[experts + i] += n * score_of(a, s, x[i]);
}

/* part: [2 experts] of the token's chunk, or NULL */
static void route_token(const Node *nd, int t, double *part) {
  const RouteAttr *a = attr_of(nd);
  const int experts = experts_of(nd);
  const real *x = nd->in[0]->data + (size_t)t * (size_t)experts;
  real *y = nd->out->data + (size_t)t * 2 * (size_t)a->top_k;
  int chosen[ROUTE_MAX_EXPERTS] = {0};
  choose(a, experts, x, nd->in[1] ? nd->in[1]->data : NULL, chosen);
  const Scores s = scores_of(a, experts, x, chosen);
  for (int i = 0; i < a->top_k; i++) {
    y[i] = (real)(weight_of(a, &s, x[chosen[i]]) * factor_of(nd, chosen[i]));
    y[a->top_k + i] = (real)chosen[i];
  }
  if (part) count_token(a, &s, t, experts, x, chosen, part);
}

/* d loss / d score of the experts that a token takes; g: of their weights before the factors. */
static void score_gradients(const RouteAttr *a, const Scores *s, const real *x, const int *chosen,
                            const double *g, double *d) {
  double mean = 0;
  for (int i = 0; i < a->top_k; i++) mean += g[i] * score_of(a, s, x[chosen[i]]) / s->taken;
  for (int i = 0; i < a->top_k; i++)
    d[i] = (double)a->scale * (a->normed ? (g[i] - mean) / s->taken : g[i]);
}

/* Adds the auxiliary loss's gradient by the scores, and to *mean what the others' softmax takes of
 * it. */
static void balance_gradients(const RouteAttr *a, const Scores *s, int t, int experts,
                              const real *x, double *dx, double *mean) {
  const double n = balance_sequences(a->balance, t);
  for (int i = 0; i < experts; i++) {
    const double d = score_of(a, s, x[i]) * n * a->balance->slope[i];
    dx[i] += d;
    *mean += d;
  }
}

static void add_logit_gradients(const Job *j, size_t at, const double *dx) {
  for (int i = 0; i < experts_of(j->nd); i++) {
    real *to = j->dx + at + (size_t)i;
    *to = (real)(dx[i] + (j->add ? (double)*to : 0));
  }
}

/* part: [experts] of the token's chunk */
static void route_token_back(const Job *j, int t, double *part) {
  const Node *nd = j->nd;
  const RouteAttr *a = attr_of(nd);
  const int experts = experts_of(nd);
  const size_t at = (size_t)t * (size_t)experts, out = (size_t)t * 2 * (size_t)a->top_k;
  const real *x = nd->in[0]->data + at, *y = nd->out->data + out;
  int chosen[ROUTE_MAX_EXPERTS] = {0};
  double g[ROUTE_MAX_EXPERTS], d[ROUTE_MAX_EXPERTS], dx[ROUTE_MAX_EXPERTS] = {0}, mean = 0;
  for (int i = 0; i < a->top_k; i++) chosen[i] = (int)y[a->top_k + i];
  const Scores s = scores_of(a, experts, x, chosen);
  for (int i = 0; i < a->top_k; i++) {
    const double dy = (double)nd->out->grad[out + (size_t)i];
    g[i] = dy * factor_of(nd, chosen[i]);
    if (part) part[chosen[i]] += dy * weight_of(a, &s, x[chosen[i]]);
  }
  if (!j->dx) return;
  score_gradients(a, &s, x, chosen, g, d);
  for (int i = 0; i < a->top_k; i++) {
    const double score = score_of(a, &s, x[chosen[i]]);
    dx[chosen[i]] = score * d[i] * (a->sigmoid ? 1 - score : 1);
    mean += score * d[i];
  }
  if (a->balance) balance_gradients(a, &s, t, experts, x, dx, &mean);
  for (int i = 0; i < experts && !a->sigmoid; i++) dx[i] -= score_of(a, &s, x[i]) * mean;
  add_logit_gradients(j, at, dx);
}

static int end_of(const Node *nd, int chunk) {
  const int end = (chunk + 1) * TOKENS;
  return end < tokens_of(nd) ? end : tokens_of(nd);
}

/* The sums of a chunk, which are 0 so far; NULL: not wanted. */
static double *part_of(const Job *j, int chunk, size_t columns) {
  double *part = j->part ? j->part + (size_t)chunk * columns : NULL;
  if (part) memset(part, 0, columns * sizeof *part);
  return part;
}

static void forward_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Job *j = arg;
  double *part = part_of(j, chunk, 2 * (size_t)experts_of(j->nd));
  for (int t = chunk * TOKENS; t < end_of(j->nd, chunk); t++) route_token(j->nd, t, part);
}

static void backward_chunk(void *arg, int chunk, int worker) {
  (void)worker;
  const Job *j = arg;
  double *part = part_of(j, chunk, (size_t)experts_of(j->nd));
  for (int t = chunk * TOKENS; t < end_of(j->nd, chunk); t++) route_token_back(j, t, part);
}

static int chunks_of(const Node *nd) { return (tokens_of(nd) + TOKENS - 1) / TOKENS; }

/* The gradient of an expert's factor, from the chunks in their order. */
static void sum_factor(void *arg, int expert, int worker) {
  (void)worker;
  const Job *j = arg;
  double sum = j->add_factor ? (double)j->dfactor[expert] : 0;
  for (int i = 0; i < chunks_of(j->nd); i++) sum += j->part[i * experts_of(j->nd) + expert];
  j->dfactor[expert] = (real)sum;
}

static Status new_parts(const Ctx *cx, int columns, Job *j) {
  const size_t n = (size_t)chunks_of(j->nd) * (size_t)columns + 1;
  j->part = arena_alloc(cx->arena, n * sizeof *j->part);
  return j->part ? GRPO_OK : fail(GRPO_ENOMEM, "route: no memory for %d tokens", tokens_of(j->nd));
}

static Status forward(const Ctx *cx, Node *nd) {
  const ArenaMark mark = arena_mark(cx->arena);
  Balance *b = attr_of(nd)->balance;
  Job j = {.nd = nd};
  if (b && !b->ended) try(new_parts(cx, 2 * experts_of(nd), &j));
  pool_run(cx->pool, chunks_of(nd), forward_chunk, &j);
  if (j.part && !mem_measuring()) balance_add(b, tokens_of(nd), chunks_of(nd), j.part);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

static Status backward(const Ctx *cx, Node *nd) {
  const ArenaMark mark = arena_mark(cx->arena);
  Job j = {.nd = nd};
  if (wants_grad(nd->in[0])) j.dx = grad_into(nd->in[0], &j.add);
  if (wants_grad(nd->in[2])) {
    j.dfactor = grad_into(nd->in[2], &j.add_factor);
    try(new_parts(cx, experts_of(nd), &j));
  }
  pool_run(cx->pool, chunks_of(nd), backward_chunk, &j);
  if (j.part) pool_run(cx->pool, experts_of(nd), sum_factor, &j);
  arena_release(cx->arena, mark);
  return GRPO_OK;
}

DEFINE_OP(route, shape, forward, backward);
