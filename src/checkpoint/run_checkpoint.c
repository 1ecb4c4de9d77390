#include "checkpoint/run_checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "formats/json.h"
#include "os/file.h"

static const char manifest_name[] = "manifest.json";
enum { MANIFEST_MAX = 1 << 20, MANIFEST_FORMAT = 1 };

/* b = dir/name */
static Status join(Buf *b, const char *dir, const char *name) {
  buf_clear(b);
  buf_printf(b, "%s/%s", dir, name);
  return buf_status(b);
}

/* ---- begin and remove ----------------------------------------------------------------- */

/* Appends the temporary directory's path and removes what is there. */
static Status clear_temporary(const char *dir, Buf *tmp) {
  size_t n = strlen(dir);
  while (n > 1 && dir[n - 1] == '/') n--;
  size_t slash = n;
  while (slash && dir[slash - 1] != '/') slash--;
  if (slash == n)
    return fail(GRPO_EARG, "checkpoint: \"%s\" is not the name of a directory in another one", dir);
  const size_t start = tmp->len;
  buf_put(tmp, dir, slash);
  buf_puts(tmp, ".tmp-");
  buf_put(tmp, dir + slash, n - slash);
  try(buf_status(tmp));
  return file_remove_tree(tmp->data + start);
}

Status run_checkpoint_begin(const char *dir, Buf *tmp) {
  const size_t start = tmp->len;
  try(clear_temporary(dir, tmp));
  return file_mkdirs(tmp->data + start);
}

Status run_checkpoint_remove(const char *dir) {
  Buf tmp = {0};
  Status s = clear_temporary(dir, &tmp);
  if (s == GRPO_OK) s = file_rename(dir, tmp.data);
  if (s == GRPO_OK) s = file_remove_tree(tmp.data);
  buf_free(&tmp);
  return s;
}

/* ---- the manifest ----------------------------------------------------------------------- */

/* The length and checksum of a file, which is made durable where `sync` is set. */
static Status measure(const char *path, bool sync, uint64_t *size, uint32_t *crc) {
  try(file_checksum(path, size, crc));
  if (!sync) return GRPO_OK;
  const int fd = file_open(path, O_RDONLY | O_CLOEXEC, 0);
  const bool ok = fd >= 0 && file_sync(fd) == 0;
  const int why = errno;
  if (fd >= 0) close(fd);
  return ok ? GRPO_OK : fail(GRPO_EIO, "%s: cannot be made durable: %s", path, strerror(why));
}

typedef struct Listing {
  Buf names, path, json;
  int files;
} Listing;

static void listing_free(Listing *l) {
  buf_free(&l->names);
  buf_free(&l->path);
  buf_free(&l->json);
}

static Status list_file(Listing *l, const char *relative) {
  uint64_t size;
  uint32_t crc;
  try(measure(l->path.data, true, &size, &crc));
  buf_puts(&l->json, l->files++ ? ",\n    " : "\n    ");
  json_put_string(&l->json, relative, strlen(relative));
  buf_printf(&l->json, ": {\"size\": %" PRIu64 ", \"crc32c\": \"%08" PRIx32 "\"}", size, crc);
  return buf_status(&l->json);
}

static Status list_dir(Listing *l, const char *dir, const char *prefix, int depth);

static Status list_entry(Listing *l, const char *dir, const char *prefix, const char *name,
                         int depth) {
  char relative[512];
  if ((size_t)snprintf(relative, sizeof relative, "%s%s", prefix, name) >= sizeof relative - 1)
    return fail(GRPO_EARG, "%s/%s: the name is too long for a checkpoint", dir, name);
  try(join(&l->path, dir, relative));
  if (!file_is_dir(l->path.data)) return list_file(l, relative);
  if (depth > 0)
    return fail(GRPO_EARG, "%s: a checkpoint cannot have directories inside directories",
                l->path.data);
  strcat(relative, "/");
  return list_dir(l, dir, relative, depth + 1);
}

static Status list_dir(Listing *l, const char *dir, const char *prefix, int depth) {
  Buf names = {0};
  size_t count = 0;
  Status s = join(&l->path, dir, prefix);
  if (s == GRPO_OK) s = file_list(l->path.data, &names, &count);
  const char *name = names.data;
  for (size_t i = 0; i < count && s == GRPO_OK; i++, name += strlen(name) + 1)
    s = list_entry(l, dir, prefix, name, depth);
  if (s == GRPO_OK) s = join(&l->path, dir, prefix);
  if (s == GRPO_OK) s = file_sync_dir(l->path.data);
  buf_free(&names);
  return s;
}

static Status write_manifest(Listing *l, const char *dir) {
  buf_printf(&l->json, "{\n  \"format\": %d,\n  \"files\": {", MANIFEST_FORMAT);
  try(list_dir(l, dir, "", 0));
  buf_puts(&l->json, "\n  }\n}\n");
  try(buf_status(&l->json));
  try(join(&l->path, dir, manifest_name));
  return file_replace(l->path.data, l->json.data, l->json.len);
}

Status run_checkpoint_commit(const char *tmp, const char *dir) {
  Listing l = {0};
  if (file_exists(dir))
    return fail(GRPO_EARG, "%s: it exists already, and a checkpoint is never overwritten", dir);
  const Status s = write_manifest(&l, tmp);
  listing_free(&l);
  try(s);
  return file_rename(tmp, dir);
}

/* ---- verification ---------------------------------------------------------------------------- */

static bool is_in(CheckpointPart part, const char *name) {
  const char *end = strrchr(name, '.');
  if (part == CHECKPOINT_ALL) return true;
  if (strchr(name, '/')) return false;              /* of the reference, of older weights */
  if (strcmp(name, "README.md") == 0) return false; /* the card, which people edit */
  if (!end || strcmp(end, ".safetensors") != 0) return true;
  const bool weights = strncmp(name, "model", 5) == 0 || strncmp(name, "adapter_model", 13) == 0;
  return part == CHECKPOINT_MODEL && weights;
}

static Status verify_file(const char *dir, const Json *entry, Buf *path) {
  uint64_t size;
  uint32_t crc;
  char want[16];
  int64_t bytes;
  const char *name = json_key(entry), *sum = json_string(json_get(entry, "crc32c"));
  if (!sum || !json_integer(json_get(entry, "size"), &bytes))
    return fail(GRPO_EFORMAT, "%s/%s: the entry of \"%s\" is damaged", dir, manifest_name, name);
  try(join(path, dir, name));
  if (!file_exists(path->data))
    return fail(GRPO_EFORMAT, "%s: it is missing from the checkpoint", path->data);
  if (file_size(path->data) != bytes)
    return fail(GRPO_EFORMAT, "%s: it has %" PRId64 " bytes, but the manifest says %" PRId64,
                path->data, file_size(path->data), bytes);
  try(measure(path->data, false, &size, &crc));
  snprintf(want, sizeof want, "%08" PRIx32, crc);
  if (strcmp(want, sum) != 0)
    return fail(GRPO_EFORMAT,
                "%s: it is damaged, because its checksum is %s, but the manifest says %s",
                path->data, want, sum);
  return GRPO_OK;
}

static Status verify_files(const char *dir, const Json *manifest, CheckpointPart part, Buf *path) {
  int64_t format;
  if (!json_integer(json_get(manifest, "format"), &format))
    return fail(GRPO_EFORMAT, "%s/%s: the format is missing; is it a checkpoint?", dir,
                manifest_name);
  if (format != MANIFEST_FORMAT)
    return fail(GRPO_EFORMAT, "%s: it has checkpoint format %" PRId64 ", but this version reads %d",
                dir, format, MANIFEST_FORMAT);
  const Json *files = json_get(manifest, "files");
  if (!files || json_type(files) != JSON_OBJECT)
    return fail(GRPO_EFORMAT, "%s/%s: the list of files is missing", dir, manifest_name);
  for (const Json *f = json_child(files); f; f = json_next(f))
    if (is_in(part, json_key(f))) try(verify_file(dir, f, path));
  return GRPO_OK;
}

Status run_checkpoint_verify(const char *dir) {
  Buf path = {0};
  Json *manifest = NULL;
  Status s = GRPO_OK;
  if (!file_is_dir(dir)) return fail(GRPO_ENOENT, "%s: no such checkpoint", dir);
  s = join(&path, dir, manifest_name);
  if (s == GRPO_OK && !file_exists(path.data))
    s = fail(GRPO_ENOENT, "%s: not a checkpoint: it has no %s", dir, manifest_name);
  if (s == GRPO_OK) s = json_read_file(path.data, MANIFEST_MAX, &manifest);
  if (s == GRPO_OK) s = verify_files(dir, manifest, CHECKPOINT_ALL, &path);
  json_free(manifest);
  buf_free(&path);
  return s;
}

/* Other programs too call files so. */
static Status is_checkpoint(Buf *path, const char *dir, bool *yes) {
  try(join(path, dir, "trainer.json"));
  *yes = file_exists(path->data);
  try(join(path, dir, manifest_name));
  *yes = *yes && file_exists(path->data);
  return GRPO_OK;
}

Status run_checkpoint_check(const char *dir, CheckpointPart part) {
  Buf path = {0};
  Json *manifest = NULL;
  bool ours = false;
  Status s = is_checkpoint(&path, dir, &ours);
  if (s == GRPO_OK && ours) s = json_read_file(path.data, MANIFEST_MAX, &manifest);
  if (s == GRPO_OK && ours) s = verify_files(dir, manifest, part, &path);
  if (s == GRPO_EFORMAT)
    s = fail(s, "%s; restore it from a copy, or use another checkpoint", err_message());
  json_free(manifest);
  buf_free(&path);
  return s;
}

/* ---- the checkpoints of a run ------------------------------------------------------------ */

static const char folder[] = "checkpoints/";

void run_checkpoint_name(char *name, int64_t step) {
  snprintf(name, RUN_CHECKPOINT_NAME_BYTES, "%sstep-%06" PRId64, folder, step);
}

/* The step of a directory that run_checkpoint_name() names so; -1 for any other name. */
static int64_t step_of(const char *entry) {
  char name[RUN_CHECKPOINT_NAME_BYTES];
  if (strncmp(entry, "step-", 5) != 0) return -1;
  const int64_t step = strtoll(entry + 5, NULL, 10);
  run_checkpoint_name(name, step);
  return step >= 0 && strcmp(name + sizeof folder - 1, entry) == 0 ? step : -1;
}

static int by_step(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* names: those in the directory whose path is in `path`. */
static Status put_steps(Buf *path, const Buf *names, size_t count, Buf *steps) {
  const size_t first = steps->len, length = path->len;
  const char *name = names->data;
  for (size_t i = 0; i < count; i++, name += strlen(name) + 1) {
    const int64_t step = step_of(name);
    if (step < 0) continue;
    path->len = length;
    buf_puts(path, name);
    try(buf_status(path));
    if (file_is_dir(path->data)) buf_put(steps, &step, sizeof step);
  }
  try(buf_status(steps));
  if (steps->len > first)
    qsort(steps->data + first, (steps->len - first) / sizeof(int64_t), sizeof(int64_t), by_step);
  return GRPO_OK;
}

Status run_checkpoint_steps(const char *run, Buf *steps) {
  Buf path = {0}, names = {0};
  size_t count = 0;
  Status s = join(&path, run, folder);
  if (s == GRPO_OK && file_is_dir(path.data)) s = file_list(path.data, &names, &count);
  if (s == GRPO_OK) s = put_steps(&path, &names, count, steps);
  buf_free(&path);
  buf_free(&names);
  return s;
}

Status run_checkpoint_newest(const char *run, Buf *path) {
  char name[RUN_CHECKPOINT_NAME_BYTES] = "latest";
  const size_t start = path->len;
  Buf steps = {0};
  const Status s = run_checkpoint_steps(run, &steps);
  if (steps.len > 0) {
    int64_t step;
    memcpy(&step, steps.data + steps.len - sizeof step, sizeof step);
    run_checkpoint_name(name, step);
  }
  buf_free(&steps);
  try(s);
  buf_printf(path, "%s/%s", run, name);
  try(buf_status(path));
  if (file_is_dir(path->data + start)) return GRPO_OK;
  return fail(GRPO_ENOENT, "%s: the run has no checkpoint yet", run);
}
