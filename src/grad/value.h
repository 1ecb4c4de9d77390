/* value.h - tensors that user code holds: reference-counted, each with its own
 * memory, and a graph made of pointers instead of a tape.  They run the same
 * operations (ops.def) as the engine's tape.
 *
 * A Value lives while it is held, or while a graph that reaches it is held. value_backward() runs
 * the graph and then frees it: a second call on the same graph is GRPO_EARG.  Not thread-safe; one
 * user at a time.
 */
#ifndef GRPO_GRAD_VALUE_H
#define GRPO_GRAD_VALUE_H

#include "grad/tape.h"

typedef struct Value Value;

Status value_new(Value **out, int ndim, const int *dim); /* zero-filled; one reference */
/* A value around memory that someone else owns and outlives it (a model's parameter). */
Status value_wrap(Value **out, Tensor *t);
Value *value_retain(Value *v);
void value_release(Value *v);   /* NULL is fine */
Tensor *value_tensor(Value *v); /* valid while v is held */

/* attr->p, when the operation has one, is copied: `attr_bytes` of it, and arrays inside it must be
 * owned by the caller via value_keep(). */
Status value_apply(const Ctx *cx, OpId op, Value *const in[], const Attr *attr, size_t attr_bytes,
                   bool record, Value **out);
/* Memory freed together with v: mem_alloc'ed, taken over. */
Status value_keep(Value *v, void *memory);

/* Calls free_user(user) when a value made by value_new or value_wrap is freed, so that the owner of
 * its memory is held as long. */
void value_on_free(Value *v, void *user, void (*free_user)(void *));

/* An output that was computed elsewhere; `backward` passes its gradient on (m:score).  free_user is
 * called once, when the graph is freed, and not when value_custom itself fails. */
Status value_custom(Value **out, int ndim, const int *dim, const real *data,
                    Status (*backward)(void *user, const real *dout), void *user,
                    void (*free_user)(void *));

Status value_backward(const Ctx *cx, Value *loss);
size_t value_bytes(const Value *v); /* data and gradient */

#endif
