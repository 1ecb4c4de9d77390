/* safetensors_source.h - the weights of a directory in Hugging Face's layout. */
#ifndef GRPO_CHECKPOINT_SAFETENSORS_SOURCE_H
#define GRPO_CHECKPOINT_SAFETENSORS_SOURCE_H

#include "checkpoint/source.h"

/* The directory's model.safetensors, or its shards with an index. */
Status safetensors_source_open(WeightSource *out, const char *dir);

#endif
