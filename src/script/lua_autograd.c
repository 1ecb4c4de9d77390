/* lua_autograd.c - gradients: backward, detach, no_grad, scope, clipping, AdamW. */
#include <math.h>
#include <string.h>

#include "grad/value_optimizer.h"
#include "model/optimizer.h"
#include "script/lua_model.h"
#include "script/lua_tensor.h"
#include "script/read_options.h"

/* ---- backward, detach --------------------------------------------------------------- */

static int l_tensor_backward(lua_State *L) {
  Value *v = check_tensor_value(L, 1);
  want_ok(L, value_backward(script_ctx(L), v));
  return 0;
}

/* t:detach() -> a copy that belongs to no graph and to no step */
static int l_tensor_detach(lua_State *L) {
  const Tensor *t = value_tensor(check_tensor_value(L, 1));
  check_tensor_room(L, (double)t->n, "detach");
  Value *copy = NULL;
  TensorHandle *h = push_tensor_handle(L);
  Status s = value_new(&copy, t->ndim, t->dim);
  if (s == GRPO_OK) memcpy(value_tensor(copy)->data, t->data, t->n * sizeof(real));
  return finish_tensor(L, h, s, copy);
}

/* ---- no_grad ------------------------------------------------------------------------ */

static int l_no_grad(lua_State *L) {
  Script *s = script_of(L);
  check_function(L, 1);
  s->no_grad++;
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  s->no_grad--;
  return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

/* ---- scope -------------------------------------------------------------------------- */

enum { RESULT_DEPTH = 8 }; /* how deep we look into tables that a scope returns */

static void move_link(Link *l, Link *list) {
  l->prev->next = l->next;
  l->next->prev = l->prev;
  *l = (Link){l, l};
  if (!list) return;
  l->prev = list->prev;
  l->next = list;
  list->prev->next = l;
  list->prev = l;
}

/* Moves the tensors in the value at index from the scope to the one around it. */
static void keep_tensors(lua_State *L, int index, Link *outer, int depth) {
  TensorHandle *h = luaL_testudata(L, index, TENSOR_TYPE);
  if (h && h->link.next != &h->link) move_link(&h->link, outer);
  if (!lua_istable(L, index) || depth == 0) return;
  index = lua_absindex(L, index);
  luaL_checkstack(L, 6, "scope");
  lua_pushnil(L);
  while (lua_next(L, index)) {
    keep_tensors(L, -1, outer, depth - 1);
    lua_pop(L, 1);
  }
}

/* grpo.scope(f, ...) -> results of f; frees the tensors that f made, except those in the results */
static int l_scope(lua_State *L) {
  Script *s = script_of(L);
  Link scope = {&scope, &scope}, *outer = s->scope;
  check_function(L, 1);
  s->scope = &scope;
  int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  s->scope = outer;
  if (lua_checkstack(L, 6 * RESULT_DEPTH))
    for (int i = 1; i <= lua_gettop(L); i++) keep_tensors(L, i, outer, RESULT_DEPTH);
  while (scope.next != &scope)
    drop_tensor_value((TensorHandle *)(void *)scope.next, TENSOR_SCOPED_OUT);
  return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

/* ---- lists of tensors with gradients ------------------------------------------------ */

/* Pushes an array with the tensors of the list at arg. */
static Value **check_tensors(lua_State *L, int arg, size_t *n) {
  check_table(L, arg);
  *n = lua_rawlen(L, arg);
  Value **v = push_scratch(L, *n, sizeof *v);
  for (size_t i = 0; i < *n; i++) {
    lua_rawgeti(L, arg, (lua_Integer)i + 1);
    if (!(v[i] = test_tensor_value(L, -1)))
      arg_error(L, arg, "element %d is a %s, want a tensor", (int)i + 1, luaL_typename(L, -1));
    lua_pop(L, 1);
  }
  return v;
}

/* grpo.clip_grad_norm(tensors, max) -> the norm before clipping */
static int l_clip_grad_norm(lua_State *L) {
  size_t n;
  double max = check_number(L, 2);
  if (!(max > 0)) return arg_error(L, 2, "max is %g, want a positive number", max);
  Value **v = check_tensors(L, 1, &n);
  const double norm = values_grad_norm(script_ctx(L), n, v);
  values_clip(n, v, norm, max);
  return give_number(L, norm);
}

/* ---- optimizers over tensors -------------------------------------------------------- */

#define OPTIMIZER_TYPE "grpo.Optimizer"

typedef struct LuaOptimizer {
  ValueOptimizer *a; /* NULL: closed */
  OptimizerKind kind;
} LuaOptimizer; /* user value 1: the set of models whose parameters it changes */

static ValueOptimizer *check_optimizer(lua_State *L) {
  LuaOptimizer *h = check_object(L, 1, OPTIMIZER_TYPE);
  if (!h->a) arg_error(L, 1, "the optimizer was closed");
  return h->a;
}

static int l_optimizer_gc(lua_State *L) {
  LuaOptimizer *h = luaL_testudata(L, 1, OPTIMIZER_TYPE);
  if (!h) return 0;
  value_optimizer_free(h->a);
  h->a = NULL;
  return 0;
}

static int l_optimizer_close(lua_State *L) { return in_use(L) ? 0 : l_optimizer_gc(L); }

static const char *const names[] = {"adamw", "adamw_8bit", "lion"}; /* by OptimizerKind */

/* The defaults are those of train.optimizer with that name. */
static void check_adamw_options(lua_State *L, int index, OptimizerKind kind, AdamWOptions *o) {
  static const OptionSet *const sets[] = {&adamw_option_set, NULL};
  static const char *const others[] = {"no_decay", NULL};
  adamw_options_init(o);
  for (int i = 0; i < optimizer_default_count(); i++) {
    const OptimizerDefault *d = optimizer_default_at(i);
    if (d->kind == kind) option_set(option_find(&adamw_option_set, d->path), o, d->number);
  }
  check_option_fields(L, index, names[kind], sets, others);
  read_options(L, index, names[kind], &adamw_option_set, 0, o);
}

/* Is the tensor on top a parameter without weight decay?  Adds its model to the set at `models`. */
static bool leaves_out_decay(lua_State *L, const Value *v, int models, bool no_bias, bool no_norm) {
  bool out = false;
  lua_getiuservalue(L, -1, 1);
  Model *m = lua_isuserdata(L, -1) ? test_model(L, -1) : NULL;
  for (int i = 0; m && i < model_num_params(m); i++) {
    const Param *p = model_param(m, i);
    if (&p->t == value_tensor((Value *)(uintptr_t)v))
      out = (p->is_bias && no_bias) || (p->is_norm && no_norm);
  }
  if (m) {
    lua_pushboolean(L, 1);
    lua_rawset(L, models);
  } else {
    lua_pop(L, 1);
  }
  return out;
}

/* Makes the models trainable whose parameters are in the list of argument 1, because a model
 * allocates its gradients only then. */
static void turn_gradients_on(lua_State *L) {
  for (lua_Integer i = 1; lua_rawgeti(L, 1, i) != LUA_TNIL; i++) {
    lua_getiuservalue(L, -1, 1);
    LuaModel *lm = luaL_testudata(L, -1, MODEL_TYPE);
    if (lm && lm->m) want_trainable_model(L, lm);
    lua_pop(L, 2);
  }
  lua_pop(L, 1);
}

static int new_optimizer(lua_State *L, OptimizerKind kind) {
  AdamWOptions o;
  bool no_bias = true, no_norm = true;
  size_t n;
  lua_settop(L, 2);
  Value **v = check_tensors(L, 1, &n);
  check_adamw_options(L, 2, kind, &o);
  field_no_decay(L, 2, names[kind], &no_bias, &no_norm);
  turn_gradients_on(L);
  for (size_t i = 0; i < n; i++)
    if (!value_tensor(v[i])->needs_grad)
      return arg_error(L, 1, "element %d needs no gradient; make it with requires_grad = true",
                       (int)i + 1);
  LuaOptimizer *h = new_object(L, sizeof *h, 1);
  *h = (LuaOptimizer){NULL, kind};
  luaL_setmetatable(L, OPTIMIZER_TYPE);
  lua_newtable(L);
  int models = lua_gettop(L);
  bool *decay = push_scratch(L, n, sizeof *decay);
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, 1, (lua_Integer)i + 1);
    decay[i] = !leaves_out_decay(L, v[i], models, no_bias, no_norm);
    lua_pop(L, 1);
  }
  want_ok(L, value_optimizer_new(&h->a, kind, &o, n, v, decay));
  lua_pop(L, 1);
  lua_setiuservalue(L, -2, 1);
  return 1;
}

static int l_adamw(lua_State *L) { return new_optimizer(L, OPTIMIZER_ADAMW); }
static int l_adamw_8bit(lua_State *L) { return new_optimizer(L, OPTIMIZER_ADAMW_8BIT); }
static int l_lion(lua_State *L) { return new_optimizer(L, OPTIMIZER_LION); }

static int l_optimizer_step(lua_State *L) {
  ValueOptimizer *a = check_optimizer(L);
  double lr = check_number(L, 2);
  if (!(lr >= 0 && lr < INFINITY))
    return arg_error(L, 2, "the learning rate is %g, want 0 or more", lr);
  want_ok(L, value_optimizer_step(a, script_ctx(L), lr));
  lua_getiuservalue(L, 1, 1);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    lua_pop(L, 1);
    Model *m = test_model(L, -1);
    if (m) model_updated(m);
  }
  return 0;
}

static int l_optimizer_zero_grad(lua_State *L) {
  value_optimizer_zero_grad(check_optimizer(L));
  return 0;
}

static int l_optimizer_tostring(lua_State *L) {
  const LuaOptimizer *h = check_object(L, 1, OPTIMIZER_TYPE);
  lua_pushfstring(L, "grpo.Optimizer (%s) over %d tensors", names[h->kind],
                  h->a ? (int)value_optimizer_count(h->a) : 0);
  return 1;
}

/* ---- registration ------------------------------------------------------------------- */

CORE_PART(autograd) {
  static const luaL_Reg functions[] = {FN(adamw),   FN(adamw_8bit), FN(clip_grad_norm), FN(lion),
                                       FN(no_grad), FN(scope),      {NULL, NULL}};
  static const luaL_Reg tensor_methods[] = {
      {"backward", l_tensor_backward}, {"detach", l_tensor_detach}, {NULL, NULL}};
  static const luaL_Reg methods[] = {
      {"step", l_optimizer_step}, {"zero_grad", l_optimizer_zero_grad}, {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", l_optimizer_gc},
                                  {"__close", l_optimizer_close},
                                  {"__tostring", l_optimizer_tostring},
                                  {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  add_methods(L, TENSOR_TYPE, tensor_methods);
  make_type(L, OPTIMIZER_TYPE, meta, methods);
}
