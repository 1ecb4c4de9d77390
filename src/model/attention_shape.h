/* attention_shape.h - the sizes of a model's attention, for kernels and caches. */
#ifndef GRPO_MODEL_ATTENTION_SHAPE_H
#define GRPO_MODEL_ATTENTION_SHAPE_H

#include "grad/latent.h"
#include "kern/kv.h"
#include "model/config.h"

/* The shape is that of a layer without a window. */
AttnShape attention_shape(const Config *c, Compute compute);
LatentShape attention_latent_shape(const Config *c);

#endif
