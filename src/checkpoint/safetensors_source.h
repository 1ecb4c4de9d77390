/* safetensors_source.h - the weights of a directory in Hugging Face's layout. */
#ifndef GRPO_CHECKPOINT_SAFETENSORS_SOURCE_H
#define GRPO_CHECKPOINT_SAFETENSORS_SOURCE_H

#include "checkpoint/source.h"

/* The directory's model.safetensors, or its shards with an index. */
Status safetensors_source_open(WeightSource *out, const char *dir);
/* Names the weights of a directory without these files that are in another format, with the way
 * out; OK: there are none. */
Status safetensors_source_refuse(const char *dir);

#endif
