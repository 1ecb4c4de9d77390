#include "os/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "os/file.h"

static Status system_error(const char *what) {
  return fail(GRPO_EIO, "%s: %s", what, strerror(errno));
}

/* Only calls that are safe between fork and exec: the parent may have threads. */
static _Noreturn void say_and_leave(const char *what) {
  const char *why = strerror(errno);
  if (write(STDERR_FILENO, what, strlen(what)) < 0 || write(STDERR_FILENO, ": ", 2) < 0 ||
      write(STDERR_FILENO, why, strlen(why)) < 0 || write(STDERR_FILENO, "\n", 1) < 0)
    _exit(127);
  _exit(127);
}

/* The parent's handlers would swallow a signal that comes before the program has its own. */
static void default_signals(const sigset_t *mask) {
  static const int handled[] = {SIGINT, SIGTERM, SIGUSR1};
  for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) signal(handled[i], SIG_DFL);
  struct sigaction hup; /* nohup ignores the signal, and it stays ignored */
  if (sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler != SIG_IGN) signal(SIGHUP, SIG_DFL);
  sigprocmask(SIG_SETMASK, mask, NULL);
}

static void end_with_parent(pid_t parent) {
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
#endif
  if (getppid() != parent) _exit(128 + SIGTERM); /* it ended before it could be watched */
}

static void share(int fd) {
  while (flock(fd, LOCK_SH) != 0)
    if (errno != EINTR) say_and_leave("cannot share a lock");
}

static _Noreturn void become(char *const argv[], int output, int shared) {
  const int null = open("/dev/null", O_RDONLY);
  if (null < 0) say_and_leave("/dev/null");
  dup2(null, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (null > STDERR_FILENO) close(null);
  if (output > STDERR_FILENO) close(output);
  if (shared >= 0) share(shared);
  execv(argv[0], argv);
  say_and_leave(argv[0]);
}

static Status start(Child *c, char *const argv[], int output, int shared) {
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  const pid_t parent = getpid(), pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    default_signals(&before);
    end_with_parent(parent);
    become(argv, output, shared);
  }
  const Status s = pid < 0 ? system_error("fork") : GRPO_OK;
  sigprocmask(SIG_SETMASK, &before, NULL);
  *c = (Child){.pid = (int)pid, .status = pid < 0 ? 127 : -1};
  return s;
}

Status child_start(Child *c, char *const argv[], const char *output, const char *shared) {
  *c = (Child){.status = 127};
  try(file_check_output(output));
  const int out = open(output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (out < 0) return system_error(output);
  /* not closed by exec: the program holds the lock as long as it lives */
  const int lock = shared ? open(shared, O_RDWR | O_CREAT, 0666) : -1;
  const Status s = shared && lock < 0 ? system_error(shared) : start(c, argv, out, lock);
  close(out);
  if (lock >= 0) close(lock);
  return s;
}

int child_poll(Child *c) {
  int status = 0;
  pid_t got = 0;
  if (c->status >= 0) return c->status;
  do got = waitpid(c->pid, &status, WNOHANG);
  while (got < 0 && errno == EINTR);
  if (got == c->pid) c->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (got < 0) c->status = 127; /* somebody else has waited for it */
  return c->status;
}

void child_signal(Child *c, int number) {
  if (child_poll(c) < 0) kill(c->pid, number);
}
