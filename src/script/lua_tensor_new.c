/* lua_tensor_new.c - making tensors: from lists, zeros, random numbers, and by joining others. */
#include "base/rng.h"
#include "kern/random_normal.h"
#include "script/lua_tensor.h"

/* ---- joining ------------------------------------------------------------------------ */

/* Joins n tensors in pairs, so that a long list is copied log n times instead of n times. */
static Status concat_range(const Ctx *cx, Value *const *v, size_t n, const Attr *attr, bool record,
                           Value **out) {
  Value *half[2] = {NULL, NULL};
  if (n == 1) {
    *out = value_retain(v[0]);
    return GRPO_OK;
  }
  Status s = concat_range(cx, v, n / 2, attr, record, &half[0]);
  if (s == GRPO_OK) s = concat_range(cx, v + n / 2, n - n / 2, attr, record, &half[1]);
  if (s == GRPO_OK) s = value_apply(cx, OP_concat, half, attr, 0, record, out);
  value_release(half[0]);
  value_release(half[1]);
  return s;
}

/* Pushes an array with the n tensors of the list at argument 1. */
static Value **check_list(lua_State *L, size_t *n, double *elements) {
  check_table(L, 1);
  *n = lua_rawlen(L, 1);
  *elements = 0;
  if (*n == 0) arg_error(L, 1, "the list is empty");
  Value **v = push_scratch(L, *n, sizeof *v);
  for (size_t i = 0; i < *n; i++) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    if (!(v[i] = test_tensor_value(L, -1)))
      arg_error(L, 1, "element %d is a %s, want a tensor", (int)i + 1, luaL_typename(L, -1));
    *elements += (double)value_tensor(v[i])->n;
    lua_pop(L, 1);
  }
  return v;
}

static int l_concat(lua_State *L) {
  size_t n;
  double elements;
  Value *out = NULL, **v = check_list(L, &n, &elements);
  Attr attr = {.i = {lua_isnoneornil(L, 2) ? 0 : check_tensor_axis(L, 2, value_tensor(v[0]))}};
  if (value_tensor(v[0])->ndim == 0)
    return arg_error(L, 1, "element 1 is a single number; use grpo.stack");
  check_tensor_room(L, 2 * elements, "concat");
  const Ctx *cx = script_ctx(L);
  TensorHandle *h = push_tensor_handle(L);
  Status s = concat_range(cx, v, n, &attr, tensor_recording(L), &out);
  return finish_tensor(L, h, s, out);
}

/* out[i] is v[i] with a new first axis of size 1.  A failure releases what was made. */
static Status raise_rank(const Ctx *cx, Value *const *v, size_t n, bool record, Value **out) {
  for (size_t i = 0; i < n; i++) {
    const Tensor *t = value_tensor(v[i]);
    Attr attr = {.i = {t->ndim + 1, 1}};
    for (int k = 0; k < t->ndim && k < TENSOR_DIMS; k++) attr.i[k + 2 < 6 ? k + 2 : 5] = t->dim[k];
    Status s = t->ndim < TENSOR_DIMS
                   ? value_apply(cx, OP_reshape, &v[i], &attr, 0, record, &out[i])
                   : fail(GRPO_ESHAPE, "stack: tensors of %d axes, want at most %d", t->ndim,
                          TENSOR_DIMS - 1);
    if (s == GRPO_OK) continue;
    while (i--) value_release(out[i]);
    return s;
  }
  return GRPO_OK;
}

static int l_stack(lua_State *L) {
  size_t n;
  double elements;
  lua_settop(L, 1);
  Value *out = NULL, **v = check_list(L, &n, &elements),
        **raised = push_scratch(L, n, sizeof *raised);
  check_tensor_room(L, 3 * elements, "stack");
  const Ctx *cx = script_ctx(L);
  TensorHandle *h = push_tensor_handle(L);
  Attr first = {.i = {0}};
  Status s = raise_rank(cx, v, n, tensor_recording(L), raised);
  want_ok(L, s);
  s = concat_range(cx, raised, n, &first, tensor_recording(L), &out);
  for (size_t i = 0; i < n; i++) value_release(raised[i]);
  return finish_tensor(L, h, s, out);
}

/* ---- making tensors ----------------------------------------------------------------- */

/* Reads the sizes of the nested list on top from its first elements. */
static int list_shape(lua_State *L, int *dim) {
  int ndim = 0, top = lua_gettop(L);
  lua_pushvalue(L, -1);
  while (lua_istable(L, -1)) {
    lua_Unsigned n = lua_rawlen(L, -1);
    if (ndim == TENSOR_DIMS)
      raise_new(L, GRPO_ESHAPE, "tensor: lists nested more than %d deep", TENSOR_DIMS);
    if (n > INT32_MAX) raise_new(L, GRPO_ESHAPE, "tensor: a list of %lld", (long long)n);
    dim[ndim++] = (int)n;
    lua_rawgeti(L, -1, 1);
    if (n == 0) break;
  }
  lua_settop(L, top);
  return ndim;
}

/* Copies the list on top to *to, which moves on. */
static void copy_list(lua_State *L, int ndim, const int *dim, real **to) {
  if (ndim == 0) {
    if (lua_type(L, -1) != LUA_TNUMBER)
      raise_new(L, GRPO_EARG, "tensor: an element is a %s, want a number", luaL_typename(L, -1));
    *(*to)++ = (real)lua_tonumber(L, -1);
    return;
  }
  if (!lua_istable(L, -1) || lua_rawlen(L, -1) != (lua_Unsigned)dim[0])
    raise_new(L, GRPO_ESHAPE,
              "tensor: the lists differ in length or depth; axis wants %d elements everywhere",
              dim[0]);
  for (int i = 1; i <= dim[0]; i++) {
    lua_rawgeti(L, -1, i);
    copy_list(L, ndim - 1, dim + 1, to);
    lua_pop(L, 1);
  }
}

static void set_requires_grad(lua_State *L, int index, const char *where, Value *v) {
  static const char *const known[] = {"requires_grad", NULL};
  bool on = false;
  check_fields(L, index, where, known);
  field_bool(L, index, where, "requires_grad", &on);
  value_tensor(v)->needs_grad = on;
}

static int l_tensor(lua_State *L) {
  int dim[TENSOR_DIMS];
  if (!lua_istable(L, 1) && lua_type(L, 1) != LUA_TNUMBER)
    return type_error(L, 1, "nested list or number");
  lua_settop(L, 2);
  lua_pushvalue(L, 1);
  int ndim = list_shape(L, dim);
  Value *v = push_new_tensor(L, ndim, dim, "tensor");
  real *to = value_tensor(v)->data;
  lua_pushvalue(L, 1);
  copy_list(L, ndim, dim, &to);
  set_requires_grad(L, 2, "tensor", v);
  lua_settop(L, 4);
  return 1;
}

static int l_zeros(lua_State *L) {
  int dim[TENSOR_DIMS], ndim = check_tensor_dims(L, 1, false, dim);
  lua_settop(L, 2);
  set_requires_grad(L, 2, "zeros", push_new_tensor(L, ndim, dim, "zeros"));
  return 1;
}

static int l_randn(lua_State *L) {
  static const char *const known[] = {"seed", "requires_grad", NULL};
  int dim[TENSOR_DIMS], ndim = check_tensor_dims(L, 1, false, dim);
  bool on = false;
  RngKey key = {.stream = RNG_USER};
  lua_settop(L, 2);
  check_fields(L, 2, "randn", known);
  field_bool(L, 2, "randn", "requires_grad", &on);
  if (!field_seed(L, 2, "randn", "seed", &key.seed)) key.step = (uint32_t)++script_of(L)->randn;
  Tensor *t = value_tensor(push_new_tensor(L, ndim, dim, "randn"));
  random_normal(&(Ctx){0}, &key, t->n, 1, t->data);
  t->needs_grad = on;
  return 1;
}

CORE_FUNCTIONS(tensor_new, FN(concat), FN(randn), FN(stack), FN(tensor), FN(zeros))
