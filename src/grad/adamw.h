/* adamw.h - AdamW over tensors that user code holds (torch.optim.AdamW, arXiv:1711.05101).
 *
 * A tensor's moments are made at its first step with a gradient, and its bias corrections count
 * only those steps, as torch counts.  The optimizer holds its tensors.
 */
#ifndef GRPO_GRAD_ADAMW_H
#define GRPO_GRAD_ADAMW_H

#include "base/options.h"
#include "grad/value.h"
#include "kern/optimizers.h"

typedef struct AdamWOptions {
#include "base/option_fields.h"
#include "grad/adamw.def"
} AdamWOptions;
extern const OptionSet adamw_option_set;
void adamw_options_init(AdamWOptions *o);
/* The settings of adamw_step() for optimizer step `step` (from 1): bias corrections, and the factor
 * that scales gradients of the norm `norm` down to max_norm (<= 0: not scaled). */
AdamW adamw_at(const AdamWOptions *o, uint64_t step, double lr, double max_norm, double norm);

typedef struct ValueAdamW ValueAdamW;

/* decay [n]: does weight decay apply?  NULL: to all.  EARG when a tensor needs no gradient. */
Status value_adamw_new(ValueAdamW **out, const AdamWOptions *o, size_t n, Value *const *v,
                       const bool *decay);
void value_adamw_free(ValueAdamW *a); /* NULL is fine */
size_t value_adamw_count(const ValueAdamW *a);
Status value_adamw_step(ValueAdamW *a, const Ctx *cx, double lr);
void value_adamw_zero_grad(ValueAdamW *a);

/* L2 norm of the gradients of n tensors; those without one count nothing. */
double values_grad_norm(const Ctx *cx, size_t n, Value *const *v);
/* Scales them so that a norm above max becomes max. */
void values_clip(size_t n, Value *const *v, double norm, double max);
/* Scales the optimizer's own gradients down to the norm `max` (<= 0: not at all).  Returns their
 * norm before. */
double value_adamw_clip(ValueAdamW *a, const Ctx *cx, double max);

#endif
