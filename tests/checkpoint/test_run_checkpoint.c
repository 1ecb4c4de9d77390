/* Directories that are whole or not there. */

#include "checkpoint/run_checkpoint.h"
#include "os/file.h"
#include "testing.h"

/* A path that outlives further calls of test_path. */
static const char *path_of(const char *name) {
  static char path[4][512];
  static int next;
  char *p = path[next++ % 4];
  snprintf(p, sizeof path[0], "%s/%s", test_tmp(), name);
  return p;
}

static char *begin(const char *dir) {
  static Buf tmp;
  buf_clear(&tmp);
  CHECK(!run_checkpoint_begin(dir, &tmp));
  return tmp.data;
}

static void put(const char *dir, const char *name, const char *text) {
  CHECK(!file_replace(test_path("%s/%s", dir, name), text, strlen(text)));
}

/* A checkpoint with two files and a sub-directory, at `dir`. */
static void make(const char *dir) {
  const char *tmp = begin(dir);
  put(tmp, "weights", "0123456789");
  put(tmp, "empty", "");
  CHECK(!file_mkdirs(test_path("%s/reference", tmp)));
  put(tmp, "reference/weights", "abc");
  CHECK(!run_checkpoint_commit(tmp, dir));
}

TEST(a_committed_checkpoint_verifies) {
  const char *dir = path_of("a/step-1");
  make(dir);
  if (run_checkpoint_verify(dir)) test_fail(__FILE__, __LINE__, "%s", err_message());
  CHECK(!file_exists(test_path("%s/a/.tmp-step-1", test_tmp())));
  const char *tmp = begin(dir);
  CHECK(run_checkpoint_commit(tmp, dir) == GRPO_EARG);
}

static void check_damaged(const char *dir, const char *word) {
  CHECK(run_checkpoint_verify(dir) == GRPO_EFORMAT);
  if (!strstr(err_message(), word))
    test_fail(__FILE__, __LINE__, "\"%s\" does not say %s", err_message(), word);
}

TEST(damage_is_found_and_named) {
  const char *dir = path_of("b/step-1");
  make(dir);
  put(dir, "reference/weights", "abd");
  check_damaged(dir, "reference/weights");
  put(dir, "reference/weights", "abcd");
  check_damaged(dir, "bytes");
  put(dir, "reference/weights", "abc");
  CHECK(!run_checkpoint_verify(dir));
  CHECK(!remove(test_path("%s/weights", dir)));
  check_damaged(dir, "missing");
  put(dir, "manifest.json", "{\"format\": 2}");
  check_damaged(dir, "format 2");
  put(dir, "manifest.json", "{");
  CHECK(run_checkpoint_verify(dir) == GRPO_EFORMAT);
  CHECK(!remove(test_path("%s/manifest.json", dir)));
  CHECK(run_checkpoint_verify(dir) == GRPO_ENOENT);
  CHECK(run_checkpoint_verify(test_path("%s/none", test_tmp())) == GRPO_ENOENT);
}

/* ---- damage of single bytes ---- */

static const char *const parts[] = {"adapter_model.safetensors",
                                    "config.json",
                                    "optimizer.safetensors",
                                    "reference/model.safetensors",
                                    "tokenizer.json",
                                    "trainer.json",
                                    "manifest.json"};
enum { PARTS = sizeof parts / sizeof *parts, MANIFEST = PARTS - 1 };

static void make_checkpoint(const char *dir) {
  const char *tmp = begin(dir);
  CHECK(!file_mkdirs(test_path("%s/reference", tmp)));
  for (int i = 0; i < MANIFEST; i++) put(tmp, parts[i], parts[i]);
  CHECK(!run_checkpoint_commit(tmp, dir));
}

/* Without cutting the file or a sync: this is done thousands of times. */
static void put_byte(const char *dir, int part, size_t at, int byte) {
  FILE *f = fopen(test_path("%s/%s", dir, parts[part]), "r+b");
  CHECK(f && !fseek(f, (long)at, SEEK_SET) && fputc(byte, f) == byte && !fclose(f));
}

static bool read_by_model(int part) { return part != 2 && part != 3; }
static bool read_by_tokenizer(int part) { return read_by_model(part) && part != 0; }

/* A manifest with a changed byte may still say the same, in its white space alone. */
static void check_flip(const char *dir, int part, unsigned char was) {
  if (part == MANIFEST) {
    if (was == ' ' || was == '\n') return;
    CHECK(run_checkpoint_verify(dir) == GRPO_EFORMAT);
    return;
  }
  CHECK(run_checkpoint_verify(dir) == GRPO_EFORMAT);
  CHECK(strstr(err_message(), parts[part]));
  CHECK(run_checkpoint_check(dir, CHECKPOINT_MODEL) ==
        (read_by_model(part) ? GRPO_EFORMAT : GRPO_OK));
  CHECK(run_checkpoint_check(dir, CHECKPOINT_TOKENIZER) ==
        (read_by_tokenizer(part) ? GRPO_EFORMAT : GRPO_OK));
}

TEST(every_flipped_bit_of_every_file_is_found) {
  const char *dir = path_of("g/step-1");
  Buf text = {0};
  int flips = 0;
  make_checkpoint(dir);
  CHECK(!run_checkpoint_check(dir, CHECKPOINT_MODEL) &&
        !run_checkpoint_check(dir, CHECKPOINT_TOKENIZER));
  for (int part = 0; part < PARTS; part++) {
    buf_clear(&text);
    CHECK(!file_read(test_path("%s/%s", dir, parts[part]), 1 << 20, &text));
    for (size_t i = 0; i < 8 * text.len; i++, flips++) {
      const unsigned char was = (unsigned char)text.data[i / 8];
      put_byte(dir, part, i / 8, was ^ 1 << i % 8);
      check_flip(dir, part, was);
      put_byte(dir, part, i / 8, was);
    }
  }
  CHECK(flips > 4000 && !run_checkpoint_verify(dir));
  buf_free(&text);
}

TEST(what_is_no_checkpoint_is_not_checked) {
  const char *dir = path_of("h/step-1");
  make_checkpoint(dir);
  put(dir, "config.json", "changed");
  CHECK(run_checkpoint_check(dir, CHECKPOINT_MODEL) == GRPO_EFORMAT);
  CHECK(strstr(err_message(), "restore it from a copy, or use another checkpoint"));
  CHECK(!remove(test_path("%s/trainer.json", dir)));
  CHECK(!run_checkpoint_check(dir, CHECKPOINT_MODEL));
  CHECK(!run_checkpoint_check(test_path("%s/config.json", dir), CHECKPOINT_MODEL));
  CHECK(!run_checkpoint_check(path_of("nowhere"), CHECKPOINT_MODEL));
}

TEST(what_a_killed_process_left_is_cleared) {
  const char *dir = path_of("c/step-1");
  const char *tmp = begin(dir);
  put(tmp, "half", "x");
  CHECK(run_checkpoint_verify(dir) == GRPO_ENOENT);
  tmp = begin(dir);
  CHECK(!file_exists(test_path("%s/half", tmp)));
  CHECK(run_checkpoint_begin("/", &(Buf){0}) == GRPO_EARG);
}

TEST(a_checkpoint_is_removed_whole) {
  const char *dir = path_of("d/step-1");
  make(dir);
  CHECK(!run_checkpoint_remove(dir));
  CHECK(!file_exists(dir) && !file_exists(test_path("%s/d/.tmp-step-1", test_tmp())));
  CHECK(run_checkpoint_remove(dir) == GRPO_ENOENT);
}

/* ---- the checkpoints of a run ---- */

static void check_newest(const char *run, const char *want) {
  Buf path = {0};
  const Status s = run_checkpoint_newest(run, &path);
  if (want && s == GRPO_OK) {
    CHECK_STR(path.data, test_path("%s/%s", run, want));
  } else {
    CHECK(!want && s == GRPO_ENOENT);
  }
  buf_free(&path);
}

TEST(checkpoints_are_ordered_by_number_and_others_names_are_left_out) {
  static const char *const names[] = {"step-1000000", "step-000002", "step-999999",
                                      "step-5",       "mybest",      "step-0000009",
                                      "step--00001",  "step-",       ".tmp-step-2000000"};
  const char *run = path_of("e");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    CHECK(!file_mkdirs(test_path("%s/checkpoints/%s", run, names[i])));
  put(run, "checkpoints/step-3000000", "a file");
  Buf steps = {0};
  CHECK(!run_checkpoint_steps(run, &steps));
  const int64_t want[] = {2, 999999, 1000000};
  CHECK(steps.len == sizeof want && !memcmp(steps.data, want, sizeof want));
  buf_free(&steps);
  check_newest(run, "checkpoints/step-1000000");
}

TEST(the_newest_checkpoint_is_found_although_latest_is_older_or_gone) {
  const char *run = path_of("f");
  check_newest(run, NULL);
  CHECK(!file_mkdirs(test_path("%s/elsewhere", run)));
  CHECK(!file_link_replace("elsewhere", test_path("%s/latest", run)));
  check_newest(run, "latest");
  CHECK(!file_mkdirs(test_path("%s/checkpoints/step-000003", run)));
  check_newest(run, "checkpoints/step-000003");
  CHECK(!file_link_replace("nowhere", test_path("%s/latest", run)));
  check_newest(run, "checkpoints/step-000003");
}
