#include "rl/nonfinite.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/forward.h"
#include "model/forward_logits.h"

static const char *const lower = "lower train.lr or train.max_grad_norm";
static const char *const go_back =
    "it was loaded so or an earlier step has spoilt it; load a sound copy of the model, or go back "
    "to a checkpoint before that step, with a lower train.lr";

/* The place of the first number that is not finite; n: none is. */
static size_t first_nonfinite(const real *x, size_t n) {
  size_t i = 0;
  while (i < n && isfinite((double)x[i])) i++;
  return i;
}

double nonfinite_shown(double x) { return isnan(x) ? fabs(x) : x; }

/* ---- parameters ------------------------------------------------------------------ */

static Param *param_in(Model *m, const Tensor *x) {
  for (int i = 0; m && i < model_num_params(m); i++)
    if (&model_param(m, i)->t == x) return model_param(m, i);
  return NULL;
}

/* Owns x: the policy, PPO's own critic, or the reference. */
static Param *param_of(const Nonfinite *n, const Tensor *x) {
  Param *p = param_in(n->e->policy, x);
  if (!p && n->e->critic) p = param_in(critic_trunk(n->e->critic), x);
  return p ? p : param_in(n->e->reference, x);
}

static const char *name_of(const Nonfinite *n, const Tensor *x) {
  const Param *p = param_of(n, x);
  if (p) return p->name;
  return n->e->critic && x == critic_head(n->e->critic) ? "score.weight" : NULL;
}

/* The name of a node's first parameter, which is its weight; NULL: it has none. */
static const char *param_name(const Nonfinite *n, const Node *nd) {
  const char *name = NULL;
  for (int i = 0; !name && i < nd->op->nin; i++) name = nd->in[i] ? name_of(n, nd->in[i]) : NULL;
  return name;
}

/* Returns the name of the first of these parameters that is not finite itself; NULL: all are. */
static const char *first_spoilt(const Nonfinite *n, int count, Tensor *const *x) {
  for (int i = 0; i < count; i++) {
    const Param *p = x[i] ? param_of(n, x[i]) : NULL;
    if (p && !param_is_finite(&n->tape->cx, p)) return p->name;
  }
  return NULL;
}

/* The first such parameter of a node; those of experts are not among its inputs. */
static const char *spoilt_param(const Nonfinite *n, const Node *nd) {
  const char *name = first_spoilt(n, nd->op->nin, nd->in);
  if (name || nd->op->id != OP_experts) return name;
  const ExpertsAttr *a = nd->attr.p;
  return first_spoilt(n, a->experts * EXPERT_PARTS, a->weight);
}

/* "model.layers.3", for an operation without a parameter, from the last parameter before it. */
static void write_layer(const Nonfinite *n, const Tape *t, int at, char *out, size_t size) {
  const char *name = NULL;
  while (!name && --at >= 0) name = param_name(n, t->node[at]);
  snprintf(out, size, "%s", name ? name : n->layer);
  char *digit = out + strcspn(out, "0123456789");
  if (*digit) digit[strspn(digit, "0123456789")] = 0;
}

/* ---- samples --------------------------------------------------------------------- */

static const Completion *completion_of(const Nonfinite *n, int i) {
  return &n->b->completion[n->unit->first + i];
}

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
put_place(Nonfinite *n, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(n->place, sizeof n->place, fmt, ap);
  va_end(ap);
}

static void place_of_completion(Nonfinite *n, int i, int token) {
  const int at = n->unit->first + i;
  put_place(n, " at prompt %d, completion %d, token %d", at / n->b->group + 1, at % n->b->group + 1,
            token + 1);
}

/* token: of the unit's completions */
static void place_of_token(Nonfinite *n, int token) {
  for (int i = 0; i < n->unit->n; token -= completion_of(n, i++)->len)
    if (token < completion_of(n, i)->len) {
      place_of_completion(n, i, token);
      return;
    }
}

static void place_of_unit(Nonfinite *n) {
  if (n->b)
    put_place(n, " at prompt %d", n->unit->first / n->b->group + 1);
  else if (n->unit->n == 1)
    put_place(n, " at example %d", n->unit->first + 1);
  else
    put_place(n, " in examples %d to %d", n->unit->first + 1, n->unit->first + n->unit->n);
}

static int rows_of(const Nonfinite *n, int i) {
  const int len = completion_of(n, i)->len;
  return len - 1 + (len < n->end_below);
}

static int prompt_rows(const Nonfinite *n) {
  return n->b->prompt_len[n->unit->first / n->b->group];
}

static int unit_rows(const Nonfinite *n) {
  int rows = prompt_rows(n);
  for (int i = 0; i < n->unit->n; i++) rows += rows_of(n, i);
  return rows;
}

/* Rows: the prompt's tokens, then those of each completion (pack.h). */
static void place_of_row(Nonfinite *n, int row) {
  int i = 0, at = row - prompt_rows(n);
  for (; i < n->unit->n && at >= rows_of(n, i); i++) at -= rows_of(n, i);
  if (at < 0)
    put_place(n, " at prompt %d, its token %d", n->unit->first / n->b->group + 1, row + 1);
  else
    place_of_completion(n, i, at);
}

static void place_of_example(Nonfinite *n, int row) {
  int example = -1, first = 0;
  for (int i = 0; i < n->pack->nspans && n->pack->spans[i].row <= row; i++)
    if (n->pack->spans[i].prefix < 0) example++, first = n->pack->spans[i].row;
  put_place(n, " at example %d, its token %d", n->unit->first + example + 1, row - first + 1);
}

/* The sample of element i of a tensor: rows and tokens are told apart by the sizes. */
static void find_place(Nonfinite *n, const Tensor *x, size_t i) {
  const int first = x->ndim ? x->dim[0] : 0;
  const size_t width = first ? x->n / (size_t)first : 1;
  n->place[0] = 0;
  if (!n->unit) return;
  if (n->b && first == unit_rows(n))
    place_of_row(n, (int)(i / width));
  else if (n->b && first <= 3 && width == (size_t)n->unit->tokens)
    place_of_token(n, (int)(i % width));
  else if (n->b && first == n->unit->tokens)
    place_of_token(n, (int)(i / width));
  else if (!n->b && n->pack && first == n->pack->nrows)
    place_of_example(n, (int)(i / width));
  else
    place_of_unit(n);
}

/* ---- what is found ----------------------------------------------------------------- */

/* Element i of x, whose numbers are `data`: the node's result, or the gradient of an input. */
static Status write_down(Nonfinite *n, const Tape *t, const Node *nd, int at, const Tensor *x,
                         const real *data, size_t i) {
  char layer[LORA_NAME_BYTES], of[LORA_NAME_BYTES + 8] = "";
  const char *name = param_name(n, nd), *spoilt = spoilt_param(n, nd);
  const bool backward = x != nd->out;
  if (!name) write_layer(n, t, at, layer, sizeof layer);
  if (backward && name_of(n, x)) snprintf(of, sizeof of, " of %s", name_of(n, x));
  find_place(n, x, i);
  snprintf(n->found, sizeof n->found, "the first such value is the %s%s %s %s (%s)%s: %g%s%s%s",
           backward ? "gradient" : "result", of, backward ? "in" : "of", nd->op->name,
           name ? name : layer, n->place, nonfinite_shown((double)data[i]),
           spoilt ? ", because " : "", spoilt ? spoilt : "",
           spoilt ? " itself holds such values" : "");
  n->advice = spoilt ? go_back : lower;
  return fail(GRPO_EDIVERGED, "%s", n->found);
}

static Status look_forward(Nonfinite *n, const Tape *t, const Node *nd, int at) {
  const Tensor *y = nd->out;
  const char *name = param_name(n, nd);
  const size_t i = first_nonfinite(y->data, y->n);
  if (name) snprintf(n->layer, sizeof n->layer, "%s", name);
  return i < y->n ? write_down(n, t, nd, at, y, y->data, i) : GRPO_OK;
}

static Status look_backward(Nonfinite *n, const Tape *t, const Node *nd, int at) {
  for (int k = 0; k < nd->op->nin; k++) {
    const Tensor *x = nd->in[k];
    if (!x || !x->grad || !x->grad_live) continue;
    const size_t i = first_nonfinite(x->grad, x->n);
    if (i < x->n) return write_down(n, t, nd, at, x, x->grad, i);
  }
  return GRPO_OK;
}

static Status look(void *user, const Tape *t, const Node *nd, int at, bool backward) {
  return backward ? look_backward(user, t, nd, at) : look_forward(user, t, nd, at);
}

void nonfinite_begin(Nonfinite *n, Engine *e, const Batch *b) {
  *n = (Nonfinite){.e = e, .tape = &e->tape, .b = b, .advice = lower};
  n->tape->look = look;
  n->tape->look_user = n;
}

void nonfinite_end(Nonfinite *n) {
  n->tape->look = NULL;
  n->tape->look_user = NULL;
}

bool nonfinite_tokens(Nonfinite *n, const Unit *unit, const real *x, const real *mask,
                      const char *what, const char *advice) {
  for (int t = unit->token0; x && t < unit->token0 + unit->tokens; t++) {
    if (isfinite((double)x[t]) || (mask && mask[t] == 0)) continue;
    n->unit = unit;
    place_of_token(n, t - unit->token0);
    snprintf(n->found, sizeof n->found, "the first such value is %s%s: %g", what, n->place,
             nonfinite_shown((double)x[t]));
    if (advice) n->advice = advice;
    return true;
  }
  return false;
}

/* ---- sampling ----------------------------------------------------------------------- */

/* Repeats the forward of the rows that the decoder has computed; a last token is never a row. */
static Status forward_completion(Engine *e, const Batch *b, const Unit *unit) {
  Tensor *hidden, *out;
  Pack p;
  tape_reset(&e->tape);
  try(unit_pack_batch(&e->tape.arena, model_config(e->policy), b, unit, 0, &p));
  try(forward_hidden(e->policy, &e->tape, &p, &hidden));
  return forward_logp(e->policy, &e->tape, &p, hidden, b->temperature, NULL, NULL, &out);
}

Status nonfinite_rollout(Engine *e, Batch *b, int slot, const Completion *c, const char *when) {
  Nonfinite n;
  const int first = slot * b->group + c->sample, token = c->len;
  const Unit unit = {
      .first = first, .n = 1, .rows = b->prompt_len[slot] + token, .tokens = token + 1};
  c->ids[token] = 0; /* in place of the one that could not be sampled */
  b->completion[first].len = token + 1;
  nonfinite_begin(&n, e, b);
  n.unit = &unit;
  e->tape.off = true;
  forward_completion(e, b, &unit);
  e->tape.off = false;
  nonfinite_end(&n);
  return fail(
      GRPO_EDIVERGED,
      "training diverged %s: the logits for prompt %d, completion %d, token %d are not finite, "
      "so nothing was sampled; %s%s%s",
      when, slot + 1, c->sample + 1, token + 1, n.found, n.found[0] ? "; " : "", n.advice);
}
