/* storage.h - in which form a model keeps its weights. */
#ifndef GRPO_MODEL_STORAGE_H
#define GRPO_MODEL_STORAGE_H

#include <stdbool.h>

#include "kern/quant.h"

/* STORE_INT8 and STORE_NF4 are for the projections inside layers; the embedding and the output
 * projection stay as the checkpoint has them. */
typedef enum Storage {
  STORE_F32,  /* float32 with packed panels: the only form that full training takes */
  STORE_AUTO, /* as in the checkpoint; block formats other than bitsandbytes' NF4 become float32 */
  STORE_BF16,
  STORE_INT8,
  STORE_NF4
} Storage;

const char *storage_name(Storage s); /* "f32", "auto", "bf16", "int8", "nf4" */
/* The type that a weight takes: of a projection inside a layer, or of the embedding or output
 * projection, which the checkpoint stores as `stored`.  Not for STORE_F32. */
QuantType storage_type(Storage s, bool projection, QuantType stored);

#endif
