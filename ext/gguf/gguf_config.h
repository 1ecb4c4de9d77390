/* gguf_config.h - the shape of a model in the metadata of GGUF files.
 *
 * Metadata becomes a config.json in memory, which config_read takes, so that both kinds of
 * checkpoint are held to the same rules.  An unknown architecture is refused by name.
 */
#ifndef GRPO_GGUF_CONFIG_H
#define GRPO_GGUF_CONFIG_H

#include "gguf/gguf.h"
#include "gguf/gguf_arch.h"
#include "gguf/gguf_write.h"
#include "model/config.h"

Status gguf_config_read(Config *out, const Gguf *g);
void gguf_config_write(const Config *c, const GgufArch *a, GgufMeta *m);
/* rope_freqs.weight: [rotary dimension / 2] divisors; false: the model has none. */
bool gguf_config_rope_divisors(const Config *c, float *out);

#endif
