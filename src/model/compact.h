/* compact.h - weights of a checkpoint on their way into a model, a few rows at a time. */
#ifndef GRPO_MODEL_COMPACT_H
#define GRPO_MODEL_COMPACT_H

#include "model/impl.h"
#include "model/source.h"

/* What parameter i becomes; false: float32. */
bool compact_type(const Model *m, int i, Storage storage, SourceType stored, QuantType *out);
/* The values of t into parameter i, whose memory is there: float32, or an empty matrix. */
Status compact_fill(const Ctx *cx, Model *m, int i, const WeightSource *src, const SourceTensor *t);
/* A parameter's values once more, as a matrix of its own. */
Status compact_make(const Ctx *cx, const Param *p, QuantType type, QuantWeight **out);

#endif
