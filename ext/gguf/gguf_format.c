/* gguf_format.c - adds GGUF to the formats of models. */
#include <string.h>

#include "base/extension.h"
#include "formats/model_format.h"
#include "gguf/gguf_adapter.h"
#include "gguf/gguf_config.h"
#include "gguf/gguf_save.h"
#include "gguf/gguf_source.h"
#include "gguf/gguf_tokenizer.h"

static Status read_config(Config *out, const char *path) {
  Gguf g;
  try(gguf_open(&g, path));
  const Status s = gguf_config_read(out, &g);
  gguf_close(&g);
  return s;
}

static bool has_tokenizer(const char *path) {
  Gguf g;
  if (gguf_open(&g, path) != GRPO_OK) return true; /* loading reports the reason */
  const bool yes = gguf_tokenizer_is_in(&g);
  gguf_close(&g);
  return yes;
}

static Status read_tokenizer(Tokenizer **out, const char *path) {
  Gguf g;
  try(gguf_open(&g, path));
  const Status s = gguf_tokenizer_read(out, &g);
  gguf_close(&g);
  return s;
}

static const char *const dtypes[] = {"f32", "f16", "bf16", "q8_0", "q4_0", "mxfp4", NULL};

static Status save(const Model *m, const Tokenizer *t, const char *path, const char *dtype) {
  static const GgmlType types[] = {GGML_F32, GGML_F16, GGML_BF16, GGML_Q8_0, GGML_Q4_0, GGML_MXFP4};
  int i = 0;
  while (strcmp(dtypes[i], dtype)) i++;
  return gguf_save(m, t, path, types[i]);
}

EXTENSION(gguf) {
  static ModelFormat format = {.name = "gguf",
                               .ending = ".gguf",
                               .dtypes = dtypes,
                               .is = gguf_is,
                               .config = read_config,
                               .open = gguf_source_open,
                               .has_tokenizer = has_tokenizer,
                               .tokenizer = read_tokenizer,
                               .save = save,
                               .save_adapter = gguf_adapter_save};
  model_format_add(&format);
}
