/* export.h - a model, or its adapter alone, in any format by its name. */
#ifndef GRPO_CHECKPOINT_EXPORT_H
#define GRPO_CHECKPOINT_EXPORT_H

#include "formats/model_format.h"
#include "model/model.h"
#include "text/tokenizer.h"

typedef struct ExportOptions {
  const char *format; /* "hf", "adapter" or an extension's; NULL: hf */
  const char *dtype;  /* of matrices; NULL: f32 */
  bool merge;         /* an adapter is written into the weights */
  uint64_t shard_bytes;
  const char *base_name; /* of an adapter in PEFT's layout, as in peft_save */
} ExportOptions;

/* Types that the core writes weights in, ends with NULL. */
extern const char *const export_dtypes[];

/* EARG, before anything is written, for options that contradict each other or the model.  `what`
 * begins the message. */
Status export_check(const Model *m, const char *path, const ExportOptions *o, const char *what);
/* path: a directory, or the file of an extension's format; "adapter" writes a directory in PEFT's
 * layout, or the file of the format whose ending it has.  t is written too; it may be NULL. */
Status export_model(const Model *m, const Tokenizer *t, const char *path, const ExportOptions *o,
                    const char *what);

#endif
