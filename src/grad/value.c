#include "grad/value.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "grad/op_table.h"

typedef struct Kept {
  struct Kept *next;
  void *memory;
} Kept;

typedef struct Custom {
  Status (*backward)(void *user, const real *dout);
  void *user;
  void (*free_user)(void *);
} Custom;

struct Value {
  Tensor own, *t; /* t: own, or the tensor that value_wrap was given */
  int refs;
  int depth;            /* greater than that of every input */
  Node node;            /* op == NULL: not the result of a recorded operation */
  Value *in[OP_MAX_IN]; /* held while the graph lives */
  Custom custom;
  Kept *kept;
  void *attr;  /* copy of Attr.p */
  bool spent;  /* its graph was run and freed */
  size_t seen; /* during a walk: 1 + its place in the order of discovery */
  Value *next; /* during a walk or a release */
};

/* ---- life ---------------------------------------------------------------------- */

static Status value_alloc(Value **out) {
  Value *v = mem_zalloc(sizeof *v);
  if (!v) return fail(GRPO_ENOMEM, "no memory for a tensor");
  v->refs = 1;
  v->t = &v->own;
  *out = v;
  return GRPO_OK;
}

static Status alloc_own(Value *v) {
  if (tensor_fits(v->own.ndim, v->own.dim))
    v->own.data = mem_alloc_aligned(v->own.n * sizeof(real));
  if (v->own.data) return GRPO_OK;
  return fail(GRPO_ENOMEM, "no memory for a tensor of shape %s", shape_text(&v->own).s);
}

Status value_new(Value **out, int ndim, const int *dim) {
  Value *v = NULL;
  if (ndim < 0 || ndim > TENSOR_DIMS)
    return fail(GRPO_ESHAPE, "a tensor of %d dimensions, want at most %d", ndim, TENSOR_DIMS);
  for (int i = 0; i < ndim; i++)
    if (dim[i] < 0) return fail(GRPO_ESHAPE, "a tensor's dimension %d is %d", i + 1, dim[i]);
  try(value_alloc(&v));
  v->own = tensor_view(NULL, ndim, dim);
  const Status s = alloc_own(v);
  if (s != GRPO_OK) {
    mem_free(v);
    return s;
  }
  memset(v->own.data, 0, v->own.n * sizeof(real));
  *out = v;
  return GRPO_OK;
}

Status value_wrap(Value **out, Tensor *t) {
  try(value_alloc(out));
  (*out)->t = t;
  return GRPO_OK;
}

Value *value_retain(Value *v) {
  v->refs++;
  return v;
}

Tensor *value_tensor(Value *v) { return v->t; }

size_t value_bytes(const Value *v) {
  if (v->t != &v->own) return sizeof *v;
  return sizeof *v + v->own.n * sizeof(real) * (v->own.grad ? 2 : 1);
}

Status value_keep(Value *v, void *memory) {
  Kept *k = mem_alloc(sizeof *k);
  if (!k) return fail(GRPO_ENOMEM, "no memory for a tensor");
  *k = (Kept){v->kept, memory};
  v->kept = k;
  return GRPO_OK;
}

void value_on_free(Value *v, void *user, void (*free_user)(void *)) {
  v->custom = (Custom){NULL, user, free_user};
}

/* Releases what v needs for a backward; inputs that nobody else holds join the list *dead. */
static void leave_graph(Value *v, Value **dead) {
  for (int i = 0; i < OP_MAX_IN; i++) {
    Value *in = v->in[i];
    v->in[i] = NULL;
    if (!in || --in->refs > 0) continue;
    in->next = *dead;
    *dead = in;
  }
  if (v->custom.free_user) v->custom.free_user(v->custom.user);
  mem_free(v->attr);
  mem_free_aligned(v->node.saved);
  v->node = (Node){0};
  v->custom = (Custom){0};
  v->attr = NULL;
}

static void free_kept(Kept *k) {
  while (k) {
    Kept *next = k->next;
    mem_free(k->memory);
    mem_free(k);
    k = next;
  }
}

/* Graphs may be long, so this is a list instead of recursion. */
static void free_all(Value *dead) {
  while (dead) {
    Value *v = dead;
    dead = v->next;
    leave_graph(v, &dead);
    free_kept(v->kept);
    mem_free_aligned(v->own.data);
    mem_free_aligned(v->own.grad);
    mem_free(v);
  }
}

void value_release(Value *v) {
  if (!v || --v->refs > 0) return;
  v->next = NULL;
  free_all(v);
}

/* ---- operations ------------------------------------------------------------------ */

static Status copy_attr(Value *v, size_t bytes) {
  if (!v->node.attr.p || !bytes) return GRPO_OK;
  if (!(v->attr = mem_alloc(bytes))) return fail(GRPO_ENOMEM, "no memory for attributes");
  memcpy(v->attr, v->node.attr.p, bytes);
  v->node.attr.p = v->attr;
  return GRPO_OK;
}

static Status compute(const Ctx *cx, Value *v, size_t saved, size_t attr_bytes) {
  const ArenaMark mark = arena_mark(cx->arena);
  try(alloc_own(v));
  if (saved && !(v->node.saved = mem_alloc_aligned(saved)))
    return fail(GRPO_ENOMEM, "%s: no memory for %zu MiB that backward needs", v->node.op->name,
                saved >> 20);
  try(copy_attr(v, attr_bytes));
  const Status s = v->node.kernel->forward(cx, &v->node);
  arena_release(cx->arena, mark);
  return s;
}

static Status apply(const Ctx *cx, Value *v, OpId op, Value *const in[], const Attr *attr,
                    size_t attr_bytes, bool record) {
  const OpDef *def = op_table[op];
  Tensor *tensors[OP_MAX_IN] = {NULL};
  size_t saved = 0;
  for (int i = 0; i < def->nin; i++) {
    if (in[i] && in[i]->depth >= v->depth) v->depth = in[i]->depth + 1;
    if (in[i] && in[i]->spent && record && in[i]->t->needs_grad)
      return fail(GRPO_EARG,
                  "%s: input %d belongs to a graph that backward() has freed; use "
                  ":detach() or compute it again",
                  def->name, i + 1);
    tensors[i] = in[i] ? in[i]->t : NULL;
  }
  try(op_begin(cx, def, tensors, attr, record, &v->node, &v->own, &saved));
  return compute(cx, v, saved, attr_bytes);
}

Status value_apply(const Ctx *cx, OpId op, Value *const in[], const Attr *attr, size_t attr_bytes,
                   bool record, Value **out) {
  Value *v = NULL;
  try(value_alloc(&v));
  const Status s = apply(cx, v, op, in, attr, attr_bytes, record);
  if (s != GRPO_OK) {
    value_release(v);
    return s;
  }
  if (v->own.needs_grad)
    for (int i = 0; i < v->node.op->nin; i++) v->in[i] = in[i] ? value_retain(in[i]) : NULL;
  else
    leave_graph(v, NULL); /* nothing will read what forward saved */
  *out = v;
  return GRPO_OK;
}

Status value_custom(Value **out, int ndim, const int *dim, const real *data,
                    Status (*backward)(void *user, const real *dout), void *user,
                    void (*free_user)(void *)) {
  try(value_new(out, ndim, dim));
  memcpy((*out)->own.data, data, (*out)->own.n * sizeof *data);
  (*out)->own.needs_grad = backward;
  (*out)->custom = (Custom){backward, user, free_user};
  return GRPO_OK;
}

/* ---- backward ---------------------------------------------------------------------- */

static bool has_graph(const Value *v) { return v->node.op || v->custom.backward; }

static Status want_grad(Value *v) {
  if (!v || !v->t->needs_grad || v->t->grad) return GRPO_OK;
  if (v->t != &v->own) return fail(GRPO_EARG, "backward: a parameter has no gradient buffer");
  v->own.grad = mem_alloc_aligned(v->own.n * sizeof(real));
  v->own.grad_live = false;
  if (v->own.grad) return GRPO_OK;
  return fail(GRPO_ENOMEM, "backward: no memory for a gradient of shape %s", shape_text(&v->own).s);
}

typedef struct Walk {
  Value **list;
  size_t n, cap;
} Walk;

static Status walk_push(Walk *w, Value *v) {
  if (!v || v->seen || !has_graph(v)) return GRPO_OK;
  if (w->n == w->cap) {
    const size_t cap = w->cap ? 2 * w->cap : 64;
    Value **grown = mem_realloc(w->list, cap * sizeof *grown);
    if (!grown) return fail(GRPO_ENOMEM, "backward: no memory to walk the graph");
    w->list = grown;
    w->cap = cap;
  }
  w->list[w->n++] = v;
  v->seen = w->n;
  return GRPO_OK;
}

/* Orders every value before its inputs; the order of discovery decides between equals. */
static int deepest_first(const void *pa, const void *pb) {
  const Value *a = *(Value *const *)pa, *b = *(Value *const *)pb;
  if (a->depth != b->depth) return a->depth > b->depth ? -1 : 1;
  return a->seen < b->seen ? -1 : a->seen > b->seen;
}

static Status collect(Walk *w, Value *loss) {
  try(walk_push(w, loss));
  for (size_t i = 0; i < w->n; i++)
    for (int k = 0; k < OP_MAX_IN; k++) try(walk_push(w, w->list[i]->in[k]));
  qsort(w->list, w->n, sizeof *w->list, deepest_first);
  return GRPO_OK;
}

static Status backward_one(const Ctx *cx, Value *v) {
  const ArenaMark mark = arena_mark(cx->arena);
  if (!v->own.grad_live) return GRPO_OK;
  if (v->custom.backward) return v->custom.backward(v->custom.user, v->own.grad);
  for (int i = 0; i < OP_MAX_IN; i++) try(want_grad(v->in[i]));
  const Status s = v->node.kernel->backward(cx, &v->node);
  arena_release(cx->arena, mark);
  return s;
}

static Status run(const Ctx *cx, Walk *w, Value *loss) {
  try(collect(w, loss));
  try(want_grad(loss));
  grad_added(loss->t)[0] += 1;
  for (size_t i = 0; i < w->n; i++) try(backward_one(cx, w->list[i]));
  return GRPO_OK;
}

/* The list holds its values meanwhile, so that none is freed while another can still name it. */
static void free_graph(Walk *w) {
  Value *dead = NULL;
  for (size_t i = 0; i < w->n; i++) value_retain(w->list[i]);
  for (size_t i = 0; i < w->n; i++) {
    Value *v = w->list[i];
    v->seen = 0;
    v->spent = true;
    leave_graph(v, &dead);
    mem_free_aligned(v->own.grad);
    v->own.grad = NULL;
    v->own.grad_live = false;
  }
  free_all(dead);
  for (size_t i = 0; i < w->n; i++) value_release(w->list[i]);
}

Status value_backward(const Ctx *cx, Value *loss) {
  Walk w = {0};
  if (loss->spent)
    return fail(GRPO_EARG, "backward: this graph was already used and freed; compute it again");
  if (loss->t->n != 1)
    return fail(GRPO_ESHAPE,
                "backward: the loss must be a single number, but its shape is %s; sum() it first",
                shape_text(loss->t).s);
  if (!loss->t->needs_grad)
    return fail(GRPO_EARG, "backward: the result depends on nothing that needs a gradient");
  value_retain(loss);
  const Status s = run(cx, &w, loss);
  free_graph(&w);
  mem_free(w.list);
  value_release(loss);
  return s;
}
