#include "hub/hub_cache.h"

#include <stdlib.h>
#include <unistd.h>

#include "os/file.h"
#include "status.h"
#include "testing.h"

#define FIRST  "0123456789abcdef0123456789abcdef01234567"
#define SECOND "89abcdef0123456789abcdef0123456789abcdef"

static void clear_variables(void) {
  static const char *const names[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME",
                                      "XDG_CACHE_HOME"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unsetenv(names[i]);
}

static const char *cache_dir(void) {
  static Buf b;
  buf_clear(&b);
  return hub_cache_dir(&b) ? err_message() : b.data;
}

/* Writes a file below the cache of this test, with the folders above it. */
static void put(const char *name, const char *text) {
  char folder[FILE_PATH_BYTES];
  snprintf(folder, sizeof folder, "%s/cache/%s", test_tmp(), name);
  *strrchr(folder, '/') = 0;
  OK(file_mkdirs(folder));
  OK(file_replace(test_path("%s/cache/%s", test_tmp(), name), text, strlen(text)));
}

static void begin(void) {
  clear_variables();
  OK(file_remove_tree(test_path("%s/cache", test_tmp())));
  setenv("HF_HUB_CACHE", test_path("%s/cache", test_tmp()), 1);
}

/* The place of a name within the cache, or the error; valid until the next call. */
static const char *place_of(const char *name, bool whole) {
  static Buf b;
  char commit[HUB_COMMIT_BYTES];
  const size_t cache = strlen(test_path("%s/cache/", test_tmp()));
  buf_clear(&b);
  if (hub_cache_place(name, whole, &b, commit)) return err_message();
  return *commit ? b.data + cache : b.data;
}

TEST(names_have_one_or_two_parts_and_perhaps_a_revision) {
  static const char *const good[] = {"gpt2",       "HuggingFaceTB/SmolLM2-135M-Instruct",
                                     "a/b@main",   "a/b@refs/pr/1",
                                     "a/b@" FIRST, "a_b/c.d",
                                     "a/B-GGUF",   "_a/b",
                                     "a/b@v1.0"};
  static const char *const bad[] = {
      "",
      "/a/b",
      "./a",
      "../a",
      "a/b/c",
      "a/",
      "/",
      "a b",
      "a/.b",
      "a/b.",
      "-a/b",
      "a/b--c",
      "a/b..c",
      "a\\b",
      "a/b@",
      "a/b@../x",
      "a/b@/x",
      "a/b@x/",
      "a/b@x//y",
      "a/b@.x",
      "a/b.gguf",
      "my.lua",
      "a/b@x y",
      "a/b@x/../y",
      "a/b@@c",
      "a/"
      "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"
      "123456"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
    if (!hub_is_name(good[i])) test_fail(__FILE__, __LINE__, "%s is a name", good[i]);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    if (hub_is_name(bad[i])) test_fail(__FILE__, __LINE__, "%s is not a name", bad[i]);
}

TEST(variables_say_where_the_cache_is) {
  clear_variables();
  setenv("HOME", "/home/one", 1);
  CHECK_STR(cache_dir(), "/home/one/.cache/huggingface/hub");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  CHECK_STR(cache_dir(), "/xdg/huggingface/hub");
  setenv("HF_HOME", "~/hf/", 1);
  CHECK_STR(cache_dir(), "/home/one/hf/hub");
  setenv("HUGGINGFACE_HUB_CACHE", "/old", 1);
  CHECK_STR(cache_dir(), "/old");
  setenv("HF_HUB_CACHE", "/new", 1);
  CHECK_STR(cache_dir(), "/new");
  setenv("HF_HUB_CACHE", "", 1);
  CHECK_STR(cache_dir(), "/old");
}

TEST(a_name_is_found_by_its_branch_tag_or_commit) {
  begin();
  put("models--a--b/refs/main", FIRST);
  put("models--a--b/refs/refs/pr/1", SECOND "\n");
  put("models--a--b/snapshots/" FIRST "/config.json", "{}");
  put("models--a--b/snapshots/" SECOND "/config.json", "{}");
  put("models--word/refs/main", SECOND);
  put("models--word/snapshots/" SECOND "/config.json", "{}");
  CHECK_STR(place_of("a/b", false), "models--a--b/snapshots/" FIRST);
  CHECK_STR(place_of("a/b@main", false), "models--a--b/snapshots/" FIRST);
  CHECK_STR(place_of("a/b@refs/pr/1", false), "models--a--b/snapshots/" SECOND);
  CHECK_STR(place_of("a/b@" SECOND, false), "models--a--b/snapshots/" SECOND);
  CHECK_STR(place_of("word", false), "models--word/snapshots/" SECOND);
  CHECK_STR(place_of("other", false), "other");
  CHECK_STR(place_of("/nowhere/at/all", true), "/nowhere/at/all");
}

TEST(a_path_on_the_disk_wins) {
  begin();
  char before[FILE_PATH_BYTES];
  CHECK(getcwd(before, sizeof before) != NULL);
  put("models--a--b/refs/main", FIRST);
  put("models--a--b/snapshots/" FIRST "/config.json", "{}");
  OK(file_mkdirs(test_path("%s/here/a/b", test_tmp())));
  CHECK(chdir(test_path("%s/here", test_tmp())) == 0);
  CHECK_STR(place_of("a/b", true), "a/b");
  CHECK(chdir(before) == 0);
}

TEST(what_is_not_there_is_said_with_the_command_that_brings_it) {
  Buf b = {0};
  char commit[HUB_COMMIT_BYTES];
  begin();
  REFUSED(hub_cache_place("a/b", true, &b, commit), GRPO_ENOENT,
          "a/b: is not a path here, and the Hugging Face cache does not have a model of this name");
  CHECK(strstr(err_message(), "/cache/models--a--b is not there; 'grpo pull a/b' brings it"));
  put("models--a--b/refs/main", FIRST);
  put("models--a--b/snapshots/" FIRST "/config.json", "{}");
  REFUSED(hub_cache_place("a/b@v2", true, &b, commit), GRPO_ENOENT,
          "has other revisions, but not this one; 'grpo pull a/b@v2' brings it");
  REFUSED(hub_cache_find("a/b", HUB_DATASET, &b, commit), GRPO_ENOENT,
          "/cache/datasets--a--b is not there; 'grpo pull --dataset a/b' brings it");
  REFUSED(hub_cache_find("a/../b", HUB_DATASET, &b, commit), GRPO_EARG, "is not a name of the Hub");
  put("models--a--b/refs/main", "not a commit");
  REFUSED(hub_cache_place("a/b", true, &b, commit), GRPO_EFORMAT, "does not hold a commit");
  put("models--a--b/refs/main", SECOND); /* whose snapshot is missing */
  REFUSED(hub_cache_place("a/b", true, &b, commit), GRPO_ENOENT, "'grpo pull a/b' brings it");
  buf_free(&b);
}

static const char index_text[] =
    "{\"weight_map\": {\"x\": \"model-1.safetensors\", \"y\": \"model-2.safetensors\"}}";
#define IN(file) "models--a--b/snapshots/" FIRST "/" file

TEST(an_incomplete_snapshot_is_told) {
  Buf b = {0};
  char commit[HUB_COMMIT_BYTES];
  begin();
  put("models--a--b/refs/main", FIRST);
  put(IN("tokenizer.json"), "{}");
  CHECK_STR(place_of("a/b", false), "models--a--b/snapshots/" FIRST);
  REFUSED(hub_cache_place("a/b", true, &b, commit), GRPO_ENOENT, "does not have config.json");
  put(IN("config.json"), "{}");
  REFUSED(hub_cache_place("a/b", true, &b, commit), GRPO_ENOENT, "does not have model.safetensors");
  put(IN("pytorch_model.bin"), "x");
  REFUSED(hub_cache_place("a/b", true, &b, commit), GRPO_EFORMAT, "Python's pickles");
  put(IN("model.safetensors.index.json"), index_text);
  put(IN("model-1.safetensors"), "x");
  REFUSED(hub_cache_place("a/b", true, &b, commit), GRPO_ENOENT,
          "does not have model-2.safetensors; 'grpo pull a/b' brings what is missing");
  /* a link to a blob that is gone */
  CHECK(symlink("../../blobs/0", test_path("%s/cache/%s", test_tmp(), IN("model-2.safetensors"))) ==
        0);
  REFUSED(hub_cache_place("a/b", true, &b, commit), GRPO_ENOENT,
          "does not have model-2.safetensors");
  put("models--a--b/blobs/0", "x");
  CHECK_STR(place_of("a/b", true), "models--a--b/snapshots/" FIRST);
  buf_free(&b);
}

TEST(a_snapshot_with_one_gguf_file_is_that_file) {
  begin();
  put("models--a--b/refs/main", FIRST);
  put(IN("README.md"), "x");
  put(IN("q8.gguf"), "x");
  CHECK_STR(place_of("a/b", true), "models--a--b/snapshots/" FIRST "/q8.gguf");
  put(IN("q4.gguf"), "x");
  CHECK(strstr(place_of("a/b", true), "a/b: has 2 .gguf files; give the path of one of those in"));
}
