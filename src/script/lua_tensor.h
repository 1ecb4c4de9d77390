/* lua_tensor.h - tensors as Lua values, for the files that make or take them.
 *
 * A handle is a userdata that holds one reference to a Value.  It gives the reference up when it is
 * collected or closed, when the grpo.scope ends in which it was made, or, for a step's tensor, when
 * the step ends.  Using the handle afterwards is an error.
 */
#ifndef GRPO_SCRIPT_LUA_TENSOR_H
#define GRPO_SCRIPT_LUA_TENSOR_H

#include "grad/value.h"
#include "script/binding.h"
#include "script/script_impl.h"

#define TENSOR_TYPE "grpo.Tensor"
/* Pushes a tensor that belongs to the step (train.loss, tr.batch).  Once end_step_tensors() was
 * called, using it raises an error that advises :totable() or :detach(). */
void push_step_tensor(lua_State *L, Value *v);
void end_step_tensors(lua_State *L);               /* releases these values */
Value *check_tensor_value(lua_State *L, int arg);  /* borrowed; valid as long as the stack slot */
Value *test_tensor_value(lua_State *L, int index); /* NULL: another value */
bool tensor_recording(lua_State *L);               /* false inside grpo.no_grad */

typedef enum TensorFate {
  TENSOR_HELD,
  TENSOR_SCOPED_OUT,
  TENSOR_STEP_OVER,
  TENSOR_CLOSED
} TensorFate;

typedef struct TensorHandle {
  Link link; /* in the list of a scope or of the step, or linked to itself */
  Value *v;  /* NULL once given up; `fate` says why */
  TensorFate fate;
  Script *script;
  size_t bytes; /* counted in the limited call that made it */
  uint64_t tag; /* of that limited call; 0: none */
} TensorHandle; /* user value 1: the model that a parameter belongs to */

/* Pushes a handle without a value.  Make it before you own a Value, then call finish_tensor. */
TensorHandle *push_tensor_handle(lua_State *L);
void drop_tensor_value(TensorHandle *h, TensorFate fate);

/* Raises if the quota or the machine has no memory for these reals; `what` begins the message. */
void check_tensor_room(lua_State *L, double elements, const char *what);
/* Reads an axis, counted from 1, or from -1 at the end; returns it counted from 0. */
int check_tensor_axis(lua_State *L, int arg, const Tensor *x);
/* Appends the whole numbers of a list or a tensor at index. */
void check_tensor_whole(lua_State *L, int index, const char *what, int32_t min, int32_t max,
                        IntBuf *out);
/* Raises a failure, or gives v to the handle on top and returns 1. */
int finish_tensor(lua_State *L, TensorHandle *h, Status s, Value *v);
/* Pushes "[2, 3]". */
const char *push_tensor_shape(lua_State *L, const Tensor *x);
/* Reads the list of sizes at arg and returns their number.  `open` allows one of them to be -1. */
int check_tensor_dims(lua_State *L, int arg, bool open, int *dim);
/* Pushes a new tensor of zeros; `what` names the call. */
Value *push_new_tensor(lua_State *L, int ndim, const int *dim, const char *what);

#endif
