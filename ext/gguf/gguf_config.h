/* gguf_config.h - the shape of a model in the metadata of GGUF files.
 *
 * Metadata becomes a config.json in memory, which config_read takes, so that both kinds of
 * checkpoint are held to the same rules.  An unknown architecture is refused by name.
 */
#ifndef GRPO_GGUF_CONFIG_H
#define GRPO_GGUF_CONFIG_H

#include "gguf/gguf.h"
#include "model/config.h"

Status gguf_config_read(Config *out, const Gguf *g);
/* Does the file have further layers after those of the decoder? */
bool gguf_config_beside(const Gguf *g, const Config *c);

#endif
