/* config_load.h - the Config of a checkpoint on disk: a directory or a GGUF file. */
#ifndef GRPO_CHECKPOINT_CONFIG_LOAD_H
#define GRPO_CHECKPOINT_CONFIG_LOAD_H

#include "model/config.h"

/* From a directory: config.json and, where it exists, generation_config.json. */
Status config_load(Config *out, const char *path);

#endif
