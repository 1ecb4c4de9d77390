/* value_optimizer.h - AdamW, AdamW with moments in 8 bits, and Lion over tensors that user code
 * holds.
 *
 * A tensor's moments are made at its first step with a gradient, and its bias corrections count
 * only those steps, as torch counts.  The optimizer holds its tensors.
 */
#ifndef GRPO_GRAD_VALUE_OPTIMIZER_H
#define GRPO_GRAD_VALUE_OPTIMIZER_H

#include "grad/adamw.h"
#include "grad/moments.h"
#include "grad/value.h"

typedef struct ValueOptimizer ValueOptimizer;

/* decay [n]: does weight decay apply?  NULL: to all.  EARG when a tensor needs no gradient. */
Status value_optimizer_new(ValueOptimizer **out, OptimizerKind kind, const AdamWOptions *o,
                           size_t n, Value *const *v, const bool *decay);
void value_optimizer_free(ValueOptimizer *a); /* NULL is fine */
size_t value_optimizer_count(const ValueOptimizer *a);
Status value_optimizer_step(ValueOptimizer *a, const Ctx *cx, double lr);
void value_optimizer_zero_grad(ValueOptimizer *a);

/* L2 norm of the gradients of n tensors; those without one count nothing. */
double values_grad_norm(const Ctx *cx, size_t n, Value *const *v);
/* Scales them so that a norm above max becomes max. */
void values_clip(size_t n, Value *const *v, double norm, double max);
/* Scales the optimizer's own gradients down to the norm `max` (<= 0: not at all).  Returns their
 * norm before. */
double value_optimizer_clip(ValueOptimizer *a, const Ctx *cx, double max);

#endif
