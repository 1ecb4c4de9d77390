/* Programs that are started: their output, status, signals, the lock that they share. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "os/child.h"
#include "os/file.h"
#include "testing.h"

static char *const *shell(const char *text) {
  static char *argv[4] = {"/bin/sh", "-c", NULL, NULL};
  argv[2] = (char *)(size_t)text;
  return argv;
}

static const char *place(const char *name) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", test_tmp(), name);
  return path;
}

static int wait_for(Child *c) {
  for (int i = 0; i < 2000 && child_poll(c) < 0; i++) usleep(5000);
  return child_poll(c);
}

TEST(a_child_has_an_empty_input_and_its_outputs_in_a_file) {
  Child c;
  char log[512];
  snprintf(log, sizeof log, "%s", place("log"));
  CHECK(child_start(&c, shell("cat; echo out; echo err >&2; exit 3"), log, NULL) == GRPO_OK);
  CHECK(wait_for(&c) == 3);
  CHECK(child_poll(&c) == 3);
  Buf text = {0};
  CHECK(file_read(log, 0, &text) == GRPO_OK);
  CHECK(text.len == 8 && memcmp(text.data, "out\nerr\n", 8) == 0);
  buf_free(&text);
}

TEST(a_signal_ends_it_and_it_has_a_group_of_its_own) {
  Child c;
  CHECK(child_start(&c, shell("while :; do sleep 1; done"), place("log2"), NULL) == GRPO_OK);
  CHECK(child_poll(&c) == -1);
  for (int i = 0; i < 1000 && getpgid(c.pid) != c.pid; i++) usleep(1000);
  CHECK(getpgid(c.pid) == c.pid);
  child_signal(&c, SIGTERM);
  CHECK(wait_for(&c) == 128 + SIGTERM);
  child_signal(&c, SIGTERM); /* to nobody */
}

TEST(what_cannot_be_executed_or_written_is_said) {
  Child c;
  char log[512];
  char *argv[] = {"/dev/null/program", NULL};
  snprintf(log, sizeof log, "%s", place("log3"));
  CHECK(child_start(&c, argv, log, NULL) == GRPO_OK);
  CHECK(wait_for(&c) == 127);
  Buf text = {0};
  CHECK(file_read(log, 0, &text) == GRPO_OK);
  CHECK(text.len > 20 && memcmp(text.data, "/dev/null/program: ", 19) == 0);
  buf_free(&text);
  CHECK(child_start(&c, argv, "/dev/null/log", NULL) == GRPO_EIO);
  CHECK(child_start(&c, argv, log, "/dev/null/lock") == GRPO_EIO);
}

TEST(it_holds_the_lock_until_it_ends) {
  Child c;
  char lock[512];
  snprintf(lock, sizeof lock, "%s", place("lock"));
  CHECK(child_start(&c, shell("echo begun; while :; do sleep 1; done"), place("log4"), lock) ==
        GRPO_OK);
  for (int i = 0; i < 1000 && file_size(place("log4")) <= 0; i++) usleep(5000);
  const int fd = open(lock, O_RDWR);
  CHECK(fd >= 0);
  CHECK(flock(fd, LOCK_EX | LOCK_NB) != 0);
  child_signal(&c, SIGKILL);
  CHECK(wait_for(&c) == 128 + SIGKILL);
  bool ours = false; /* its `sleep` has the lock too, for a second */
  for (int i = 0; i < 1000 && !ours; i++) {
    ours = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (!ours) usleep(5000);
  }
  CHECK(ours);
  close(fd);
}

#ifdef __linux__
TEST(it_ends_with_whoever_started_it) {
  Child c;
  int ends[2];
  char byte;
  CHECK(pipe(ends) == 0);
  const pid_t middle = fork();
  if (middle == 0) {
    /* the child has the pipe open, so that its end can be seen */
    if (child_start(&c, shell("echo begun; while :; do sleep 1; done"), place("log5"), NULL))
      _exit(1);
    for (int i = 0; i < 1000 && file_size(place("log5")) <= 0; i++) usleep(5000);
    raise(SIGKILL);
  }
  close(ends[1]);
  CHECK(waitpid(middle, NULL, 0) == middle);
  CHECK(read(ends[0], &byte, 1) == 0);
  close(ends[0]);
}
#endif
