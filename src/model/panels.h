/* panels.h - the packed panels of a model's float32 weights, which products read.
 *
 * Panels are float32, or bf16 where the model computes in that.  After weights change they are
 * stale and renewed before the next forward.
 */
#ifndef GRPO_MODEL_PANELS_H
#define GRPO_MODEL_PANELS_H

#include "model/model_struct.h"

bool panels_has(const Model *m, const Tensor *t); /* is it a weight that a product reads? */
size_t panels_bytes(const Model *m, int i);       /* of parameter i; 0: none */
/* Further ones of a class while it is trained. */
size_t panels_transposed_bytes(const Model *m, const KernelClass *cpu, int i);
/* After a failure there are none, and the next panels_renew makes them. */
Status panels_allocate(Model *m, const KernelClass *cpu);
void panels_free(Model *m);
/* Packs stale panels, including those of the adapter and of shared weights.  Forward functions call
 * it. */
Status panels_renew(Model *m, const Ctx *cx);

#endif
