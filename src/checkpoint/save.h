/* save.h - writing checkpoints in Hugging Face's layout: one file, or shards with an index. */
#ifndef GRPO_CHECKPOINT_SAVE_H
#define GRPO_CHECKPOINT_SAVE_H

#include "model/model.h"

/* WEIGHT_NF4: projections inside layers in bitsandbytes' 4-bit layout, everything else in bf16. */
typedef enum WeightType { WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_NF4 } WeightType;
/* Writes config.json, generation_config.json and model.safetensors (or shards of at most
 * shard_bytes and an index; 0: one file).  Every file is complete or not there at all; config.json
 * comes last.  An adapter is merged into what is written. */
Status save_model(const Model *m, const char *dir, WeightType type, uint64_t shard_bytes);

#endif
