#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "os/file.h"
#include "status.h"

static const char *tmp(const char *name) { return test_path("%s/%s", test_tmp(), name); }

static const char *contents(const char *path) {
  static Buf b;
  buf_clear(&b);
  if (file_read(path, 0, &b) != GRPO_OK) return NULL;
  buf_put(&b, "", 1);
  return b.data;
}

/* Names in a directory joined by spaces. */
static const char *names(const char *path) {
  static char out[512];
  Buf b = {0};
  size_t n = 0;
  out[0] = 0;
  if (file_list(path, &b, &n) != GRPO_OK) return "error";
  const char *p = b.data;
  for (size_t i = 0; i < n; i++, p += strlen(p) + 1) {
    if (i) strcat(out, " ");
    strcat(out, p);
  }
  buf_free(&b);
  return out;
}

TEST(replacing_a_file_is_whole_and_leaves_nothing_beside_it) {
  file_mkdirs(tmp("r"));
  CHECK(file_replace(tmp("r/f"), "one", 3) == GRPO_OK);
  CHECK_STR(contents(tmp("r/f")), "one");
  CHECK(chmod(tmp("r/f"), 0640) == 0);
  CHECK(file_replace(tmp("r/f"), "", 0) == GRPO_OK);
  CHECK_STR(contents(tmp("r/f")), "");
  struct stat st;
  CHECK(stat(tmp("r/f"), &st) == 0 && (st.st_mode & 0777) == 0640);
  CHECK_STR(names(tmp("r")), "f");
  REFUSED(file_replace(tmp("none/f"), "x", 1), GRPO_ENOENT, "none/f");
  CHECK(file_replace(tmp("r"), "x", 1) == GRPO_EIO);
}

TEST(a_name_of_the_greatest_length_can_be_replaced) {
  char name[256];
  memset(name, 'n', 255);
  name[255] = 0;
  CHECK(file_replace(tmp(name), "x", 1) == GRPO_OK);
  CHECK_STR(contents(tmp(name)), "x");
}

TEST(a_process_that_dies_while_writing_leaves_the_old_file) {
  file_mkdirs(tmp("crash"));
  CHECK(file_replace(tmp("crash/f"), "old", 3) == GRPO_OK);
  const char *path = tmp("crash/f");
  const pid_t child = fork();
  if (child == 0) {
    static char big[300000];
    FileWriter *w;
    if (file_writer_open(&w, path) != GRPO_OK) _exit(1);
    file_writer_put(w, big, sizeof big);
    _exit(0); /* neither commit nor abort */
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK_STR(contents(path), "old");
  CHECK(file_replace(path, "new", 3) == GRPO_OK);
  CHECK_STR(contents(path), "new");
}

TEST(a_writer_counts_and_sums_what_it_writes) {
  const size_t n = 200001;
  char *data = malloc(n);
  for (size_t i = 0; i < n; i++) data[i] = (char)(i * 7 + i / 251);
  FileWriter *w;
  CHECK(file_writer_open(&w, tmp("w")) == GRPO_OK);
  for (size_t at = 0, k = 1; at < n; at += k, k = k * 3 + 1) {
    if (k > n - at) k = n - at;
    CHECK(file_writer_put(w, data + at, k) == GRPO_OK);
  }
  CHECK(file_writer_put(w, NULL, 0) == GRPO_OK);
  CHECK(!file_exists(tmp("w")));
  CHECK(file_writer_commit(w) == GRPO_OK);
  uint64_t size = 0;
  uint32_t sum = 0;
  CHECK(file_checksum(tmp("w"), &size, &sum) == GRPO_OK);
  CHECK(size == n && sum == crc32c(0, data, n));
  CHECK(memcmp(contents(tmp("w")), data, n) == 0);
  free(data);
}

TEST(an_aborted_writer_leaves_no_trace) {
  FileWriter *w;
  file_mkdirs(tmp("abort"));
  CHECK(file_writer_open(&w, tmp("abort/f")) == GRPO_OK);
  CHECK(file_writer_put(w, "x", 1) == GRPO_OK);
  file_writer_abort(w);
  file_writer_abort(NULL);
  CHECK_STR(names(tmp("abort")), "");
}

/* A rename would put a file in the place of the pipe, or, for root, of /dev/null. */
TEST(a_writer_replaces_regular_files_only) {
  FileWriter *w;
  struct stat st;
  CHECK(mkfifo(tmp("queue"), 0600) == 0);
  CHECK(file_writer_open(&w, tmp("queue")) == GRPO_EIO && !w);
  CHECK(strstr(err_message(), "it is a named pipe; name a regular file"));
  CHECK(stat(tmp("queue"), &st) == 0 && S_ISFIFO(st.st_mode));
  CHECK(file_mkdirs(tmp("queue/x")) == GRPO_EIO);
  CHECK(strstr(err_message(), "queue: there is a file of this name"));
}

TEST(a_full_disk_is_an_error_and_no_file) {
  if (access("/dev/full", W_OK) != 0) {
    test_skip("no /dev/full");
    return;
  }
  FileWriter *w;
  CHECK(file_writer_open(&w, tmp("full")) == GRPO_OK);
  /* stand in for a full disk: the descriptor of the temporary now leads to /dev/full */
  const int full = open("/dev/full", O_WRONLY);
  for (int fd = 3; fd < 64; fd++) {
    char link[64], to[1200];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t k = readlink(link, to, sizeof to - 1);
    if (k <= 0) continue;
    to[k] = 0;
    if (strstr(to, "/.full.")) dup2(full, fd);
  }
  close(full);
  static char big[100000];
  CHECK(file_writer_put(w, big, sizeof big) == GRPO_EIO);
  CHECK(strstr(err_message(), "full") != NULL);
  file_writer_put(w, "x", 1);
  CHECK(file_writer_commit(w) == GRPO_EIO);
  CHECK(!file_exists(tmp("full")));
}

TEST(reading_files_in_pieces) {
  FileInput *f = NULL;
  char got[8] = "";
  uint64_t size = 1;
  uint32_t sum = 1;
  CHECK(file_replace(tmp("m"), "abcdef", 6) == GRPO_OK);
  CHECK(file_input_open(&f, tmp("m")) == GRPO_OK && file_input_size(f) == 6);
  CHECK(file_input_read(f, 2, 3, got) == GRPO_OK && memcmp(got, "cde", 3) == 0);
  CHECK(file_input_read(f, 6, 0, got) == GRPO_OK);
  file_input_close(f);
  file_input_close(NULL);
  CHECK(file_replace(tmp("m"), "", 0) == GRPO_OK);
  CHECK(file_checksum(tmp("m"), &size, &sum) == GRPO_OK && size == 0 && sum == 0);
  CHECK(file_input_open(&f, tmp("absent")) == GRPO_ENOENT && strstr(err_message(), "absent"));
  CHECK(file_input_open(&f, test_tmp()) == GRPO_ENOENT && strstr(err_message(), "directory"));
  CHECK(file_input_open(&f, "/dev/null") == GRPO_ENOENT && !f);
}

TEST(a_file_that_is_cut_while_it_is_read_is_an_error) {
  FileInput *f = NULL;
  char got[6];
  CHECK(file_replace(tmp("cut"), "abcdef", 6) == GRPO_OK);
  CHECK(file_input_open(&f, tmp("cut")) == GRPO_OK);
  CHECK(truncate(tmp("cut"), 4) == 0);
  CHECK(file_input_read(f, 0, 6, got) == GRPO_EFORMAT);
  CHECK(strstr(err_message(), "/cut: the file was cut to 4 bytes") && strstr(err_message(), "6"));
  CHECK(file_input_read(f, 0, 4, got) == GRPO_OK && memcmp(got, "abcd", 4) == 0);
  file_input_close(f);
}

TEST(what_is_no_regular_file_is_refused_at_once) {
  FileInput *f;
  CHECK(mkfifo(tmp("pipe"), 0600) == 0 && !contents(tmp("pipe")));
  CHECK(strstr(err_message(), "/pipe: it is a named pipe"));
  CHECK(file_input_open(&f, tmp("pipe")) == GRPO_ENOENT && strstr(err_message(), "a named pipe"));
  CHECK(!contents("/dev/zero") && strstr(err_message(), "a device"));
  CHECK(!contents(test_tmp()) && strstr(err_message(), "a directory"));
  CHECK(!contents(tmp("absent")) && strstr(err_message(), "No such file"));
}

TEST(a_pipe_that_was_handed_over_is_read) {
  int ends[2];
  CHECK(pipe(ends) == 0 && write(ends[1], "abc", 3) == 3 && close(ends[1]) == 0);
  CHECK_STR(contents(test_path("/dev/fd/%d", ends[0])), "abc");
  close(ends[0]);
}

TEST(reading_appends_and_respects_the_limit) {
  Buf b = {0};
  CHECK(file_replace(tmp("a"), "12345", 5) == GRPO_OK);
  CHECK(file_read(tmp("a"), 5, &b) == GRPO_OK && file_read(tmp("a"), 0, &b) == GRPO_OK);
  CHECK_STR(b.data, "1234512345");
  CHECK(file_read(tmp("a"), 4, &b) == GRPO_ELIMIT);
  CHECK(file_read(test_tmp(), 0, &b) == GRPO_ENOENT);
  CHECK(file_read(tmp("absent"), 0, &b) == GRPO_ENOENT);
  buf_free(&b);
}

TEST(questions_about_files) {
  CHECK(file_replace(tmp("q"), "123", 3) == GRPO_OK);
  CHECK(file_exists(tmp("q")) && !file_is_dir(tmp("q")) && file_is_dir(test_tmp()));
  CHECK(file_size(tmp("q")) == 3 && file_mtime_ns(tmp("q")) > 1000000000LL * 1000000000);
  CHECK(!file_exists(tmp("nope")) && file_size(tmp("nope")) == -1);
  CHECK(file_mtime_ns(tmp("nope")) == -1);
}

TEST(lists_are_sorted_by_bytes) {
  file_mkdirs(tmp("list/sub"));
  static const char *files[] = {"b", "a", "\xc3\xa9", "B", ".hidden", "a b", "10", "9"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    CHECK(file_replace(test_path("%s/list/%s", test_tmp(), files[i]), "", 0) == GRPO_OK);
  CHECK_STR(names(tmp("list")), ".hidden 10 9 B a a b b sub \xc3\xa9");
  size_t n = 7;
  Buf b = {0};
  CHECK(file_list(tmp("nodir"), &b, &n) == GRPO_ENOENT && n == 0);
  buf_free(&b);
}

TEST(directories_are_made_with_their_parents) {
  CHECK(file_mkdirs(tmp("x/y//z/")) == GRPO_OK && file_is_dir(tmp("x/y/z")));
  CHECK(file_mkdirs(tmp("x/y")) == GRPO_OK);
  CHECK(file_replace(tmp("x/f"), "", 0) == GRPO_OK);
  CHECK(file_mkdirs(tmp("x/f")) == GRPO_EIO);
  CHECK(file_mkdirs(tmp("x/f/g")) != GRPO_OK);
  CHECK(file_mkdirs("") == GRPO_ENOENT);
  CHECK(file_mkdirs("/") == GRPO_OK);
}

TEST(links_are_replaced_in_one_move) {
  char to[256];
  const char *link = tmp("latest");
  for (int i = 0; i < 3; i++) {
    char target[32];
    snprintf(target, sizeof target, "step-%d", i);
    CHECK(file_link_replace(target, link) == GRPO_OK);
    const ssize_t n = readlink(link, to, sizeof to - 1);
    to[n > 0 ? n : 0] = 0;
    CHECK_STR(to, target);
  }
  CHECK(file_link_replace("x", tmp("absent/latest")) == GRPO_ENOENT);
}

TEST(temporaries_of_dead_processes_are_removed_and_nothing_else) {
  static const char *const names[] = {
      ".latest.1234-0.tmp", ".run.json.1-99.tmp", ".x.run.json.1-99.tmp",
      /* from here on: not ours */
      "latest.1234-0.tmp", ".latest.1234-.tmp", ".latest.-1.tmp", ".latest.12.tmp", ".latest.1-2",
      ".latest.1-2.tmp~", ".notes.tmp", ".1-2.tmp", "..tmp"};
  enum { COUNT = sizeof names / sizeof *names };
  file_mkdirs(tmp("left"));
  for (int i = 0; i < COUNT; i++)
    CHECK(symlink("nowhere", test_path("%s/left/%s", test_tmp(), names[i])) == 0);
  static const char *const of[] = {"latest", "run.json", NULL};
  for (int done = 1; done <= 3; done++) {
    CHECK(file_remove_temporaries(tmp("left"), of[done - 1]) == GRPO_OK);
    for (int i = 0; i < COUNT; i++) {
      char to[16];
      const char *path = test_path("%s/left/%s", test_tmp(), names[i]);
      if ((readlink(path, to, sizeof to) > 0) != (i >= done))
        test_fail(__FILE__, __LINE__, "%s after %d", names[i], done);
    }
  }
  CHECK(file_remove_temporaries(tmp("absent"), NULL) == GRPO_ENOENT);
}

TEST(renaming_files) {
  CHECK(file_replace(tmp("from"), "1", 1) == GRPO_OK && file_replace(tmp("to"), "2", 1) == GRPO_OK);
  CHECK(file_rename(tmp("from"), tmp("to")) == GRPO_OK);
  CHECK(!file_exists(tmp("from")));
  CHECK_STR(contents(tmp("to")), "1");
  CHECK(file_rename(tmp("from"), tmp("to")) == GRPO_ENOENT);
}

TEST(removing_a_tree_does_not_follow_links) {
  file_mkdirs(tmp("keep/inner"));
  CHECK(file_replace(tmp("keep/f"), "kept", 4) == GRPO_OK);
  file_mkdirs(tmp("tree/a/b/c"));
  for (int i = 0; i < 300; i++)
    CHECK(file_replace(test_path("%s/tree/a/%d", test_tmp(), i), "", 0) == GRPO_OK);
  CHECK(symlink("../../keep", tmp("tree/a/link")) == 0);
  CHECK(symlink("/nowhere/at/all", tmp("tree/dangling")) == 0);
  CHECK(file_remove_tree(tmp("tree")) == GRPO_OK);
  CHECK(!file_exists(tmp("tree")));
  CHECK_STR(contents(tmp("keep/f")), "kept");
  CHECK(file_is_dir(tmp("keep/inner")));
  CHECK(file_remove_tree(tmp("tree")) == GRPO_OK); /* already gone */
  CHECK(symlink("keep", tmp("way")) == 0);
  CHECK(file_remove_tree(tmp("way")) == GRPO_OK); /* the link itself */
  CHECK_STR(contents(tmp("keep/f")), "kept");
}

TEST(running_out_of_memory_leaves_the_old_file_and_leaks_nothing) {
  CHECK(file_replace(tmp("oom"), "old", 3) == GRPO_OK);
  const char *path = tmp("oom");
  const size_t live = mem_live_bytes();
  Status st = GRPO_ENOMEM;
  for (uint64_t n = 1; n < 50 && st != GRPO_OK; n++) {
    mem_fail_after(n);
    st = file_replace(path, "new", 3);
    mem_fail_after(0);
    CHECK(st == GRPO_OK || st == GRPO_ENOMEM);
  }
  CHECK(st == GRPO_OK);
  CHECK(mem_live_bytes() == live);
  CHECK_STR(contents(path), "new");
}
