#include "grad/recompute.h"

#include "base/mem.h"
#include "grad/ops.h"

typedef struct Recompute {
  Tape *tape;
  RecomputeFn fn;
  void *user;
} Recompute;

static Status check_shape(const Tensor *x, const Tensor *y) {
  bool same = x->ndim == y->ndim;
  for (int i = 0; same && i < x->ndim; i++) same = x->dim[i] == y->dim[i];
  if (same) return GRPO_OK;
  return fail(GRPO_ESHAPE, "recompute: the result has shape %s, want %s", shape_text(y).s,
              shape_text(x).s);
}

/* The second forward starts from a leaf that takes x's place and shares its gradient. */
static Status run_again(const Recompute *r, const Node *nd) {
  const int first = r->tape->n;
  Tensor *x = nd->in[0], *y, leaf = *x;
  leaf.grad_borrowed = false; /* x keeps its buffer */
  try(r->fn(r->user, r->tape, &leaf, &y));
  try(check_shape(x, y));
  if (y->needs_grad) try(tape_backward_since(r->tape, first, y, nd->out->grad));
  x->grad_live = leaf.grad_live;
  return GRPO_OK;
}

/* The others' buffers lie outside of what is dropped afterwards, so no node may exchange them. */
static void hold_buffers(const Node *nd, bool hold) {
  for (int i = 1; i <= RECOMPUTE_OTHERS; i++)
    if (wants_grad(nd->in[i])) nd->in[i]->grad_borrowed = !hold;
}

static Status backward(const Ctx *cx, Node *nd) {
  (void)cx;
  const Recompute *r = nd->attr.p;
  Tape *t = r->tape;
  const int first = t->n;
  const ArenaMark mark = arena_mark(&t->arena);
  real *const transient = t->transient;
  const size_t transient_n = t->transient_n;
  hold_buffers(nd, true);
  const Status s = run_again(r, nd);
  hold_buffers(nd, false);
  t->n = first;
  t->transient = transient;
  t->transient_n = transient_n;
  arena_release(&t->arena, mark);
  return s;
}

static const OpDef op_recompute = {
    .name = "recompute", .nin = 1 + RECOMPUTE_OTHERS, .cpu = {.backward = backward}};

static Status run_unrecorded(Tape *t, const Recompute *r, Tensor *x, Tensor *out) {
  const ArenaMark mark = arena_mark(&t->arena);
  const bool off = t->off;
  Tensor *y;
  t->off = true;
  const Status s = r->fn(r->user, t, x, &y);
  t->off = off;
  try(s);
  try(check_shape(x, y));
  mem_copy(out->data, y->data, y->n * sizeof *y->data);
  arena_release(&t->arena, mark);
  return GRPO_OK;
}

Status tape_recompute(Tape *t, RecomputeFn fn, void *user, Tensor *x,
                      Tensor *const others[RECOMPUTE_OTHERS], Tensor **out) {
  Recompute *r = arena_alloc(&t->arena, sizeof *r);
  Node *nd = arena_alloc(&t->arena, sizeof *nd);
  Tensor *y;
  if (!r || !nd) return fail(GRPO_ENOMEM, "recompute: no memory for a node");
  *r = (Recompute){t, fn, user};
  try(tape_tensor(t, x->ndim, x->dim, &y));
  try(run_unrecorded(t, r, x, y));
  if (!t->off) {
    *nd = (Node){
        .op = &op_recompute, .kernel = &op_recompute.cpu, .attr = {.p = r}, .in = {x}, .out = y};
    for (int i = 0; i < RECOMPUTE_OTHERS; i++) nd->in[i + 1] = others[i];
    y->needs_grad = true;
    try(tape_record(t, nd));
  }
  *out = y;
  return GRPO_OK;
}
