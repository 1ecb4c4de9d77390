#include "check.h"

#include "base/arena.h"

static Tape tape;
static Arena leaves;
static unsigned long long stream;

static void begin(void) {
  if (!tape.cx.arena) tape_init(&tape, NULL);
  arena_reset(&leaves);
  stream = 88172645463325252ull;
}

#define OP(name, inputs, attributes)                                                               \
  TEST(gradient_of_##name##_agrees_with_differences) {                                             \
    begin();                                                                                       \
    check_##name();                                                                                \
  }
#include "grad/op_table.h"
#include "grad/ops.def"
#undef OP

/* ---- leaves ---------------------------------------------------------------------- */

Tape *check_tape(void) { return &tape; }
void *check_alloc(size_t bytes) { return arena_zalloc(&leaves, bytes); }

double check_random(double low, double high) {
  stream ^= stream << 13;
  stream ^= stream >> 7;
  stream ^= stream << 17;
  return low + (high - low) * (double)(stream >> 11) * 0x1p-53;
}

Tensor *check_leaf(double low, double high, const int *dims) {
  Tensor *t = check_alloc(sizeof *t);
  int ndim = 0;
  while (dims[ndim] >= 0) ndim++;
  *t = tensor_view(NULL, ndim, dims);
  t->data = check_alloc(t->n * sizeof(real));
  t->grad = check_alloc(t->n * sizeof(real));
  t->needs_grad = true;
  for (size_t i = 0; i < t->n; i++) t->data[i] = (real)check_random(low, high);
  return t;
}

Tensor *check_constant(Tensor *t) {
  t->needs_grad = false;
  return t;
}

/* ---- the comparison ------------------------------------------------------------------ */

typedef struct Case {
  const char *file;
  int line;
  OpId op;
  Tensor *const *in;
  const Attr *attr;
  const real *u; /* weights of the outputs */
} Case;

static Tensor *apply(const Case *c, bool record) {
  Tensor *out = NULL;
  tape_reset(&tape);
  tape.off = !record;
  if (tape_apply(&tape, c->op, c->in, c->attr, &out) != GRPO_OK)
    test_fail(c->file, c->line, "%s", err_message());
  return out;
}

static double weighted(const Case *c) {
  const Tensor *out = apply(c, false);
  double s = 0;
  for (size_t i = 0; out && i < out->n; i++) s += out->data[i] * c->u[i];
  return s;
}

static void backward(const Case *c) {
  Tensor *out = apply(c, true);
  if (out && tape_backward_from(&tape, out, c->u) != GRPO_OK)
    test_fail(c->file, c->line, "%s", err_message());
}

static void forget_gradients(const Case *c) {
  for (int k = 0; k < op_table[c->op]->nin; k++)
    if (c->in[k]) c->in[k]->grad_live = false;
}

static double largest(const real *x, size_t n) {
  double top = 0;
  for (size_t i = 0; i < n; i++) top = fabs(x[i]) > top ? fabs(x[i]) : top;
  return top;
}

static void expect(const Case *c, const char *what, int k, size_t i, double got, double want,
                   double tolerance) {
  if (!(fabs(got - want) <= tolerance))
    test_fail(c->file, c->line, "%s: input %d, element %zu: %s gives %.12g, want %.12g",
              op_table[c->op]->name, k, i, what, got, want);
}

static void check_leaf_of(const Case *c, int k, Tensor *x) {
  const double h = 1e-5, scale = fmax(largest(x->grad, x->n), 1e-2);
  if (!x->grad_live && x->n)
    test_fail(c->file, c->line, "%s: input %d got no gradient", op_table[c->op]->name, k);
  for (size_t i = 0; i < x->n; i++) {
    const real at = x->data[i];
    x->data[i] = at + h;
    const double up = weighted(c);
    x->data[i] = at - h;
    const double down = weighted(c);
    x->data[i] = at;
    expect(c, "backward", k, i, x->grad[i], (up - down) / (2 * h), 1e-6 * scale);
  }
}

/* Two passes give twice the gradient; an input gets the same one if no other input needs any. */
static void check_rules(const Case *c, int k) {
  Tensor *x = c->in[k];
  bool needed[OP_MAX_IN];
  const int nin = op_table[c->op]->nin;
  const double tolerance = 1e-12 * fmax(1, largest(x->grad, x->n));
  real *once = check_alloc(x->n * sizeof *once);
  memcpy(once, x->grad, x->n * sizeof *once);
  for (int i = 0; i < nin; i++) {
    needed[i] = c->in[i] && c->in[i]->needs_grad;
    if (c->in[i] && c->in[i] != x) c->in[i]->needs_grad = false;
  }
  backward(c);
  for (size_t i = 0; i < x->n; i++)
    expect(c, "a second pass", k, i, x->grad[i], 2 * once[i], tolerance);
  for (int i = 0; i < nin; i++)
    if (c->in[i]) c->in[i]->needs_grad = needed[i];
  memcpy(x->grad, once, x->n * sizeof *once);
}

/* Runs the operation backward once, from random gradients of its result. */
static bool run_once(Case *c) {
  const Tensor *out = apply(c, false);
  if (!out) return false;
  real *u = check_alloc(out->n * sizeof *u);
  for (size_t i = 0; i < out->n; i++) u[i] = (real)check_random(-1, 1);
  c->u = u;
  forget_gradients(c);
  backward(c);
  return true;
}

void check_gradients_at(const char *file, int line, OpId op, Tensor *const in[], const Attr *attr) {
  Case c = {file, line, op, in, attr, NULL};
  if (!run_once(&c)) return;
  for (int k = 0; k < op_table[op]->nin; k++) {
    if (!in[k] || !in[k]->needs_grad) continue;
    check_leaf_of(&c, k, in[k]);
    check_rules(&c, k);
  }
}

void check_gradients_beside(OpId op, Tensor *const in[], const Attr *attr, int n,
                            Tensor *const *beside) {
  Case c = {__FILE__, __LINE__, op, in, attr, NULL};
  for (int i = 0; i < n; i++) beside[i]->grad_live = false;
  if (!run_once(&c)) return;
  for (int i = 0; i < n; i++) check_leaf_of(&c, 100 + i, beside[i]);
}
