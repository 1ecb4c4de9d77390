/* lora_merge.h - adapters added to the weights: W + s B A. */
#ifndef GRPO_MODEL_LORA_MERGE_H
#define GRPO_MODEL_LORA_MERGE_H

#include "model/model.h"

/* W += s B A, then the adapter is gone.  EARG when frozen views share the weights, or when the
 * output projection is tied to the embedding and one of them is adapted. */
Status lora_merge(Model *m);
Status lora_merge_check(const Model *m);                 /* can it be merged? */
bool lora_merge_changes(const Model *m, const Param *p); /* has p an adapter? */
/* x = rows row .. row + rows - 1 of a parameter in its own layout, with the adapter merged.  The
 * layout of a quantised parameter is [out, in]. */
Status lora_merge_rows(const Ctx *cx, const Model *m, const Param *p, int row, int rows, real *x);
/* x = the whole parameter in its own layout, with the adapter merged. */
Status lora_merge_values(const Ctx *cx, const Model *m, const Param *p, real *x);

#endif
