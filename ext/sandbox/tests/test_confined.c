/* A function in a process of its own: its answer, and what ends it. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "sandbox/confined.h"
#include "testing.h"

static const ConfinedLimits plenty = {60, (size_t)64 << 20, 1 << 20};

static void greet(void *user, Buf *answer) { buf_puts(answer, user); }

static void loop(void *user, Buf *answer) {
  (void)answer;
  for (volatile int *n = user;;) ++*n;
}

static void babble(void *user, Buf *answer) {
  (void)user;
  for (int i = 0; i < 1 << 16; i++) buf_puts(answer, "0123456789012345678901234567890123456789");
}

static void crash(void *user, Buf *answer) {
  (void)user;
  (void)answer;
  abort();
}

/* Tries files, processes and sockets, and answers with those that work. */
static void reach_out(void *user, Buf *answer) {
  (void)user;
  const int fd = open("/etc/passwd", O_RDONLY), s = socket(AF_INET, SOCK_STREAM, 0);
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  buf_printf(answer, "%s%s%s", fd >= 0 ? "file " : "", s >= 0 ? "socket " : "",
             pid > 0 ? "process" : "");
}

TEST(an_answer) {
  Buf b = {0};
  char text[] = "hello";
  CHECK(confined_run(greet, text, &plenty, &b) == GRPO_OK);
  CHECK_STR(b.data, "hello");
  buf_free(&b);
}

TEST(time_is_over) {
  Buf b = {0};
  int n = 0;
  const ConfinedLimits brief = {0.05, 0, 100};
  CHECK(confined_run(loop, &n, &brief, &b) == GRPO_ELIMIT);
  CHECK(strstr(err_message(), "0.05 seconds") != NULL);
  CHECK(n == 0);
  buf_free(&b);
}

TEST(too_long_an_answer) {
  Buf b = {0};
  CHECK(confined_run(babble, NULL, &plenty, &b) == GRPO_ELIMIT);
  buf_free(&b);
}

TEST(a_crash_is_the_childs_own) {
  Buf b = {0};
  CHECK(confined_run(crash, NULL, &plenty, &b) == GRPO_ELIMIT);
  buf_free(&b);
}

TEST(nothing_can_be_reached) {
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  if (prctl(PR_GET_SECCOMP) != 0) {
    test_skip("no seccomp here, as in an emulator of a user's programs");
    return;
  }
  Buf b = {0};
  CHECK(confined_run(reach_out, NULL, &plenty, &b) == GRPO_OK);
  CHECK(b.len == 0);
  buf_free(&b);
#else
  (void)reach_out;
  test_skip("needs seccomp, without a sanitizer");
#endif
}
