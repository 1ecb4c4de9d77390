/* frozen.h - the forms of frozen weights other than rows of float32.
 *
 * Quantised: as bf16, f16, int8 or NF4.  Packed in place: float32 weights that an adapter has
 * frozen are kept once, as packed panels in the memory of the weights (GPT-2's excepted, which are
 * stored [in, out]).
 */
#ifndef GRPO_MODEL_FROZEN_H
#define GRPO_MODEL_FROZEN_H

#include <stdbool.h>

#include "kern/quant.h"

typedef struct Model Model;

/* Before model_allocate: parameter i becomes an empty quantised weight. */
Status frozen_quantise(Model *m, int i, QuantType type);
bool frozen_any(const Model *m); /* is a weight quantised or packed in place? */

/* Packs the weights of a base that an adapter has frozen.  Nothing happens where somebody else
 * holds the model, or where products are in bf16, from whose panels the weights cannot be told.
 * After a failure some weights are packed in place and some are not; both are valid. */
Status frozen_pack_in_place(Model *m);
bool frozen_is_packed_in_place(const Model *m);
bool frozen_packs_in_place(const Model *m, int i); /* would parameter i be packed? */

/* The memory that holds the weights of a base which an adapter has frozen, as blocks of
 * mem_alloc_aligned(); their panels must have been made.  i: from 0 on; false: there is no more. */
typedef struct FrozenBlock {
  void *data; /* NULL: this one is none */
  size_t bytes;
} FrozenBlock;
bool frozen_block(const Model *m, int i, FrozenBlock *out);

/* All weights become float32 with panels again.  EARG while views share them. */
Status frozen_widen(Model *m);

#endif
