/* A process in the background: its word, its status, its output. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "os/detach.h"
#include "os/file.h"
#include "testing.h"

TEST(the_child_speaks_once_and_writes_to_its_log) {
  char log[512], line[64];
  snprintf(log, sizeof log, "%s/log", test_tmp());
  Detached d;
  int exited = 0;
  CHECK(detach_fork(&d) == GRPO_OK);
  if (d.child) {
    const bool own_session = getsid(0) == getpid();
    const Status s = detach_ready(&d, log, own_session ? "begun\n" : "same session\n");
    if (s || write(STDERR_FILENO, "words", 5) != 5) _exit(1);
    _exit(0);
  }
  CHECK(detach_wait(&d, line, sizeof line, NULL, &exited) == GRPO_OK);
  CHECK_STR(line, "begun\n");
  CHECK(exited == -1);
  Buf text = {0};
  for (int i = 0; i < 200 && text.len < 5; i++) {
    usleep(10000);
    text.len = 0;
    CHECK(file_read(log, 0, &text) == GRPO_OK);
  }
  CHECK(text.len == 5 && memcmp(text.data, "words", 5) == 0);
  buf_free(&text);
}

TEST(a_child_that_fails_at_the_start_gives_its_status) {
  char line[8];
  Detached d;
  int exited = 0;
  CHECK(detach_fork(&d) == GRPO_OK);
  if (d.child) _exit(3);
  CHECK(detach_wait(&d, line, sizeof line, NULL, &exited) == GRPO_OK);
  CHECK(exited == 3);
  CHECK_STR(line, "");
}

TEST(a_signal_is_passed_on) {
  char line[8];
  Detached d;
  int exited = 0;
  const volatile int stop = 1;
  CHECK(detach_fork(&d) == GRPO_OK);
  if (d.child) {
    for (;;) pause();
  }
  CHECK(detach_wait(&d, line, sizeof line, &stop, &exited) == GRPO_OK);
  CHECK(exited == 128 + SIGTERM);
}

TEST(a_log_that_cannot_be_opened) {
  char log[512], line[64];
  snprintf(log, sizeof log, "%s/none/log", test_tmp());
  Detached d;
  int exited = 0;
  CHECK(detach_fork(&d) == GRPO_OK);
  if (d.child) _exit(detach_ready(&d, log, "begun\n") == GRPO_EIO ? 5 : 0);
  CHECK(detach_wait(&d, line, sizeof line, NULL, &exited) == GRPO_OK);
  CHECK(exited == 5);
}
