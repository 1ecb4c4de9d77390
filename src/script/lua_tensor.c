/* lua_tensor.c - tensors as Lua values: their handles, their fields, and the operations on them.
 *
 * An operation is a closure over its number in ops.def; its `attributes` say how Lua's arguments
 * become an Attr.  A new row of ops.def is therefore a new method without a line here.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "grad/attrs.h"
#include "grad/op_table.h"
#include "script/lua_tensor.h"

/* ---- handles ------------------------------------------------------------------------ */

static void link_into(Link *list, Link *l) {
  l->prev = list->prev;
  l->next = list;
  list->prev->next = l;
  list->prev = l;
}

static void unlink_from(Link *l) {
  l->prev->next = l->next;
  l->next->prev = l->prev;
  *l = (Link){l, l};
}

TensorHandle *push_tensor_handle(lua_State *L) {
  TensorHandle *h = new_object(L, sizeof *h, 1);
  *h = (TensorHandle){.link = {&h->link, &h->link}, .script = script_of(L), .fate = TENSOR_CLOSED};
  luaL_setmetatable(L, TENSOR_TYPE);
  return h;
}

/* The collector sees a few hundred bytes of a tensor, so we tell it about the rest. */
static void report_bytes(lua_State *L, Script *s, size_t bytes) {
  enum { REPORT = 1 << 20 };
  s->unreported += bytes;
  if (s->unreported < REPORT) return;
  int kib = (int)(s->unreported / 1024 < 1 << 20 ? s->unreported / 1024 : 1 << 20);
  s->unreported = 0;
  lua_gc(L, LUA_GCSTEP, kib);
}

/* Takes over the caller's reference, then tells the collector how large the value is. */
static void set_value(lua_State *L, TensorHandle *h, Value *v) {
  Script *s = h->script;
  h->v = v;
  h->fate = TENSOR_HELD;
  h->bytes = value_bytes(v);
  if (s->budget) {
    h->tag = s->budget->tag;
    s->budget->held += h->bytes;
  }
  if (s->scope) link_into(s->scope, &h->link);
  report_bytes(L, s, h->bytes);
}

void drop_tensor_value(TensorHandle *h, TensorFate fate) {
  Budget *b = h->script->budget;
  if (!h->v) return;
  if (b && b->tag == h->tag) b->held -= h->bytes < b->held ? h->bytes : b->held;
  unlink_from(&h->link);
  value_release(h->v);
  h->v = NULL;
  h->fate = fate;
}

static int l_gc(lua_State *L) {
  TensorHandle *h = luaL_testudata(L, 1, TENSOR_TYPE);
  if (h) drop_tensor_value(h, TENSOR_CLOSED);
  return 0;
}

static int l_close(lua_State *L) { return in_use(L) ? 0 : l_gc(L); }

/* Pushes a tensor.  Takes over the caller's reference, also if it raises. */
static void push_value(lua_State *L, Value *v) {
  if (script_of(L)->closed) {
    value_release(v);
    check_not_closed(L); /* raises */
  }
  /* The reference must not be lost if Lua runs out of memory. */
  TensorHandle *h = lua_checkstack(L, 4) ? push_tensor_handle(L) : NULL;
  if (h)
    set_value(L, h, v);
  else
    value_release(v);
}

void push_step_tensor(lua_State *L, Value *v) {
  push_value(L, v);
  TensorHandle *h = lua_touserdata(L, -1);
  unlink_from(&h->link);
  link_into(&h->script->step, &h->link);
}

void end_step_tensors(lua_State *L) {
  Link *list = &script_of(L)->step;
  while (list->next != list)
    drop_tensor_value((TensorHandle *)(void *)list->next, TENSOR_STEP_OVER);
}

static Value *value_of(lua_State *L, TensorHandle *h) {
  if (h->v) return h->v;
  switch (h->fate) {
  case TENSOR_STEP_OVER:
    raise_new(L, GRPO_ESTALE,
              "this tensor belongs to a step that has ended; take a copy with "
              ":totable() or :detach() while the step runs");
    break;
  case TENSOR_SCOPED_OUT:
    raise_new(L, GRPO_ESTALE,
              "this tensor was freed when its grpo.scope ended; return it from the "
              "scope's function to keep it");
    break;
  default:
    raise_new(L, GRPO_ESTALE, "this tensor was closed");
  }
  return NULL;
}

Value *test_tensor_value(lua_State *L, int index) {
  TensorHandle *h = luaL_testudata(L, index, TENSOR_TYPE);
  return h ? value_of(L, h) : NULL;
}

Value *check_tensor_value(lua_State *L, int arg) {
  TensorHandle *h = luaL_testudata(L, arg, TENSOR_TYPE);
  if (!h) type_error(L, arg, "tensor");
  return value_of(L, h);
}

static Tensor *check_tensor(lua_State *L, int arg) {
  return value_tensor(check_tensor_value(L, arg));
}

bool tensor_recording(lua_State *L) { return script_of(L)->no_grad == 0; }

int finish_tensor(lua_State *L, TensorHandle *h, Status s, Value *v) {
  want_ok(L, s);
  set_value(L, h, v);
  return 1;
}

/* ---- sizes and axes ----------------------------------------------------------------- */

void check_tensor_room(lua_State *L, double elements, const char *what) {
  enum { SMALL = 1 << 22 };
  double bytes = elements * (double)sizeof(real);
  make_room(L, mem_fits(bytes) ? (size_t)bytes : SIZE_MAX);
  charge_work(L, 8 + (uint64_t)(elements < 1e15 ? elements / 8 : 1e14));
  if (elements < SMALL) return;
  double available = (double)mem_available();
  if (available > 0 && (bytes > available || !mem_fits(bytes)))
    raise_new(L, GRPO_ENOMEM, "%s: the result takes %.4g MiB, and %.4g MiB are left", what,
              bytes / 0x1p20, available / 0x1p20);
  if (!mem_fits(bytes))
    raise_new(L, GRPO_ENOMEM, "%s: the result takes %.4g MiB, more than memory can hold", what,
              bytes / 0x1p20);
}

int check_tensor_axis(lua_State *L, int arg, const Tensor *x) {
  lua_Integer a = check_integer(L, arg, LUA_MININTEGER, LUA_MAXINTEGER);
  if (a < 0) a += x->ndim + 1;
  if (a < 1 || a > x->ndim) {
    if (x->ndim == 0) arg_error(L, arg, "a single number has no axes");
    arg_error(L, arg,
              "axis %lld of a tensor with %d axes; axes count from 1, or from -1 at the end",
              (long long)lua_tointeger(L, arg), x->ndim);
  }
  return (int)a - 1;
}

int check_tensor_dims(lua_State *L, int arg, bool open, int *dim) {
  check_table(L, arg);
  lua_Unsigned n = lua_rawlen(L, arg);
  if (n > TENSOR_DIMS) arg_error(L, arg, "%d sizes, want at most %d", (int)n, TENSOR_DIMS);
  for (int i = 0; i < (int)n; i++) {
    int exact = 0;
    lua_Integer d = lua_rawgeti(L, arg, i + 1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &exact) : 0;
    if (!exact || d < (open ? -1 : 0) || d > INT32_MAX)
      arg_error(L, arg, "size %d: want a whole number from 0 to %d, got %s", i + 1, INT32_MAX,
                luaL_tolstring(L, -1, NULL));
    dim[i] = (int)d;
    lua_pop(L, 1);
  }
  return (int)n;
}

const char *push_tensor_shape(lua_State *L, const Tensor *x) {
  luaL_Buffer b;
  char text[16];
  luaL_buffinit(L, &b);
  luaL_addchar(&b, '[');
  for (int i = 0; i < x->ndim; i++) {
    snprintf(text, sizeof text, i ? ", %d" : "%d", x->dim[i]);
    luaL_addstring(&b, text);
  }
  luaL_addchar(&b, ']');
  luaL_pushresult(&b);
  return lua_tostring(L, -1);
}

void check_tensor_whole(lua_State *L, int index, const char *what, int32_t min, int32_t max,
                        IntBuf *out) {
  Value *v = test_tensor_value(L, index);
  if (!v && !lua_istable(L, index))
    raise_new(L, GRPO_EARG, "%s: want a list or a tensor of whole numbers, got %s", what,
              luaL_typename(L, index));
  const Tensor *x = v ? value_tensor(v) : NULL;
  size_t n = x ? x->n : lua_rawlen(L, index);
  charge_work(L, n);
  for (size_t i = 0; i < n; i++) {
    double d = NAN;
    if (x)
      d = (double)x->data[i];
    else if (lua_rawgeti(L, index, (lua_Integer)i + 1) == LUA_TNUMBER)
      d = (double)lua_tonumber(L, -1);
    if (!(d >= min && d <= max && d == floor(d)))
      raise_new(L, GRPO_EARG, "%s[%zu]: want a whole number from %d to %d, got %s", what, i + 1,
                min, max,
                x ? lua_pushfstring(L, "%f", (LUAI_UACNUMBER)d) : luaL_tolstring(L, -1, NULL));
    intbuf_put(out, (int32_t)d);
    if (!x) lua_pop(L, 1);
  }
  want_ok(L, intbuf_status(out));
}

/* ---- operations --------------------------------------------------------------------- */

/* Reads a tensor or a number; a scalar tensor replaces the number on the stack. */
static Value *check_operand(lua_State *L, int arg) {
  if (lua_type(L, arg) != LUA_TNUMBER) {
    if (!luaL_testudata(L, arg, TENSOR_TYPE)) type_error(L, arg, "tensor or number");
    return check_tensor_value(L, arg);
  }
  Value *v;
  TensorHandle *h = push_tensor_handle(L);
  want_ok(L, value_new(&v, 0, NULL));
  value_tensor(v)->data[0] = (real)lua_tonumber(L, arg);
  h->v = v;
  h->fate = TENSOR_HELD;
  lua_replace(L, arg);
  return v;
}

/* The most elements that a broadcast result can have, which is all that the memory check needs. */
static double broadcast_size(Value *const in[], int n) {
  double size = 1;
  for (int d = 1; d <= TENSOR_DIMS; d++) {
    int most = 1;
    for (int i = 0; i < n; i++) {
      const Tensor *x = value_tensor(in[i]);
      int here = d <= x->ndim ? x->dim[x->ndim - d] : 1;
      if (here == 0) return 0;
      if (here > most) most = here;
    }
    size *= most;
  }
  return size;
}

static double result_size(OpId op, Value *const in[], int n) {
  if (op != OP_matmul) return broadcast_size(in, n);
  const Tensor *a = value_tensor(in[0]), *b = value_tensor(in[1]);
  double size = broadcast_size(in, n);
  double rows = a->ndim > 1 && a->dim[a->ndim - 1] ? (double)a->n / a->dim[a->ndim - 1] : 1;
  double columns = b->ndim ? b->dim[b->ndim - 1] : 1;
  return fmax(size, rows * columns);
}

/* Reads the arguments from `arg` on into attr, as the letters of `spec` say; x is the first
 * operand. */
static void check_attr(lua_State *L, int arg, const char *spec, const Tensor *x, Attr *attr) {
  int ints = 0, floats = 0;
  for (; *spec; spec++, arg++) {
    switch (*spec) {
    case 'A':
      attr->i[ints++] = lua_isnoneornil(L, arg) ? -1 : check_tensor_axis(L, arg, x);
      break;
    case 'a':
      attr->i[ints++] = check_tensor_axis(L, arg, x);
      break;
    case 'i':
      attr->i[ints++] = (int)check_integer(L, arg, INT32_MIN, INT32_MAX);
      break;
    case 'f':
      attr->f[floats++] = check_number(L, arg);
      break;
    case 'd':
      attr->i[ints] = check_tensor_dims(L, arg, true, attr->i + ints + 1);
      ints += 1 + attr->i[ints];
      break;
    }
  }
}

/* For clamp(lo, hi), either of which may be nil, and narrow(axis, first, n), where first counts
 * from 1. */
static void adapt_arguments(lua_State *L, OpId op) {
  if (op == OP_clamp) {
    lua_settop(L, 3);
    for (int i = 2; i <= 3; i++)
      if (lua_isnil(L, i)) {
        lua_pushnumber(L, i == 2 ? -HUGE_VAL : HUGE_VAL);
        lua_replace(L, i);
      }
  } else if (op == OP_narrow) {
    lua_Integer first = check_integer(L, 3, 1, INT32_MAX);
    lua_pushinteger(L, first - 1);
    lua_replace(L, 3);
  }
}

/* Upvalue 1: the operation. */
static int l_apply(lua_State *L) {
  OpId op = (OpId)lua_tointeger(L, lua_upvalueindex(1));
  const OpDef *def = op_table[op];
  Value *in[OP_MAX_IN] = {NULL}, *out = NULL;
  Attr attr = {0};
  for (int i = 0; i < def->nin; i++) in[i] = check_operand(L, i + 1);
  adapt_arguments(L, op);
  check_attr(L, def->nin + 1, def->attributes, value_tensor(in[0]), &attr);
  check_tensor_room(L, result_size(op, in, def->nin), def->name);
  const Ctx *cx = script_ctx(L);
  TensorHandle *h = push_tensor_handle(L);
  Status s = value_apply(cx, op, in, &attr, 0, tensor_recording(L), &out);
  return finish_tensor(L, h, s, out);
}

/* Applies an operation whose attribute is a struct that points to a list of whole numbers.  The
 * result takes over the list if backward will need it. */
static int apply_with_list(lua_State *L, OpId op, Value *x, void *p, size_t bytes, IntBuf *list) {
  Attr attr = {.p = p};
  Value *out = NULL;
  const Ctx *cx = script_ctx(L);
  TensorHandle *h = push_tensor_handle(L);
  Status s = value_apply(cx, op, &x, &attr, bytes, tensor_recording(L), &out);
  if (s == GRPO_OK && value_tensor(out)->needs_grad) {
    s = value_keep(out, list->data);
    if (s)
      value_release(out);
    else
      *list = (IntBuf){0};
  }
  return finish_tensor(L, h, s, out);
}

static int l_gather(lua_State *L) {
  Value *x = check_tensor_value(L, 1);
  GatherAttr a = {.axis = check_tensor_axis(L, 2, value_tensor(x))};
  lua_settop(L, 3);
  IntBuf *ids = push_ints(L);
  check_tensor_whole(L, 3, "gather: ids", 0, INT32_MAX, ids);
  if (ids->len > INT32_MAX) return arg_error(L, 3, "too many ids");
  check_tensor_room(L, (double)ids->len, "gather");
  a.ids = ids->data;
  a.n = (int)ids->len;
  return apply_with_list(L, OP_gather, x, &a, sizeof a, ids);
}

/* segment_sum(seq, n), segment_mean(seq, n), spread(seq) */
static int l_segment(lua_State *L) {
  OpId op = (OpId)lua_tointeger(L, lua_upvalueindex(1));
  Value *x = check_tensor_value(L, 1);
  const Tensor *t = value_tensor(x);
  SegmentAttr a = {0};
  if (op == OP_spread)
    a.n = t->ndim ? t->dim[0] : 1;
  else
    a.n = (int)check_integer(L, 3, 0, INT32_MAX);
  lua_settop(L, 3);
  IntBuf *ids = push_ints(L);
  check_tensor_whole(L, 2, "sequence", 1, INT32_MAX, ids);
  if (ids->len > INT32_MAX) return arg_error(L, 2, "too many elements");
  check_tensor_room(L, 3 * (double)a.n + (double)ids->len, op_table[op]->name);
  a.ids = ids->data;
  a.count = (int)ids->len;
  return apply_with_list(L, op, x, &a, sizeof a, ids);
}

/* Pushes t[i], the i-th slice along the first axis. */
static int push_part(lua_State *L, Value *x, lua_Integer i) {
  const Tensor *t = value_tensor(x);
  if (t->ndim == 0) return raise_new(L, GRPO_EARG, "a single number has no rows; use :item()");
  if (i == (lua_Integer)t->dim[0] + 1) return lua_pushnil(L), 1; /* so that ipairs stops */
  if (i < 1 || i > t->dim[0])
    return raise_new(L, GRPO_EARG, "row %lld of a tensor with %d rows; rows count from 1",
                     (long long)i, t->dim[0]);
  Attr narrow = {.i = {0, (int)i - 1, 1}}, flat = {.i = {t->ndim - 1}};
  for (int k = 1; k < t->ndim; k++) flat.i[k] = t->dim[k];
  Value *row = NULL, *out = NULL;
  const Ctx *cx = script_ctx(L);
  TensorHandle *h = push_tensor_handle(L);
  Status s = value_apply(cx, OP_narrow, &x, &narrow, 0, tensor_recording(L), &row);
  if (s == GRPO_OK) {
    s = value_apply(cx, OP_reshape, &row, &flat, 0, tensor_recording(L), &out);
    value_release(row);
  }
  return finish_tensor(L, h, s, out);
}

Value *push_new_tensor(lua_State *L, int ndim, const int *dim, const char *what) {
  double n = 1;
  Value *v = NULL;
  for (int i = 0; i < ndim; i++) n *= dim[i];
  check_tensor_room(L, n, what);
  TensorHandle *h = push_tensor_handle(L);
  Status s = value_new(&v, ndim, dim);
  finish_tensor(L, h, s, v);
  return v;
}

/* ---- looking at tensors ------------------------------------------------------------- */

static int l_item(lua_State *L) {
  const Tensor *t = check_tensor(L, 1);
  if (t->n != 1)
    return raise_new(L, GRPO_ESHAPE, "item: a tensor of shape %s holds %d numbers; use :totable()",
                     push_tensor_shape(L, t), (int)t->n);
  return give_number(L, (lua_Number)t->data[0]);
}

static const real *push_nested(lua_State *L, const real *data, int ndim, const int *dim) {
  if (ndim == 0) {
    lua_pushnumber(L, (lua_Number)*data);
    return data + 1;
  }
  lua_createtable(L, dim[0], 0);
  for (int i = 1; i <= dim[0]; i++) {
    data = push_nested(L, data, ndim - 1, dim + 1);
    lua_rawseti(L, -2, i);
  }
  return data;
}

static int l_totable(lua_State *L) {
  const Tensor *t = check_tensor(L, 1);
  luaL_checkstack(L, 8, "totable");
  charge_work(L, t->n);
  push_nested(L, t->data, t->ndim, t->dim);
  return 1;
}

static int l_len(lua_State *L) {
  const Tensor *t = check_tensor(L, 1);
  if (t->ndim == 0) return raise_new(L, GRPO_EARG, "a single number has no length; use :item()");
  return give_integer(L, t->dim[0]);
}

static int push_grad(lua_State *L, const Tensor *t) {
  if (!t->grad || !t->grad_live) return lua_pushnil(L), 1;
  Tensor *copy = value_tensor(push_new_tensor(L, t->ndim, t->dim, "grad"));
  memcpy(copy->data, t->grad, t->n * sizeof(real));
  return 1;
}

/* Upvalue 1: the methods. */
static int l_index(lua_State *L) {
  lua_pushvalue(L, 2);
  if (lua_type(L, 2) == LUA_TSTRING && lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  Value *v = check_tensor_value(L, 1);
  const Tensor *t = value_tensor(v);
  if (lua_isinteger(L, 2)) return push_part(L, v, lua_tointeger(L, 2));
  if (lua_type(L, 2) == LUA_TNUMBER && lua_tonumber(L, 2) == floor(lua_tonumber(L, 2)) &&
      fabs(lua_tonumber(L, 2)) < 1e15)
    return push_part(L, v, (lua_Integer)lua_tonumber(L, 2));
  const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(name, "grad") == 0) return push_grad(L, t);
  if (strcmp(name, "requires_grad") == 0) return lua_pushboolean(L, t->needs_grad), 1;
  if (strcmp(name, "shape") != 0)
    return raise_new(L, GRPO_EARG, "a tensor has no field '%s'", luaL_tolstring(L, 2, NULL));
  lua_createtable(L, t->ndim, 0);
  for (int i = 0; i < t->ndim; i++) {
    lua_pushinteger(L, t->dim[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int l_newindex(lua_State *L) {
  return raise_new(L, GRPO_EARG, "a tensor cannot be changed; compute a new one");
}

/* A NaN without its sign, which depends on the machine. */
static double unsigned_nan(double x) { return isnan(x) ? fabs(x) : x; }

static int l_tostring(lua_State *L) {
  const TensorHandle *h = check_object(L, 1, TENSOR_TYPE);
  if (!h->v) {
    lua_pushliteral(L, "tensor (freed)");
    return 1;
  }
  const Tensor *t = value_tensor(h->v);
  if (t->ndim == 0) {
    lua_pushfstring(L, "tensor %f", (LUAI_UACNUMBER)unsigned_nan((double)t->data[0]));
    return 1;
  }
  char stats[128] = "";
  double min = INFINITY, max = -INFINITY, sum = 0;
  for (size_t i = 0; i < t->n; i++) {
    double x = (double)t->data[i];
    min = x < min || isnan(x) ? x : min; /* no number is less than a NaN */
    max = x > max || isnan(x) ? x : max;
    sum += x;
  }
  if (t->n)
    snprintf(stats, sizeof stats, " min %.4g mean %.4g max %.4g", unsigned_nan(min),
             unsigned_nan(sum / (double)t->n), unsigned_nan(max));
  push_tensor_shape(L, t);
  lua_pushfstring(L, "tensor %s%s%s", lua_tostring(L, -1), stats, t->needs_grad ? " (grad)" : "");
  return 1;
}

/* ---- registration ------------------------------------------------------------------- */

static void set_operation(lua_State *L, const char *name, OpId op, lua_CFunction f) {
  lua_pushinteger(L, op);
  lua_pushcclosure(L, f, 1);
  lua_setfield(L, -2, name);
}

static bool is_open(OpId op) {
  return strcmp(op_table[op]->attributes, "-") != 0 && op != OP_where && op != OP_concat;
}

static void push_methods(lua_State *L) {
  static const luaL_Reg methods[] = {FN(gather), FN(item), FN(totable), {NULL, NULL}};
  luaL_newlib(L, methods);
  for (int op = 0; op < OP_COUNT; op++)
    if (is_open((OpId)op)) set_operation(L, op_table[op]->name, (OpId)op, l_apply);
  set_operation(L, "segment_sum", OP_segment_sum, l_segment);
  set_operation(L, "segment_mean", OP_segment_mean, l_segment);
  set_operation(L, "spread", OP_spread, l_segment);
}

CORE_PART(tensor) {
  static const luaL_Reg meta[] = {META(gc),       META(close),    META(len),
                                  META(newindex), META(tostring), {NULL, NULL}};
  static const struct {
    const char *name;
    OpId op;
  } operators[] = {{"__add", OP_add}, {"__sub", OP_sub}, {"__mul", OP_mul},
                   {"__div", OP_div}, {"__pow", OP_pow}, {"__unm", OP_neg}};
  luaL_newmetatable(L, TENSOR_TYPE);
  luaL_setfuncs(L, meta, 0);
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
    set_operation(L, operators[i].name, operators[i].op, l_apply);
  push_methods(L);
  keep_methods(L, TENSOR_TYPE);
  lua_pushcclosure(L, l_index, 1);
  lua_setfield(L, -2, "__index");
  seal_type(L);
  lua_pop(L, 1);
  set_operation(L, "where_", OP_where, l_apply);
}
