#include "checkpoint/config_load.h"

#include "checkpoint/gguf_config.h"
#include "formats/gguf.h"
#include "model/config_read.h"
#include "os/file.h"

enum { CONFIG_FILE_MAX = 16 << 20 };

static Status load_json(const char *dir, const char *name, char *path, Json **out) {
  try(file_join(path, dir, name));
  return json_read_file(path, CONFIG_FILE_MAX, out);
}

static Status load_gguf(Config *out, const char *path) {
  Gguf g;
  try(gguf_open(&g, path));
  const Status s = gguf_config_read(out, &g);
  gguf_close(&g);
  return s;
}

Status config_load(Config *out, const char *dir) {
  char path[FILE_PATH_BYTES];
  Json *j = NULL;
  Config c;
  if (gguf_is(dir)) return load_gguf(out, dir);
  if (!file_is_dir(dir)) return fail(GRPO_ENOENT, "%s: no such model directory", dir);
  try(load_json(dir, "config.json", path, &j));
  Status s = config_read(&c, j, path);
  json_free(j);
  try(s);
  try(file_join(path, dir, "generation_config.json"));
  if (file_exists(path)) {
    try(json_read_file(path, CONFIG_FILE_MAX, &j));
    s = config_read_generation(&c, j, path);
    json_free(j);
    try(s);
  }
  *out = c;
  return GRPO_OK;
}
