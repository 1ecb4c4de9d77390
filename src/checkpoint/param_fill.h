/* param_fill.h - the values of a checkpoint's tensor on their way into a parameter, a few rows at a
 * time: the full-precision weight of a quantised parameter never exists. */
#ifndef GRPO_CHECKPOINT_PARAM_FILL_H
#define GRPO_CHECKPOINT_PARAM_FILL_H

#include "checkpoint/source.h"
#include "kern/kern.h"
#include "model/model.h"

/* Fills parameter i of m, whose memory is there: float32, or an empty quantised weight. */
Status param_fill(const Ctx *cx, Model *m, int i, const WeightSource *src, const SourceTensor *t);

#endif
