#include "hub/hub_cache.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/extension.h"
#include "formats/json.h"
#include "formats/named_place.h"
#include "os/file.h"

enum { LONGEST_PART = 96, LONGEST_REVISION = 256, LONGEST_INDEX = 64 << 20, COMMIT = 40 };

/* ---- names ------------------------------------------------------------------------ */

/* A name cut at its "@". */
typedef struct Name {
  const char *text; /* as it was given */
  size_t repo;      /* bytes before the "@" */
  const char *revision;
} Name;

static bool is_part(const char *s, size_t n) {
  if (n == 0 || n > LONGEST_PART || !isalnum((unsigned char)s[0])) {
    if (n == 0 || n > LONGEST_PART || s[0] != '_') return false;
  }
  if (s[n - 1] == '-' || s[n - 1] == '.') return false;
  for (size_t i = 0; i < n; i++) {
    const char c = s[i];
    if (!isalnum((unsigned char)c) && c != '-' && c != '_' && c != '.') return false;
    if (i && c == s[i - 1] && (c == '-' || c == '.')) return false;
  }
  return true;
}

static bool is_revision(const char *s) {
  const size_t n = strlen(s);
  if (n == 0 || n > LONGEST_REVISION || s[0] == '/' || s[n - 1] == '/') return false;
  for (size_t i = 0; i < n; i++) {
    const char c = s[i];
    if (!isalnum((unsigned char)c) && !strchr("-_./+", c)) return false;
    if (c == '.' && (i == 0 || s[i - 1] == '/' || s[i - 1] == '.')) return false;
    if (c == '/' && s[i - 1] == '/') return false;
  }
  return true;
}

static bool ends_in(const char *s, size_t n, const char *ending) {
  const size_t m = strlen(ending);
  return n > m && memcmp(s + n - m, ending, m) == 0;
}

/* A path to a file is not a name, even when the file is not there. */
static bool is_file_name(const char *s, size_t n) {
  static const char *const endings[] = {".gguf", ".json", ".jsonl",       ".lua",  ".yaml",
                                        ".yml",  ".txt",  ".safetensors", ".model"};
  for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
    if (ends_in(s, n, endings[i])) return true;
  return false;
}

static bool cut(const char *text, Name *name) {
  const char *at = strchr(text, '@');
  *name = (Name){text, at ? (size_t)(at - text) : strlen(text), at ? at + 1 : "main"};
  const char *slash = memchr(text, '/', name->repo);
  const size_t first = slash ? (size_t)(slash - text) : name->repo;
  if (!is_part(text, first) || is_file_name(text, name->repo)) return false;
  if (slash && !is_part(slash + 1, name->repo - first - 1)) return false;
  return !at || is_revision(name->revision);
}

bool hub_is_name(const char *text) {
  Name name;
  return cut(text, &name);
}

static Status want_name(const char *text, Name *name) {
  if (cut(text, name)) return GRPO_OK;
  return fail(GRPO_EARG,
              "%s: is not a name of the Hub; want ORGANISATION/REPOSITORY, perhaps with @REVISION",
              text);
}

/* ---- the cache --------------------------------------------------------------------- */

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

/* Appends a directory of the environment, in which a leading ~ is the user's home. */
static void put_dir(Buf *out, const char *dir) {
  const char *home = dir[0] == '~' && (dir[1] == '/' || !dir[1]) ? variable("HOME") : NULL;
  if (home) buf_puts(out, home);
  buf_puts(out, dir + (home ? 1 : 0));
  while (out->len > 1 && out->data[out->len - 1] == '/') out->data[--out->len] = 0;
}

Status hub_cache_dir(Buf *out) {
  static const struct {
    const char *name, *below;
  } places[] = {{"HF_HUB_CACHE", ""},
                {"HUGGINGFACE_HUB_CACHE", ""},
                {"HF_HOME", "/hub"},
                {"XDG_CACHE_HOME", "/huggingface/hub"}};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    const char *dir = variable(places[i].name);
    if (!dir) continue;
    put_dir(out, dir);
    buf_puts(out, places[i].below);
    return buf_status(out);
  }
  put_dir(out, "~");
  buf_puts(out, "/.cache/huggingface/hub");
  return buf_status(out);
}

static void put_repo(Buf *out, const Name *name, HubKind kind) {
  buf_puts(out, kind == HUB_DATASET ? "datasets--" : "models--");
  for (size_t i = 0; i < name->repo; i++) {
    if (name->text[i] == '/')
      buf_puts(out, "--");
    else
      buf_putc(out, name->text[i]);
  }
}

static Status put_place(Buf *out, const Name *name, HubKind kind) {
  try(hub_cache_dir(out));
  buf_putc(out, '/');
  put_repo(out, name, kind);
  return buf_status(out);
}

Status hub_cache_repo(const char *text, HubKind kind, Buf *out) {
  Name name;
  try(want_name(text, &name));
  return put_place(out, &name, kind);
}

static bool is_commit(const char *s, size_t n) {
  return n == COMMIT && strspn(s, "0123456789abcdef") >= COMMIT;
}

/* REPO is the directory of the repository, which has or has not been downloaded at all. */
static Status not_there(const Name *name, HubKind kind, const char *repo) {
  const char *lacks = file_is_dir(repo) ? "has other revisions, but not this one" : "is not there";
  if (kind == HUB_DATASET)
    return fail(GRPO_ENOENT,
                "%s: the Hugging Face cache does not have this dataset: %s %s; 'grpo pull "
                "--dataset %s' brings it",
                name->text, repo, lacks, name->text);
  return fail(GRPO_ENOENT,
              "%s: is not a path here, and the Hugging Face cache does not have a model of this "
              "name: %s %s; 'grpo pull %s' brings it",
              name->text, repo, lacks, name->text);
}

/* Reads the commit in REPO/refs/REVISION; false if there is no such file. */
static Status read_ref(const Name *name, const char *repo, char *commit, bool *there) {
  char refs[FILE_PATH_BYTES], path[FILE_PATH_BYTES];
  Buf text = {0};
  try(file_join(refs, repo, "refs"));
  try(file_join(path, refs, name->revision));
  *there = file_exists(path);
  if (!*there) return GRPO_OK;
  Status s = file_read(path, 4096, &text);
  const size_t n = s || !text.data ? 0 : strcspn(text.data, " \r\n");
  if (s == GRPO_OK && !is_commit(text.data ? text.data : "", n))
    s = fail(GRPO_EFORMAT, "%s: does not hold a commit", path);
  if (s == GRPO_OK) memcpy(commit, text.data, COMMIT);
  commit[COMMIT] = 0;
  buf_free(&text);
  return s;
}

static Status find_commit(const Name *name, HubKind kind, const char *repo, char *commit) {
  bool there = true;
  if (is_commit(name->revision, strlen(name->revision)))
    memcpy(commit, name->revision, HUB_COMMIT_BYTES);
  else
    try(read_ref(name, repo, commit, &there));
  return there ? GRPO_OK : not_there(name, kind, repo);
}

static Status find(const Name *name, HubKind kind, Buf *repo, Buf *dir, char *commit) {
  try(put_place(repo, name, kind));
  try(find_commit(name, kind, repo->data, commit));
  const size_t before = dir->len;
  buf_printf(dir, "%s/snapshots/%s", repo->data, commit);
  try(buf_status(dir));
  return file_is_dir(dir->data + before) ? GRPO_OK : not_there(name, kind, repo->data);
}

Status hub_cache_find(const char *text, HubKind kind, Buf *dir, char *commit) {
  Name name;
  Buf repo = {0};
  try(want_name(text, &name));
  const Status s = find(&name, kind, &repo, dir, commit);
  buf_free(&repo);
  return s;
}

/* ---- is a snapshot complete? -------------------------------------------------------- */

static bool has(const char *dir, const char *file) {
  char path[FILE_PATH_BYTES];
  return file_join(path, dir, file) == GRPO_OK && file_size(path) >= 0;
}

static Status incomplete(const char *name, const char *dir, const char *file) {
  return fail(GRPO_ENOENT,
              "%s: its snapshot in the Hugging Face cache is incomplete: %s does not have %s; "
              "'grpo pull %s' brings what is missing",
              name, dir, file, name);
}

static Status check_shards(const char *name, const char *dir, const Json *index) {
  for (const Json *j = json_child(json_get(index, "weight_map")); j; j = json_next(j)) {
    const char *file = json_string(j);
    if (file && !has(dir, file)) return incomplete(name, dir, file);
  }
  return GRPO_OK;
}

static Status check_index(const char *name, const char *dir) {
  char path[FILE_PATH_BYTES];
  Json *index;
  try(file_join(path, dir, "model.safetensors.index.json"));
  try(json_read_file(path, LONGEST_INDEX, &index));
  const Status s = check_shards(name, dir, index);
  json_free(index);
  return s;
}

/* Finds the first name in a directory with this ending; how many there are. */
static Status count_ending(const char *dir, const char *ending, size_t *count, char *first) {
  Buf names = {0};
  size_t n = 0;
  Status s = file_list(dir, &names, &n);
  const char *name = names.data;
  *count = 0;
  for (size_t i = 0; s == GRPO_OK && i < n; i++, name += strlen(name) + 1) {
    if (!ends_in(name, strlen(name), ending)) continue;
    if ((*count)++ == 0) s = file_join(first, dir, name);
  }
  buf_free(&names);
  return s;
}

Status hub_cache_check_model(const char *name, const char *dir) {
  char first[FILE_PATH_BYTES];
  size_t gguf = 0, pickled = 0;
  if (has(dir, "model.safetensors.index.json")) {
    try(check_index(name, dir));
    return has(dir, "config.json") ? GRPO_OK : incomplete(name, dir, "config.json");
  }
  if (has(dir, "adapter_config.json"))
    return has(dir, "adapter_model.safetensors")
               ? GRPO_OK
               : incomplete(name, dir, "adapter_model.safetensors");
  try(count_ending(dir, ".gguf", &gguf, first));
  if (gguf) return GRPO_OK;
  if (!has(dir, "config.json")) return incomplete(name, dir, "config.json");
  if (has(dir, "model.safetensors")) return GRPO_OK;
  try(count_ending(dir, ".bin", &pickled, first));
  if (pickled)
    return fail(GRPO_EFORMAT,
                "%s: %s has weights in .bin files only, which are Python's pickles; grpo reads "
                "safetensors and GGUF, so convert them with save_pretrained() of transformers",
                name, dir);
  return incomplete(name, dir, "model.safetensors");
}

/* ---- places ------------------------------------------------------------------------- */

/* A snapshot that holds GGUF files alone stands for its only one. */
static Status take_gguf(const char *name, Buf *place, size_t before) {
  char first[FILE_PATH_BYTES];
  size_t count = 0;
  const char *dir = place->data + before;
  if (has(dir, "config.json") || has(dir, "adapter_config.json")) return GRPO_OK;
  try(count_ending(dir, ".gguf", &count, first));
  if (count > 1)
    return fail(GRPO_EARG, "%s: has %zu .gguf files; give the path of one of those in %s", name,
                count, dir);
  if (count == 0) return GRPO_OK;
  place->len = before;
  buf_puts(place, first);
  return buf_status(place);
}

static Status find_place(const char *name, bool whole, Buf *place, char *commit) {
  const size_t before = place->len;
  try(hub_cache_find(name, HUB_MODEL, place, commit));
  if (whole) try(hub_cache_check_model(name, place->data + before));
  return take_gguf(name, place, before);
}

static bool in_cache(const Name *name) {
  Buf repo = {0};
  const bool there = put_place(&repo, name, HUB_MODEL) == GRPO_OK && file_is_dir(repo.data);
  buf_free(&repo);
  return there;
}

Status hub_cache_place(const char *path, bool whole, Buf *place, char *commit) {
  Name name;
  commit[0] = 0;
  if (!file_exists(path) && cut(path, &name) && (memchr(path, '/', name.repo) || in_cache(&name)))
    return find_place(path, whole, place, commit);
  buf_puts(place, path);
  return buf_status(place);
}

EXTENSION(hub_names) {
  static NamedPlace row = {.is_name = hub_is_name, .find = hub_cache_place};
  named_place_add(&row);
}
