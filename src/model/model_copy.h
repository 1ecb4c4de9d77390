/* model_copy.h - copies of a model, and weights copied from one model to another. */
#ifndef GRPO_MODEL_MODEL_COPY_H
#define GRPO_MODEL_MODEL_COPY_H

#include "model/model.h"

/* Makes a frozen copy, which has no gradients.  Of a model with an adapter only the adapter's A and
 * B are copied.  Its base, which is frozen, is shared, as quantised weights are, which never
 * change. */
Status model_copy(Model **out, const Model *m);
/* EARG when the weights of `to` are quantised; those of `from` may be. */
Status model_copy_weights(Model *to, const Model *from);
/* to = alpha from + (1 - alpha) to */
Status model_copy_lerp(Model *to, const Model *from, double alpha, const Ctx *cx);

#endif
