/* lua_tensor.h - tensors as Lua values, for the files that make or take them.
 *
 * A handle is a userdata that holds one reference to a Value.  It loses it
 * when it is collected, when the grpo.scope it was made in ends, or, for a
 * step's tensor, when the step ends; using it afterwards is an error.
 */
#ifndef GRPO_SCRIPT_LUA_TENSOR_H
#define GRPO_SCRIPT_LUA_TENSOR_H

#include "grad/value.h"
#include "script/binding.h"
#include "script/script_impl.h"

#define TENSOR_TYPE "grpo.Tensor"
/* Pushes a tensor.  Takes over the caller's reference, also when it raises. */
void push_value(lua_State *L, Value *v);
/* The same for a tensor that belongs to the step (train.loss, tr.batch): stale, with an error that
 * advises :totable() or :detach(), as soon as end_step_values() was called. */
void push_step_value(lua_State *L, Value *v);
void end_step_values(lua_State *L);         /* also drops the values' references */
Value *check_value(lua_State *L, int arg);  /* borrowed: valid while the stack slot is */
Value *test_value(lua_State *L, int index); /* NULL: no tensor */
bool recording(lua_State *L);               /* false inside grpo.no_grad */

typedef enum TensorFate {
  TENSOR_HELD,
  TENSOR_SCOPED_OUT,
  TENSOR_STEP_OVER,
  TENSOR_CLOSED
} TensorFate;

typedef struct TensorHandle {
  Link link; /* in the list of a scope or of the step, else by itself */
  Value *v;  /* NULL once given up; `fate` says why */
  TensorFate fate;
  Script *script;
  size_t bytes; /* counted against the limited call that made it ... */
  uint64_t tag; /* ... this one */
} TensorHandle; /* user value 1: the model that a parameter belongs to */

/* Pushes a handle without a value: make it before owning anything, then set_value. */
TensorHandle *push_handle(lua_State *L);
void set_value(lua_State *L, TensorHandle *h, Value *v); /* takes over; then tells the collector */
void drop_value(TensorHandle *h, TensorFate fate);

/* Raises when so many reals cannot be had: the memory quota, or what the machine has. */
void check_room(lua_State *L, double elements, const char *what);
/* 1-based axis at arg, negative from the end -> 0-based */
int check_axis(lua_State *L, int arg, const Tensor *x);
/* A tensor, or a number as a scalar tensor, which takes the place of the argument; raises. */
Value *check_operand(lua_State *L, int arg);
/* Whole numbers from a list or a tensor at index. */
void check_whole(lua_State *L, int index, const char *what, int32_t min, int32_t max, IntBuf *out);
/* Status -> result on the stack: raises, or sets the handle's value.  Returns 1. */
int finish_tensor(lua_State *L, TensorHandle *h, Status s, Value *v);
/* "[2, 3]" */
const char *push_shape(lua_State *L, const Tensor *x);
/* Sizes from the list at arg; the number of them.  One may be -1 when `open` allows it. */
int check_dims(lua_State *L, int arg, bool open, int *dim);
/* A new tensor, zero-filled, on the stack; `what` names the call. */
Value *push_new(lua_State *L, int ndim, const int *dim, const char *what);

void tensor_open(lua_State *L); /* makes the type; core.where_; the core table is on top */

#endif
