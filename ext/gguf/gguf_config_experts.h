/* gguf_config_experts.h - mixtures of experts and latent attention in GGUF's metadata. */
#ifndef GRPO_GGUF_CONFIG_EXPERTS_H
#define GRPO_GGUF_CONFIG_EXPERTS_H

#include "gguf/gguf_reader.h"
#include "gguf/gguf_write.h"

Status gguf_experts_read(Reader *r);
void gguf_experts_write(const Config *c, const GgufArch *a, GgufMeta *m);
/* The reason for which llama.cpp would compute something else; NULL: there is none. */
const char *gguf_experts_reason(const Config *c, const GgufArch *a);

#endif
