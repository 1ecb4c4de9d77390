/* model_copy.h - copies of a model, and weights copied from one model to another. */
#ifndef GRPO_MODEL_MODEL_COPY_H
#define GRPO_MODEL_MODEL_COPY_H

#include "model/model.h"

/* A frozen copy: it has no gradients.  With an adapter A and B are copied and the base, which is
 * frozen then, is shared; so are quantised weights, which never change. */
Status model_copy(Model **out, const Model *m);
/* EARG when the weights of `to` are quantised; those of `from` may be. */
Status model_copy_weights(Model *to, const Model *from);
/* to = alpha from + (1 - alpha) to */
Status model_copy_lerp(Model *to, const Model *from, double alpha, const Ctx *cx);

#endif
