/* config_rope.h - rotary positions in config.json: rope_scaling, or rope_parameters in newer
 * files. */
#ifndef GRPO_MODEL_CONFIG_ROPE_H
#define GRPO_MODEL_CONFIG_ROPE_H

#include "base/buf.h"
#include "formats/json.h"
#include "model/config.h"

Status config_read_rope(Config *c, const Json *j, const char *what);
void config_put_rope(Buf *b, const Config *c);

#endif
