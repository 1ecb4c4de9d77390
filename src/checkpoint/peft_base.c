#include "checkpoint/peft_base.h"

#include "formats/json.h"
#include "os/file.h"

enum { CONFIG_MAX = 16 << 20 };

bool peft_is_adapter(const char *dir) {
  char path[FILE_PATH_BYTES];
  if (file_join(path, dir, "adapter_config.json") != GRPO_OK || !file_exists(path)) return false;
  return file_join(path, dir, "config.json") == GRPO_OK && !file_exists(path);
}

static Status find_base(const char *dir, const char *config, const char *name, Buf *path) {
  char beside[FILE_PATH_BYTES];
  if (!name || !*name)
    return fail(GRPO_EFORMAT,
                "%s: base_model_name_or_path: is missing; say which model the adapter belongs to",
                config);
  try(file_join(beside, dir, name));
  const bool relative = *name != '/';
  const char *found = relative && file_exists(beside) ? beside : name;
  if (!file_exists(found))
    return fail(GRPO_ENOENT,
                "%s: the base model %s is not there (looked for it %s%s%s); put it there, or "
                "change base_model_name_or_path",
                config, name, relative ? "in " : "at that path", relative ? dir : "",
                relative ? " and in the current directory" : "");
  buf_puts(path, found);
  return buf_status(path);
}

Status peft_base(const char *dir, Buf *path) {
  char config[FILE_PATH_BYTES];
  Json *j;
  try(file_join(config, dir, "adapter_config.json"));
  try(json_read_file(config, CONFIG_MAX, &j));
  const Json *name = json_get(j, "base_model_name_or_path");
  const Status s = find_base(dir, config, name ? json_string(name) : NULL, path);
  json_free(j);
  return s;
}
