/* gguf_adapter.h - writing a low-rank adapter alone as a GGUF file, for llama.cpp's --lora. */
#ifndef GRPO_GGUF_ADAPTER_H
#define GRPO_GGUF_ADAPTER_H

#include "model/model.h"

/* Float32, as NAME.lora_a [rank, in] and NAME.lora_b [out, rank] for each adapted weight NAME of
 * the base's file, which appears when complete.  EARG: the model has no adapter, GGUF does not know
 * the family, or the adapter is on the embedding or on an output projection that is tied to it. */
Status gguf_adapter_save(const Model *m, const char *path);

#endif
