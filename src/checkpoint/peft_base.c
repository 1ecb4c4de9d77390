#include "checkpoint/peft_base.h"

#include "formats/json.h"
#include "formats/named_place.h"
#include "os/file.h"

enum { CONFIG_MAX = 16 << 20 };

bool peft_is_adapter(const char *dir) {
  char path[FILE_PATH_BYTES];
  if (file_join(path, dir, "adapter_config.json") != GRPO_OK || !file_exists(path)) return false;
  return file_join(path, dir, "config.json") == GRPO_OK && !file_exists(path);
}

/* Appends where a name lies; its revision may be NULL. */
static Status find_named(const char *name, const char *revision, Buf *path) {
  char version[NAMED_PLACE_VERSION];
  Buf full = {0};
  buf_printf(&full, "%s%s%s", name, revision ? "@" : "", revision ? revision : "");
  Status s = buf_status(&full);
  if (s == GRPO_OK) s = named_place_find(full.data, true, path, version);
  buf_free(&full);
  return s;
}

static Status find_base(const char *dir, const char *config, const Json *j, Buf *path) {
  const char *name = json_string(json_get(j, "base_model_name_or_path"));
  char beside[FILE_PATH_BYTES];
  if (!name || !*name)
    return fail(GRPO_EFORMAT,
                "%s: base_model_name_or_path: is missing; say which model the adapter belongs to",
                config);
  try(file_join(beside, dir, name));
  const bool relative = *name != '/';
  const char *found = relative && file_exists(beside) ? beside : name;
  if (!file_exists(found) && named_place_is_name(name)) {
    const Status s = find_named(name, json_string(json_get(j, "revision")), path);
    return s ? err_context(s, "%s: the base model", config) : GRPO_OK;
  }
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
  const Status s = find_base(dir, config, j, path);
  json_free(j);
  return s;
}
