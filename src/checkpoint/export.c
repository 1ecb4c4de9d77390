#include "checkpoint/export.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/peft.h"
#include "checkpoint/save.h"
#include "model/lora.h"
#include "os/file.h"
#include "text/tokenizer_files.h"

const char *const export_dtypes[] = {"f32", "f16", "bf16", "nf4", NULL};
static const WeightType types[] = {WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_NF4};

/* The position of a word in a list that ends with NULL; its length: it is not there. */
static int position(const char *const *list, const char *word) {
  int i = 0;
  while (list[i] && strcmp(list[i], word) != 0) i++;
  return i;
}

static bool is(const ExportOptions *o, const char *format) {
  return strcmp(o->format ? o->format : "hf", format) == 0;
}

static const char *dtype_of(const ExportOptions *o) { return o->dtype ? o->dtype : "f32"; }

/* *file: the extension's format; NULL: hf or adapter */
static Status find_format(const ExportOptions *o, const char *what, const ModelFormat **file) {
  char names[200] = "";
  *file = NULL;
  if (is(o, "hf") || is(o, "adapter")) return GRPO_OK;
  *file = model_format_named(o->format);
  if (*file) return GRPO_OK;
  for (const ModelFormat *f = model_format_first(); f; f = f->next) {
    const size_t n = strlen(names);
    snprintf(names + n, sizeof names - n, ", %s", f->name);
  }
  return fail(GRPO_EARG, "%s.format: '%.40s' is not a format of this build, want hf%s or adapter",
              what, o->format, names);
}

Status export_check(const Model *m, const char *path, const ExportOptions *o, const char *what) {
  const ModelFormat *file;
  const bool alone = is(o, "adapter");
  try(model_format_check(path));
  try(find_format(o, what, &file));
  const char *const *known = file ? file->dtypes : export_dtypes;
  if (!known[position(known, dtype_of(o))])
    return fail(GRPO_EARG, "%s.dtype: '%.40s' is not a type of format '%s'", what, o->dtype,
                file    ? file->name
                : alone ? "adapter"
                        : "hf");
  if (o->merge && alone)
    return fail(GRPO_EARG,
                "%s.merge: format = \"adapter\" writes the adapter alone, so it merges nothing; "
                "leave one of the two out",
                what);
  if (alone && !lora_attached(m))
    return fail(GRPO_EARG, "%s: the model has no adapter that could be written alone", what);
  if (alone || o->merge == lora_attached(m)) return GRPO_OK;
  return fail(GRPO_EARG,
              o->merge ? "%s.merge: the model has no adapter"
                       : "%s: the model has an adapter; merge = true writes it into the weights, "
                         "format = \"adapter\" saves it alone",
              what);
}

/* Makes the directory that a file shall be in. */
static Status make_folder(const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash || slash == path) return GRPO_OK;
  char *folder = mem_strdup(path);
  if (!folder) return fail(GRPO_ENOMEM, "%s", path);
  folder[slash - path] = 0;
  const Status s = file_mkdirs(folder);
  mem_free(folder);
  return s;
}

static Status write_file(const ModelFormat *f, const Model *m, const Tokenizer *t, const char *path,
                         const ExportOptions *o, const char *what) {
  const char *slash = strrchr(path, '/');
  if (file_is_dir(path) || (slash && !slash[1]))
    return fail(GRPO_EARG, "%s: %s is a directory, but format '%s' is one file", what, path,
                f->name);
  try(make_folder(path));
  return is(o, "adapter") ? f->save_adapter(m, path) : f->save(m, t, path, dtype_of(o));
}

Status export_model(const Model *m, const Tokenizer *t, const char *path, const ExportOptions *o,
                    const char *what) {
  const ModelFormat *file;
  try(export_check(m, path, o, what));
  try(find_format(o, what, &file));
  if (is(o, "adapter")) file = model_format_ending(path);
  if (file) return write_file(file, m, t, path, o, what);
  try(file_mkdirs(path));
  if (t) try(tokenizer_save(t, path));
  if (is(o, "adapter")) return peft_save(m, path, o->base_name);
  return save_model(m, path, types[position(export_dtypes, dtype_of(o))], o->shard_bytes);
}
