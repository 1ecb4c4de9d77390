/* config_write.h - a Config as the config.json that transformers loads. */
#ifndef GRPO_MODEL_CONFIG_WRITE_H
#define GRPO_MODEL_CONFIG_WRITE_H

#include "base/buf.h"
#include "model/config.h"

void config_write(Buf *b, const Config *c);

#endif
