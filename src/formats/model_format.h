/* model_format.h - kinds of file that hold a whole model, which extensions add.
 *
 * The core reads and writes directories in Hugging Face layout.  The rows here are files beside
 * them: the loaders of configurations, weights and tokenizers ask for a path's row first.
 *
 *   EXTENSION(name) {
 *     static ModelFormat format = {.name = "name", ...};
 *     model_format_add(&format);
 *   }
 */
#ifndef GRPO_FORMATS_MODEL_FORMAT_H
#define GRPO_FORMATS_MODEL_FORMAT_H

#include <stdbool.h>

#include "base/err.h"

/* Types of higher layers, which pass through here. */
struct Config;
struct Model;
struct Tokenizer;
struct WeightSource;

typedef struct ModelFormat ModelFormat;
struct ModelFormat {
  const char *name;          /* as `format` in Lua's m:save */
  const char *ending;        /* of a file with an adapter alone: ".name" */
  const char *const *dtypes; /* types that matrices are written in, ends with NULL */
  bool (*is)(const char *path);
  Status (*config)(struct Config *out, const char *path);
  Status (*open)(struct WeightSource *out, const char *path); /* its weights */
  bool (*has_tokenizer)(const char *path); /* true where loading it reports why it cannot */
  Status (*tokenizer)(struct Tokenizer **out, const char *path);
  /* Writes a complete file or none.  t may be NULL; dtype: one of dtypes. */
  Status (*save)(const struct Model *m, const struct Tokenizer *t, const char *path,
                 const char *dtype);
  Status (*save_adapter)(const struct Model *m, const char *path);
  ModelFormat *next;
};

void model_format_add(ModelFormat *format);
const ModelFormat *model_format_first(void);
const ModelFormat *model_format_of(const char *path);     /* what the file is; NULL: none */
const ModelFormat *model_format_ending(const char *path); /* by its name; NULL: none */
const ModelFormat *model_format_named(const char *name);  /* NULL: none */
/* Refuses a path whose ending belongs to an extension that was not built in. */
Status model_format_check(const char *path);

#endif
