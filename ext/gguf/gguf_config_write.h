/* gguf_config_write.h - writes the shape of a model as metadata of GGUF files. */
#ifndef GRPO_GGUF_CONFIG_WRITE_H
#define GRPO_GGUF_CONFIG_WRITE_H

#include "gguf/gguf_arch.h"
#include "gguf/gguf_write.h"
#include "model/config.h"

/* EARG with the reason: llama.cpp would compute something else from the file. */
Status gguf_config_check(const Config *c, const GgufArch *a, const char *path);
void gguf_config_write(const Config *c, const GgufArch *a, GgufMeta *m);
/* rope_freqs.weight: divisors of frequencies; their number, up to 512, or 0: the model has none. */
int gguf_config_rope_divisors(const Config *c, float *out);

#endif
