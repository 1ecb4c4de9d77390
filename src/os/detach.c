#include "os/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/file.h"

static Status system_error(const char *what) {
  return fail(GRPO_EIO, "%s: %s", what, strerror(errno));
}

static void become_background(Detached *d, const int *ends) {
  close(ends[0]);
  *d = (Detached){.child = true, .pipe = ends[1]};
  setsid();
  signal(SIGPIPE, SIG_IGN); /* the parent may have ended by the time the child is ready */
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) {
    dup2(null, STDIN_FILENO);
    close(null);
  }
}

Status detach_fork(Detached *d) {
  int ends[2];
  if (pipe(ends) != 0) return system_error("pipe");
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  fcntl(ends[1], F_SETFD, FD_CLOEXEC);
  const pid_t pid = fork();
  if (pid < 0) {
    const Status s = system_error("fork");
    close(ends[0]);
    close(ends[1]);
    return s;
  }
  if (pid == 0) {
    become_background(d, ends);
    return GRPO_OK;
  }
  close(ends[1]);
  *d = (Detached){.pipe = ends[0], .pid = (int)pid};
  return GRPO_OK;
}

Status detach_ready(Detached *d, const char *log, const char *line) {
  try(file_check_output(log));
  const int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (fd < 0) return system_error(log);
  dup2(fd, STDOUT_FILENO);
  dup2(fd, STDERR_FILENO);
  close(fd);
  size_t left = strlen(line);
  while (left) {
    const ssize_t n = write(d->pipe, line, left);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    line += n;
    left -= (size_t)n;
  }
  close(d->pipe);
  d->pipe = -1;
  return GRPO_OK;
}

static int exit_status(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Waits until the pipe has data or is closed; passes one signal on to the child. */
static void wait_readable(const Detached *d, const volatile int *stop, bool *told) {
  struct pollfd p = {.fd = d->pipe, .events = POLLIN};
  for (;;) {
    const int n = poll(&p, 1, 200);
    if (n > 0 || (n < 0 && errno != EINTR)) return;
    if (stop && *stop && !*told) {
      *told = true;
      kill(d->pid, SIGTERM);
    }
  }
}

Status detach_wait(Detached *d, char *line, int size, const volatile int *stop, int *exited) {
  int n = 0;
  bool told = false;
  *exited = -1;
  while (n < size - 1) {
    wait_readable(d, stop, &told);
    const ssize_t got = read(d->pipe, line + n, (size_t)(size - 1 - n));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("pipe");
    if (got == 0) break;
    n += (int)got;
  }
  close(d->pipe);
  line[n] = '\0';
  if (n == 0) *exited = exit_status(d->pid);
  return GRPO_OK;
}
