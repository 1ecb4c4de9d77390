#include "formats/model_format.h"

#include <string.h>

static ModelFormat *first;

void model_format_add(ModelFormat *format) {
  format->next = first;
  first = format;
}

const ModelFormat *model_format_first(void) { return first; }

const ModelFormat *model_format_of(const char *path) {
  const ModelFormat *f = first;
  while (f && !f->is(path)) f = f->next;
  return f;
}

static bool ends_with(const char *path, const char *ending) {
  const size_t n = strlen(path), k = strlen(ending);
  return n > k && strcmp(path + n - k, ending) == 0;
}

const ModelFormat *model_format_ending(const char *path) {
  const ModelFormat *f = first;
  while (f && !ends_with(path, f->ending)) f = f->next;
  return f;
}

const ModelFormat *model_format_named(const char *name) {
  const ModelFormat *f = first;
  while (f && strcmp(f->name, name)) f = f->next;
  return f;
}

Status model_format_check(const char *path) {
  if (!ends_with(path, ".gguf") || model_format_ending(path)) return GRPO_OK;
  return fail(GRPO_EARG,
              "%s: it needs the extension gguf, because the core reads and writes no such files; "
              "build with make EXT=\"gguf\"",
              path);
}
