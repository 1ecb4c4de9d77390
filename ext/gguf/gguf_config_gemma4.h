/* gguf_config_gemma4.h - Gemma 4's metadata in GGUF files.
 *
 * There the usual keys are about layers without a window, and others, in -swa, about layers with
 * one.  A number that differs between layers is a list.  Which pairs of a full layer turn is in the
 * tensor rope_freqs.weight, which divides the frequencies of the others by 1e30.
 */
#ifndef GRPO_GGUF_CONFIG_GEMMA4_H
#define GRPO_GGUF_CONFIG_GEMMA4_H

#include "gguf/gguf_reader.h"
#include "gguf/gguf_write.h"

/* Reads everything but the epsilon and the vocabulary. */
Status gguf_gemma4_read(Reader *r);
/* Writes everything about layers, heads and positions. */
void gguf_gemma4_write(const Config *c, const GgufArch *a, GgufMeta *m);
const char *gguf_gemma4_reason(const Config *c); /* NULL: llama.cpp computes the same */
/* Divisors of the frequencies of full layers: out [global_head_dim / 2]. */
void gguf_gemma4_divisors(const Config *c, float *out);

#endif
