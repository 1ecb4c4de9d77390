/* peft_base.h - an adapter's folder as a model: which model its adapter belongs to. */
#ifndef GRPO_CHECKPOINT_PEFT_BASE_H
#define GRPO_CHECKPOINT_PEFT_BASE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* Is the directory a PEFT folder, and not a complete model? */
bool peft_is_adapter(const char *dir);
/* Appends the path of the base model: base_model_name_or_path relative to the
 * folder, else relative to the current directory, else a name of the Hub whose snapshot is in its
 * cache.  EFORMAT: the adapter names none.  ENOENT: it is
 * in none of these places. */
Status peft_base(const char *dir, Buf *path);

#endif
