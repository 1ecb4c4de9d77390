/* gguf_source.h - the tensors of a GGUF file, under Hugging Face's names. */
#ifndef GRPO_GGUF_SOURCE_H
#define GRPO_GGUF_SOURCE_H

#include "checkpoint/source.h"

Status gguf_source_open(WeightSource *out, const char *path);

#endif
