/* model_make.h - models: making, loading, copying and freeing them. */
#ifndef GRPO_API_MODEL_MAKE_H
#define GRPO_API_MODEL_MAKE_H

#include "api/api.h"
#include "base/buf.h"

/* Appends the directory that a path stands for: of a run, its newest checkpoint. */
Status model_directory(const char *path, Buf *found);

typedef struct ModelSettings {
  Storage storage;
  Compute compute;
  uint64_t seed;
} ModelSettings;
/* Reads a host's options; o NULL: the defaults. */
Status model_settings_take(const grpo_model_options *o, ModelSettings *out);

#endif
