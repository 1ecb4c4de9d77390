#include "grad/tape.h"

#include "base/mem.h"
#include "base/progress.h"
#include "grad/op_table.h"

/* ---- the tape --------------------------------------------------------------- */

Status tape_init(Tape *t, Pool *pool) {
  *t = (Tape){.cx = {.pool = pool}};
  t->cx.arena = &t->arena;
  return GRPO_OK;
}

void tape_reset(Tape *t) {
  t->n = 0;
  t->transient = NULL;
  t->transient_n = 0;
  arena_reset(&t->arena);
}

void tape_free(Tape *t) {
  mem_free(t->node);
  arena_free(&t->arena);
  *t = (Tape){0};
}

static Status alloc_data(Tape *t, Tensor *y, const char *what) {
  y->data = arena_alloc(&t->arena, y->n * sizeof(real));
  if (y->data) return GRPO_OK;
  return fail(GRPO_ENOMEM, "%s: no memory for a result of shape %s", what, shape_text(y).s);
}

Status tape_tensor(Tape *t, int ndim, const int *dim, Tensor **out) {
  Tensor *y = arena_alloc(&t->arena, sizeof *y);
  if (!y) return fail(GRPO_ENOMEM, "tape: no memory for a tensor");
  *y = tensor_view(NULL, ndim, dim);
  if (!tensor_fits(ndim, dim))
    return fail(GRPO_ENOMEM, "tape: no memory for a tensor of shape %s", shape_text(y).s);
  try(alloc_data(t, y, "tape"));
  *out = y;
  return GRPO_OK;
}

static Status room_for_node(Tape *t) {
  if (t->n < t->cap) return GRPO_OK;
  const int cap = t->cap ? 2 * t->cap : 256;
  Node **grown = mem_realloc(t->node, (size_t)cap * sizeof *grown);
  if (!grown) return fail(GRPO_ENOMEM, "tape: no memory for %d nodes", cap);
  t->node = grown;
  t->cap = cap;
  return GRPO_OK;
}

Status tape_record(Tape *t, Node *nd) {
  try(room_for_node(t));
  t->node[t->n++] = nd;
  return GRPO_OK;
}

/* Where a result is placed: in the memory of an input (>= 0), in memory of its own, or in the
 * memory that all transient results share. */
enum { OWN = -1, TRANSIENT = -2 };

static Status share_data(Tape *t, Node *nd) {
  Tensor *y = nd->out;
  if (t->transient_n < y->n) {
    try(alloc_data(t, y, nd->op->name));
    t->transient = y->data;
    t->transient_n = y->n;
  }
  y->data = t->transient;
  y->again = nd;
  return GRPO_OK;
}

static Status place_data(Tape *t, Node *nd, int where) {
  if (where == TRANSIENT && !t->off) return share_data(t, nd);
  if (where < 0) return alloc_data(t, nd->out, nd->op->name);
  if (nd->in[where]->n != nd->out->n)
    return fail(GRPO_ESHAPE,
                "%s: the result and input %d differ in size, so it cannot be computed in place",
                nd->op->name, where + 1);
  nd->out->data = nd->in[where]->data;
  return GRPO_OK;
}

/* Computes the result, or takes a recorded one. */
static Status forward(Tape *t, Node *nd) {
  Replay *r = nd->op->replay ? t->replay : NULL;
  if (r && r->take) return replay_take(&t->cx, r, nd);
  try(progress_reached(NULL, 0, 0));
  try(nd->kernel->forward(&t->cx, nd));
  if (t->look) try(t->look(t->look_user, t, nd, t->n, false));
  return r ? replay_record(&t->cx, r, nd) : GRPO_OK;
}

static Status apply(Tape *t, OpId op, Tensor *const in[], const Attr *attr, int where,
                    Tensor **out) {
  size_t saved = 0;
  Tensor *y = arena_alloc(&t->arena, sizeof *y);
  Node *nd = arena_alloc(&t->arena, sizeof *nd);
  if (!y || !nd) return fail(GRPO_ENOMEM, "%s: no memory for a node", op_table[op]->name);
  try(op_begin(&t->cx, op_table[op], in, attr, !t->off, nd, y, &saved));
  try(room_for_node(t));
  try(place_data(t, nd, where));
  const ArenaMark result = arena_mark(&t->arena);
  if (saved && !(nd->saved = arena_alloc(&t->arena, saved)))
    return fail(GRPO_ENOMEM, "%s: no memory for %zu MiB that backward needs", nd->op->name,
                saved >> 20);
  try(forward(t, nd));
  if (y->needs_grad)
    t->node[t->n++] = nd; /* recorded only now that nothing can fail */
  else
    arena_release(&t->arena, result); /* nothing will read what forward saved */
  *out = y;
  return GRPO_OK;
}

static Status apply_or_forget(Tape *t, OpId op, Tensor *const in[], const Attr *attr, int where,
                              Tensor **out) {
  const ArenaMark before = arena_mark(&t->arena);
  real *const transient = t->transient;
  const size_t transient_n = t->transient_n;
  const Status s = apply(t, op, in, attr, where, out);
  if (s == GRPO_OK) return s;
  arena_release(&t->arena, before);
  t->transient = transient;
  t->transient_n = transient_n;
  return s;
}

Status tape_apply(Tape *t, OpId op, Tensor *const in[], const Attr *attr, Tensor **out) {
  return apply_or_forget(t, op, in, attr, OWN, out);
}

Status tape_apply_transient(Tape *t, OpId op, Tensor *const in[], const Attr *attr, Tensor **out) {
  return apply_or_forget(t, op, in, attr, TRANSIENT, out);
}

Status tape_apply_over(Tape *t, OpId op, Tensor *const in[], const Attr *attr, int over,
                       Tensor **out) {
  return apply_or_forget(t, op, in, attr, over, out);
}

/* ---- gradients --------------------------------------------------------------- */

/* Gradient buffers that backward has finished with; the next gradient of the same size takes
 * one, so that a few buffers stay in the CPU's cache.  The list is threaded through the buffers. */
typedef struct Spare {
  struct Spare *next;
  size_t n;
} Spare;

static real *take_spare(Spare **spares, size_t n) {
  for (Spare **link = spares; *link; link = &(*link)->next) {
    if ((*link)->n != n) continue;
    Spare *s = *link;
    *link = s->next;
    return (real *)(void *)s;
  }
  return NULL;
}

static Status want_grad(Tape *t, Tensor *x, Spare **spares) {
  if (!wants_grad(x) || x->grad) return GRPO_OK;
  const size_t bytes = x->n * sizeof(real);
  x->grad = take_spare(spares, x->n);
  if (!x->grad) x->grad = arena_alloc(&t->arena, bytes < sizeof(Spare) ? sizeof(Spare) : bytes);
  x->grad_live = false;
  x->grad_borrowed = true;
  if (x->grad) return GRPO_OK;
  return fail(GRPO_ENOMEM, "backward: no memory for a gradient of shape %s", shape_text(x).s);
}

/* Passes the gradient of a node's output on to its inputs and drops it, so that a second backward
 * through the same nodes passes on only what is new. */
static Status backward_node(Tape *t, int at, Spare **spares) {
  Node *nd = t->node[at];
  if (!nd->out->grad_live) return GRPO_OK; /* not on a path to the loss */
  try(progress_reached(NULL, 0, 0));
  for (int i = 0; i < nd->op->nin; i++) try(want_grad(t, nd->in[i], spares));
  try(nd->kernel->backward(&t->cx, nd));
  if (t->look) try(t->look(t->look_user, t, nd, at, true));
  Spare *s = (Spare *)(void *)nd->out->grad;
  *s = (Spare){*spares, nd->out->n};
  *spares = s;
  nd->out->grad = NULL;
  nd->out->grad_live = false;
  return GRPO_OK;
}

Status tape_seed(Tape *t, Tensor *out, const real *seed) {
  Spare *spares = NULL;
  if (!out->needs_grad)
    return fail(GRPO_EARG, "backward: the result depends on nothing that needs a gradient");
  try(want_grad(t, out, &spares));
  real *g = grad_added(out);
  for (size_t i = 0; i < out->n; i++) g[i] += seed[i];
  return GRPO_OK;
}

Status tape_backward_since(Tape *t, int first, Tensor *out, const real *seed) {
  Spare *spares = NULL;
  try(tape_seed(t, out, seed));
  for (int i = t->n; i-- > first;) try(backward_node(t, i, &spares));
  return GRPO_OK;
}

Status tape_backward_from(Tape *t, Tensor *out, const real *seed) {
  return tape_backward_since(t, 0, out, seed);
}

Status tape_backward(Tape *t, Tensor *loss) {
  const real one = 1;
  if (loss->n != 1)
    return fail(GRPO_ESHAPE,
                "backward: the loss must be a single number, but its shape is %s; sum() it first",
                shape_text(loss).s);
  return tape_backward_from(t, loss, &one);
}
